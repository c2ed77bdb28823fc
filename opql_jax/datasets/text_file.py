"""The document that a file is: its title, what it is about, and its text."""

import collections
import dataclasses
import pathlib
import re
from collections.abc import Iterable

from opql_jax.core.errors import InputError
from opql_jax.core.processes import LimitedProcess
from opql_jax.corpus.definitions import subject
from opql_jax.corpus.documents import MAX_MENTION, Document
from opql_jax.corpus.json_lines import check_string, read_text
from opql_jax.corpus.layout import cleaned
from opql_jax.corpus.name_resolution import fold
from opql_jax.datasets import pdf_text
from opql_jax.datasets.html_text import HtmlPage, read_html
from opql_jax.datasets.mail_text import SECONDS, read_mail, subject_of
from opql_jax.datasets.text_records import as_read, check_text

# Files that are one document each.
SUFFIXES = ('.txt', '.md', '.html', '.htm', '.pdf', '.eml')
# Front matter, and the title that it states.
_FRONT_MATTER = re.compile(
    r'---[ \t]*\n(?P<fields>(?:(?!---)[\w-][^\n]*\n|[ \t][^\n]*\n){1,60}?)---[ \t]*(?:\n|$)'
)
_STATED_TITLE = re.compile(r'^title:[ \t]*["\']?(?P<title>[^\n]{1,100}?)["\']?[ \t]*$', re.M | re.I)
# Headings of wikis, and what underlines one.
_WIKI_HEADING = re.compile(r'(?P<marks>={1,6})[ \t]*(?P<title>[^=\s][^=]*)(?P=marks)')
_UNDERLINE = re.compile(r'([=~*-])\1{3,}')
# A heading may end with one: 'Molde F.C.'
_ABBREVIATED = re.compile(r'\b(?:(?:[A-Z]\.){2,}|(?:Jr|Sr|Inc|Ltd|Co|Corp)\.)$')
# The longest line that may be a heading, unless it is one of Markdown.
_MAX_HEADING = 100
# Characters in which the spelling of a file's name is looked for.
_LOOKED_AT = 100_000
# A first line of this many files may be boilerplate, such as a copyright notice.
_REPEATED = 3


def document_of_file(
    label: str, path: pathlib.Path, process: LimitedProcess, repeated: frozenset[str]
) -> Document:
    """The document that a file is, about its heading, its name in the text, or what it defines."""
    title, text, date = _read(path, process)
    check_string('text', text)
    check_text(text)
    document, suffix = _titled(label, path, title, cleaned(text), repeated), path.suffix.lower()
    if date:
        document = dataclasses.replace(document, text=f'date: {date}\n\n{document.text}')
    return as_read(
        document, is_filled=suffix in ('.txt', '.md', '.eml'), is_markdown=suffix == '.md'
    )


def _read(path: pathlib.Path, process: LimitedProcess) -> HtmlPage:
    """The text of a file, with the title and date that its format states, if it has any."""
    suffix = path.suffix.lower()
    if suffix == '.pdf':
        return HtmlPage(*pdf_text.read_pdf(path, process))
    if suffix == '.eml':
        return HtmlPage(None, process.call(read_mail, path.read_bytes(), SECONDS))
    try:
        text = read_text(path)
    except InputError as error:
        # The message names the file by its label.
        raise InputError(str(error).removeprefix(f'{path}: ')) from error
    return read_html(text) if suffix in ('.html', '.htm') else HtmlPage(None, text)


def _titled(
    label: str, path: pathlib.Path, title: str | None, text: str, repeated: frozenset[str]
) -> Document:
    if title:
        return Document(label, title, text, title_entity=title)
    if title := subject_of(text.lstrip()):
        return Document(label, title, text, title_entity=subject(text))
    first, _, after = text.lstrip().partition('\n')
    is_repeated = _may_be_heading(first) and first.strip() in repeated and after.strip()
    if is_repeated and not _says(after, first.strip('# \t')):
        text = after
    title, rest = _heading(text) if path.suffix.lower() != '.eml' else ('', '')
    if title and rest:
        return Document(label, title, rest, title_entity=title)
    title = re.sub(r'[_-]+', ' ', path.stem).strip() or path.stem
    # Files that are numbered, or named by a letter, are not about it.
    if re.search(r'[^\W\d_]\w', title) and _says(text, title):
        title = _as_written(title, text)
        return Document(label, title, text, title_entity=title)
    about = subject(text)
    return Document(label, about or title, text, title_entity=about)


def repeated_beginnings(paths: Iterable[pathlib.Path]) -> frozenset[str]:
    """The first lines that `_REPEATED` text files or more begin with, such as '#copyright'."""
    first: collections.Counter[str] = collections.Counter()
    for path in paths:
        if path.suffix.lower() in ('.txt', '.md'):
            try:
                with path.open('rb') as file:
                    start = file.read(4 * _MAX_HEADING).decode('utf-8-sig', 'replace')
                first[start.strip().partition('\n')[0].strip()] += 1
            except OSError:
                continue  # whoever reads it says why it cannot be read
    often = (line for line, count in first.items() if count >= _REPEATED)
    return frozenset(line for line in often if re.search(r'\w', line))


def _heading(text: str) -> tuple[str, str]:
    """A heading of Markdown or a wiki, or a short line that stands alone, and the text after."""
    front = _FRONT_MATTER.match(text.lstrip())
    if not front:
        return _first_line(text.lstrip())
    body = front.string[front.end() :]
    title, rest = _first_line(body.lstrip())
    stated = _STATED_TITLE.search(front['fields'])
    about = stated['title'].strip() if stated else title
    return about, f'{front["fields"]}\n{rest if title and rest else body}'


def _first_line(text: str) -> tuple[str, str]:
    """The first line as a heading, and what stands below it; '' if it is none."""
    line, _, rest = text.partition('\n')
    line = line.rstrip()
    if len(line) <= MAX_MENTION and (wiki := _WIKI_HEADING.fullmatch(line)):
        title = wiki['title'].strip()
    elif marks := re.match('#{1,6}[ \\t]+', line):
        title = line[marks.end() :]
        bare = title.rstrip('#')  # marks may close a heading, after a space: 'C#' is none
        title = bare.rstrip() if bare[-1:] in ('', ' ', '\t') else title
        title = title if len(title) <= MAX_MENTION else ''
    else:
        after, newline, rest = rest.partition('\n')
        is_apart = not after.strip() or _UNDERLINE.fullmatch(after.rstrip())
        stands_alone = newline and is_apart and _may_be_heading(line)
        title = line.lstrip('#').strip() if stands_alone else ''
    return title, rest.strip('\n') if rest.strip() else ''


def _may_be_heading(line: str) -> bool:
    line = line.rstrip()
    ends = line[-1:] not in '.!?,;' or _ABBREVIATED.search(line)
    return len(line) <= _MAX_HEADING and bool(ends)


def _as_written(name: str, text: str) -> str:
    """A name as the text writes it with most capitals: 'Ann Low' of the file `ann-low.txt`."""
    words = r'[\W_]{1,3}'.join(map(re.escape, name.split()))
    spellings = re.findall(rf'(?<!\w){words}(?!\w)', text[:_LOOKED_AT], re.I)
    capitals = lambda spelling: sum(map(str.isupper, spelling))
    titled = [each for each in spellings if not each.isupper()] or spellings
    return max([name, *titled], key=capitals)


def _says(text: str, name: str) -> bool:
    return f' {fold(name)} ' in f' {fold(text)} '
