"""The text of a PDF file in paragraphs, without what its pages repeat (extra `pdf`)."""

import collections
import importlib.util
import pathlib
import re
import statistics

from opql_jax.core.errors import InputError
from opql_jax.core.processes import LimitedProcess
from opql_jax.corpus.layout import goes_on
from opql_jax.corpus.name_resolution import fold
from opql_jax.datasets.pdf_pages import read_pages

# A file can make pypdf use any amount of memory and time: a stream may hold a thousand times its
# bytes. Sound pages of text take 0.05 s each, a MiB of them less than a minute, and a tenth of this
# memory.
MEMORY = 2 << 30
SECONDS, SECONDS_PER_MIB = 20, 60

# Lines at the top and bottom of a page that are headers if this many pages repeat them.
_EDGE_LINES, _REPEATED_ON = 2, 3
# A line shorter than this share of the median ends a paragraph; the median is taken to be at least
# so many characters.
_SHORT, _LEAST_USUAL = 0.7, 40
# A title is on one of the first pages, in a few lines.
_TITLE_PAGES, _TITLE_LINES = 2, 4
_LONGEST_TITLE = 1000
_HYPHEN = '-\N{HYPHEN}\N{SOFT HYPHEN}'
# Ligatures, and NUL, which stands for glyphs without a letter.
_REPLACED = str.maketrans(dict(zip('ﬀﬁﬂﬃﬄﬅﬆ\0', ['ff', 'fi', 'fl', 'ffi', 'ffl', 'st', 'st', ' '])))
_PAGE_NUMBER = re.compile(r'[-–—|\s]*(?:\d+|[ivxlc]+)(?:\s*/\s*\d+)?[-–—|\s]*')


def check_installed() -> None:
    """Raises InputError unless pypdf is there."""
    if importlib.util.find_spec('pypdf') is None:
        raise InputError('PDF files need pypdf: run `pip install opql_jax[pdf]`')


def read_pdf(path: pathlib.Path, process: LimitedProcess | None = None) -> tuple[str | None, str]:
    """A PDF file's title, or None, and text, with a blank line between paragraphs.

    The title is that of the metadata if the first pages say it (`_say`). A `process` sets limits.
    InputError if it is unreadable, encrypted, without text, or exceeds them.
    """
    seconds = SECONDS + SECONDS_PER_MIB * path.stat().st_size / (1 << 20)
    title, pages = process.call(read_pages, path, seconds) if process else read_pages(path)
    if not any(map(str.strip, pages)):
        raise InputError(
            f'no text in {len(pages)} pages: if they are images, recognise it (`ocrmypdf`)'
        )
    paragraphs = _paragraphs(_lines(pages))
    text = '\n\n'.join(paragraphs)
    if not title or len(title) > _LONGEST_TITLE or not _say(pages[:_TITLE_PAGES], title):
        return None, text
    after_title = '\n\n'.join(paragraphs[_begin_with(paragraphs, title) :])
    return ' '.join(title.split()), after_title or text


def _say(pages: list[str], title: str) -> bool:
    """Whether pages have a title in lines of its own or, if it has several words, in a sentence."""
    lines = [line for page in pages for line in _lines_of(page)]
    if any(_begin_with(lines[i : i + _TITLE_LINES], title) for i in range(len(lines))):
        return True
    words = title.split()
    said = r'(?<!\w)' + r'\s+'.join(map(re.escape, words)) + r'(?!\w)'
    return len(words) > 1 and re.search(said, ' '.join(lines)) is not None


def _lines_of(page: str) -> list[str]:
    return [line for line in map(str.strip, page.translate(_REPLACED).splitlines()) if line]


def _begin_with(lines: list[str], title: str) -> int:
    """The number of lines, or paragraphs, at the beginning that form the title; 0 if none do."""
    title = fold(title)
    return next((n for n in range(1, _TITLE_LINES + 1) if fold(' '.join(lines[:n])) == title), 0)


def _lines(pages: list[str]) -> list[str]:
    """The lines of all pages without their headers, footers and numbers."""
    by_page = [_lines_of(page) for page in pages]
    numbered = lambda line: re.sub(r'\d+', '#', line)  # a header may hold the number of its page
    at_edges: collections.Counter[str] = collections.Counter()
    for lines in by_page:
        at_edges.update(set(map(numbered, lines[:_EDGE_LINES] + lines[-_EDGE_LINES:])))
    for lines in by_page:
        for edge in [0] * _EDGE_LINES + [-1] * _EDGE_LINES:
            often = lines and at_edges[numbered(lines[edge])] >= _REPEATED_ON
            if lines and (often or _PAGE_NUMBER.fullmatch(lines[edge])):
                lines.pop(edge)
    return [line for lines in by_page for line in lines]


def _paragraphs(lines: list[str]) -> list[str]:
    """Joins lines into paragraphs, and words divided at line ends."""
    short = _SHORT * max([_LEAST_USUAL, statistics.median(map(len, lines))]) if lines else 0
    # Each of pieces, which are joined at last: a table may be one paragraph of thousands of lines.
    paragraphs: list[list[str]] = []
    ended = True
    for line in lines:
        end = paragraphs[-1][-1][-2:] if paragraphs else ''
        if ended:
            paragraphs.append([line])
        elif re.fullmatch(rf'\w[{_HYPHEN}]', end):
            # 'encyclo-', 'pedia', but 'Joliot-', 'Curie' and '1914-', '1918'
            if line[0].islower() and end[0].isalpha():
                paragraphs[-1][-1] = paragraphs[-1][-1][:-1]
            paragraphs[-1].append(line)
        else:
            paragraphs[-1] += [' ', line]
        ended = len(line) < short and line[-1] not in _HYPHEN and not goes_on(line)
    return [''.join(pieces).replace('\N{SOFT HYPHEN}', '') for pieces in paragraphs]
