"""The reader of English text without links: files, folders, documents in memory (extra `text`)."""

import collections
import contextlib
import dataclasses
import functools
import glob
import hashlib
import importlib.metadata
import itertools
import json
import logging
import numbers
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, ClassVar

import pyarrow as pa

from opql_jax.core import files as storage
from opql_jax.core.batch_cache import MapBatches, map_rows_cached
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import is_folder_of
from opql_jax.core.processes import LimitedProcess, map_ordered
from opql_jax.core.progress import logged
from opql_jax.corpus import casing, recognition, tables
from opql_jax.corpus.concepts import find_concepts
from opql_jax.corpus.definitions import guides_to, subject
from opql_jax.corpus.documents import (
    MAX_MENTION,
    Document,
    document_from_json,
    validate,
    write_documents,
)
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import check_string, errors_at, read_text, short_repr
from opql_jax.corpus.layout import cleaned, unfilled
from opql_jax.corpus.name_resolution import fold, resolve
from opql_jax.corpus.rejected import add_rejected, convert_records
from opql_jax.corpus.spans import Span
from opql_jax.corpus.statements import restated
from opql_jax.corpus.words import word_list
from opql_jax.datasets import pdf_text
from opql_jax.datasets.document_files import is_document_file, read_document_file
from opql_jax.datasets.html_text import read_html
from opql_jax.datasets.readers import Reader

_log = logging.getLogger(__name__)

# Files that are one document each.
SUFFIXES = ('.txt', '.md', '.html', '.htm', '.pdf')
_EXPECTED = f'{", ".join(SUFFIXES)}, .jsonl, .parquet or MediaWiki dumps (.xml, .xml.bz2, .xml.gz)'
# Longest document: its names are found in one go, and answers cite it as a whole.
MAX_CHARACTERS = 10_000_000
# Maximum number of files or documents named in a message.
MOST_TOLD = 30
# Documents per batch of recognition.
BATCH_DOCUMENTS = 256
# The modules of `corpus` that decide which names are recognised.
_MODULES_OF_NAMES = 'recognition name_kinds spans definitions linking layout'.split()
# Fewest words to tell a language by, and the least share of its frequent ones (prose has .3 to .5).
JUDGED_FROM, FREQUENT_SHARE = 50, 0.05
# Characters of a text that are looked at to tell its language.
JUDGED_CHARACTERS = 100_000
_ENGLISH = word_list('english')
_OTHER = word_list('other_languages')
_WORD = re.compile(r'\w+')
# Front matter, and the title that it states.
_FRONT_MATTER = re.compile(
    r'---[ \t]*\n(?P<fields>(?:[\w-][^\n]*\n|[ \t]+[^\n]*\n){1,60}?)---[ \t]*(?:\n|$)'
)
_STATED_TITLE = re.compile(r'^title:[ \t]*["\']?(?P<title>[^\n]{1,100}?)["\']?[ \t]*$', re.M | re.I)
# A heading may end with one: 'Molde F.C.'
_ABBREVIATED = re.compile(r'\b(?:(?:[A-Z]\.){2,}|(?:Jr|Sr|Inc|Ltd|Co|Corp)\.)$')
# A link or a picture of Markdown, of which only the words are read.
_LINK = re.compile(r'!?\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}(?: "[^"\n]{0,200}")?\)')
# The longest line that may be a heading, unless it is one of Markdown.
_MAX_HEADING = 100
# A first line of this many files may be boilerplate, such as a copyright notice.
_REPEATED = 3


@dataclasses.dataclass(frozen=True)
class PlainText(Reader):
    """English text without entity links.

    Files that end in one of `SUFFIXES` are one document each, called by its heading or else by its
    file. A .jsonl file has a document `{id, title?, text}` a line, a .parquet file one a row, and a
    dump of MediaWiki (.xml, .xml.bz2 or .xml.gz) one an article, with the id of its page.

    Attributes:
        sources: files, and folders or patterns such as `articles/*.txt` and `**/*.md`, which are
            searched for files of these kinds. Other files are left out, as are knowledge bases
            within them. Records `{id, title, text}` in memory come last.
        max_reject_fraction: share of bad documents above which the corpus is refused: empty ones,
            not in UTF-8, or not English. Repeated texts are left out and do not count.
        processes: that recognise names; None for one per core.
        map_batches: recognises names elsewhere, see `corpus.spark.map_ordered`; in these processes
            if None.
        cache: a folder that keeps the recognised names of each text; None keeps them until the text
            is prepared.
    """

    paths: ClassVar = ('sources', 'processes', 'map_batches', 'cache')
    sources: tuple[str | os.PathLike | dict[str, Any], ...]
    max_reject_fraction: float = 0.01
    processes: int | None = 1
    map_batches: MapBatches | None = None
    cache: pathlib.Path | None = None

    def __str__(self) -> str:
        return ', '.join([*self.on_disk, *(['texts'] if self.in_memory else [])])

    @property
    def on_disk(self) -> list[str]:
        """The files, folders and patterns among the sources."""
        return [os.fspath(source) for source in self.sources if not isinstance(source, dict)]

    @property
    def in_memory(self) -> dict[str, dict[str, Any]]:
        """The records among the sources, by what messages call them: their places, from 0."""
        numbered = enumerate(self.sources)
        return {f'text {i}': source for i, source in numbered if isinstance(source, dict)}

    @functools.cached_property
    def _inside(self) -> dict[str, tuple[pathlib.Path, list[pathlib.Path]]]:
        """Each source's files, and the folder that their labels are relative to."""
        found = {}
        for source in self.on_disk:
            path = pathlib.Path(source)
            if path.is_dir():
                found[source] = path.parent, _files(path.rglob('*'), path)
            elif path.exists():
                found[source] = path.parent, [path]
            elif glob.has_magic(source):
                plain = itertools.takewhile(lambda part: not glob.has_magic(part), path.parts)
                folder = pathlib.Path(*plain)
                inside = _files(map(pathlib.Path, glob.glob(source, recursive=True)), folder)
                if not inside:
                    raise InputError(f'{source}: no file has a name of this pattern')
                found[source] = folder, inside
            else:
                raise InputError(f'{source}: no such file or folder')
        return found

    def files(self):
        """The files by the label that becomes a document's id, and all records as 'texts'."""
        found: dict[str, Any] = {}
        for source, (folder, inside) in self._inside.items():
            readable = [path for path in inside if _is_readable(path)]
            if not readable:
                raise InputError(f'{source}: no text to read: expected {_EXPECTED}')
            for path in readable:
                label = path.relative_to(folder).as_posix()
                if (other := found.setdefault(label, path)) != path:
                    both = f'{path} and {other}: both are {label}'
                    raise InputError(f'{both}: give their common folder')
        if self.in_memory:
            records = {place: document_fields(record) for place, record in self.in_memory.items()}
            found['texts'] = json.dumps(records, default=str).encode()
        return found

    def read(self, rejected_path):
        documents = self.documents(rejected_path)
        write_documents(rejected_path.with_name(tables.DOCUMENTS_FILE), documents)
        parts = self.cache or storage.below(rejected_path.parent, tables.PARTS)
        return link_names(documents, parts, str(self), self.processes, self.map_batches)

    def documents(self, rejected_path: pathlib.Path) -> list[Document]:
        """All documents, each text and each id once. Bad ones are added to `rejected_path`."""
        files = {label: path for label, path in self.files().items() if label != 'texts'}
        singles = {label: path for label, path in files.items() if path.suffix.lower() in SUFFIXES}
        if any(path.suffix.lower() == '.pdf' for path in singles.values()):
            pdf_text.check_installed()
        rejecting = rejected_path, self.max_reject_fraction
        repeated, source = _repeated_beginnings(singles.values()), ', '.join(self.on_disk)
        with LimitedProcess(pdf_text.MEMORY) as process:
            from_file = functools.partial(_from_file, process=process, repeated=repeated)
            read = convert_records(source, singles.items(), from_file, 'files', *rejecting)
        for path in [path for label, path in files.items() if label not in singles]:
            read += read_document_file(path, document_from_record, *rejecting)
        from_record = lambda _, record: document_from_record(record)
        read += convert_records('texts', self.in_memory.items(), from_record, 'texts', *rejecting)
        documents: list[Document] = []
        copies: list[tuple[str, str]] = []
        others: list[tuple[str, str]] = []
        place_of_text: dict[str, str] = {}
        place_of_id: dict[str, str] = {}
        for place, document in read:
            if document.text in place_of_text:
                copies.append((place, f'the text of {place_of_text[document.text]}'))
            elif document.id in place_of_id:
                before = f'{short_repr(document.id)} is that of {place_of_id[document.id]}'
                others.append((place, f'id: {before}, another text, which is kept'))
            else:
                documents.append(document)
                place_of_text[document.text] = place_of_id[document.id] = place
        if copies:
            repeats = 'have the text of an earlier one and are left out'
            _log.info(f'{len(copies)} of {len(read)} documents {repeats}')
        if others:
            repeats = f'have the id of another one and are left out, see {rejected_path}'
            _log.warning(f'{len(others)} of {len(read)} documents {repeats}: give each its own id')
        add_rejected(rejected_path, [*copies, *others])
        # Short texts, such as single sentences, are judged together.
        short = [d.text for d in documents if len(_words(d.text)) < JUDGED_FROM]
        if shares := _other_language(short):
            doubt = f'are not English: {shares}. Few names will be recognised in them'
            _log.warning(f'{len(short)} short documents {doubt}')
        _warn_of_case(documents)
        return documents

    def left_out(self) -> list[str]:
        """Labels of files that are not read, and of dangling links; hidden ones last."""
        found = {
            path.relative_to(folder).as_posix()
            for folder, inside in self._inside.values()
            for path in inside
            if not _is_readable(path)
        }
        is_hidden = lambda label: any(part.startswith('.') for part in label.split('/'))
        return sorted(found, key=lambda label: (is_hidden(label), label))


@dataclasses.dataclass(frozen=True)
class StoredText(Reader):
    """Documents that `PlainText.documents` has read before, to make the next version of.

    `source` says where they come from, for messages; `rejected` is the `rejected.jsonl` of the
    version before, which is taken over; for the rest see `PlainText`.
    """

    paths: ClassVar = ('documents', 'source', 'rejected', 'cache', 'processes', 'map_batches')
    documents: tuple[Document, ...]
    source: str
    rejected: pathlib.Path
    cache: pathlib.Path
    processes: int | None = 1
    map_batches: MapBatches | None = None

    def read(self, rejected_path):
        shutil.copyfile(self.rejected, rejected_path)
        write_documents(rejected_path.with_name(tables.DOCUMENTS_FILE), self.documents)
        how = self.processes, self.map_batches
        return link_names(self.documents, self.cache, self.source, *how)


def link_names(
    documents: Sequence[Document],
    parts: pathlib.Path,
    source: str,
    processes: int | None = 1,
    map_batches: MapBatches | None = None,
) -> tuple[EntityVocab, list[Document]]:
    """Recognises names in documents without mentions: the entities, and linked documents.

    Spans are kept in the folder `parts`; see `PlainText`. InputError if no document has a name.
    """
    dictionary = functools.partial(casing.load_dictionary, recognition.MODELS)
    texts = [document.text for document in documents]
    texts = casing.cased(texts, dictionary, recognition.persons_and_places)
    parts_of_texts = (texts[i : i + BATCH_DOCUMENTS] for i in range(0, len(texts), BATCH_DOCUMENTS))
    batches = (pa.RecordBatch.from_pydict({'text': part}) for part in parts_of_texts)
    map_batches = map_batches or functools.partial(map_ordered, processes=processes)
    kept = storage.below(parts, f'{_recognition_version()}/spans')
    kept.mkdir(parents=True, exist_ok=True)
    stage, schema = recognition.recognise_batch, recognition.RECOGNISED
    recognised = map_rows_cached(map_batches, stage, schema, kept, batches)
    spans = [
        [Span(**span) for span in row]
        for batch in logged(recognised, len(documents), 'documents searched for names')
        for row in batch['spans'].to_pylist()
    ]
    texts, spans = casing.with_names_in_lower_case(texts, spans, dictionary)
    concepts = find_concepts(texts, spans)
    as_prose = [dataclasses.replace(d, text=t) for d, t in zip(documents, texts)]
    spans = [sorted(names + common) for names, common in zip(spans, concepts)]
    vocab, resolved = resolve(as_prose, spans)
    linked = [dataclasses.replace(found, text=d.text) for found, d in zip(resolved, documents)]
    named = [document for document in linked if document.mentions]
    if not named:
        raise InputError(
            f'{source}: no name was recognised in {len(linked)} documents: give English prose that '
            'names people, places or things'
        )
    in_names = sum(m.end - m.start for d in named for m in d.mentions or ())
    share = in_names / sum(len(document.text) for document in linked)
    tell = _log.warning if len(named) < len(linked) / 2 else _log.info
    mention = f'mention names, dates or quantities, which are {share:.1%} of their characters'
    tell(f'{len(named)} of {len(linked)} documents {mention}')
    if nameless := [document.id for document in linked if not document.mentions]:
        told = some(nameless, MOST_TOLD)
        _log.info(f'no question leads to {len(nameless)} documents, which name nothing: {told}')
    return vocab, linked


def _recognition_version() -> str:
    """The hash of what recognised names depend on but the text: rules, spaCy and its models."""
    digest = hashlib.sha256()
    for name in ('words.toml', *(f'{module}.py' for module in _MODULES_OF_NAMES)):
        digest.update(pathlib.Path(recognition.__file__).with_name(name).read_bytes())
    for package in ('spacy', *recognition.MODELS):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f'{package} {importlib.metadata.version(package)}\n'.encode())
    return digest.hexdigest()


def _is_readable(path: pathlib.Path) -> bool:
    return path.is_file() and (path.suffix.lower() in SUFFIXES or is_document_file(path))


def _files(paths: Iterable[pathlib.Path], folder: pathlib.Path) -> list[pathlib.Path]:
    """The files and dangling links among paths in a folder, without those in knowledge bases."""

    @functools.cache
    def is_outside(inner: pathlib.Path) -> bool:
        formats = (tables.PREPARED, tables.PLAN)
        is_base = any(is_folder_of(text, f) for text in inner.glob('text*') for f in formats)
        return not is_base and (inner == folder or is_outside(inner.parent))

    is_file = lambda path: path.is_file() or (path.is_symlink() and not path.exists())
    return sorted(path for path in set(paths) if is_file(path) and is_outside(path.parent))


def document_fields(record: dict[str, Any]) -> dict[str, Any]:
    """A record's id, title and text. In tables None, NaN and NA mean none, and 7.0 is the id 7."""
    is_there = lambda value: (
        isinstance(value, str | list | dict) or str(value) not in ('None', 'nan', 'NaT', '<NA>')
    )
    there = (n for n in ('id', 'title', 'text') if n in record and is_there(record[n]))
    fields: dict[str, Any] = {n: record[n] for n in there}
    number: Any = fields.get('id')
    is_whole = isinstance(number, numbers.Integral) and not isinstance(number, bool)
    if is_whole or (isinstance(number, float) and number.is_integer()):
        fields['id'] = str(int(number))
    return fields


def document_from_record(record: object) -> Document:
    """The document of `{id, title, text}`, about its title or what its text defines; InputError."""
    about = None
    if isinstance(record, dict):
        record = document_fields(record)
        if (about := record.get('title')) in (None, ''):
            about = subject(record['text']) if isinstance(record.get('text'), str) else None
        record['title'] = record.get('id') if about in (None, '') else about
    document = dataclasses.replace(document_from_json(record), title_entity=about)
    validate(document)
    _check_text(document.text)
    return _as_read(document)


def _as_read(document: Document, is_filled: bool = True, is_markdown: bool = False) -> Document:
    """Brings a document into the form that names are found in and answers show; idempotent."""
    text = cleaned(document.text)
    if is_markdown:
        text = _LINK.sub(r'\1', text)
    text = restated(unfilled(text, is_markdown) if is_filled else text)
    title, about = (name and cleaned(name) for name in (document.title, document.title_entity))
    if about and (defined := subject(text)) and guides_to(about, defined):
        about = defined
    check_string('text', text)
    title, about = title or document.title, about or document.title_entity
    return dataclasses.replace(document, title=title, text=text, title_entity=about)


def documents_from_records(sources: Sequence[object]) -> list[Document]:
    """The documents of those sources that are records; InputError says which is bad."""
    documents = []
    for number, record in enumerate(sources):
        if isinstance(record, dict):
            with errors_at(f'texts: text {number}'):
                documents.append(document_from_record(record))
    return documents


def _repeated_beginnings(paths: Iterable[pathlib.Path]) -> frozenset[str]:
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


def _from_file(
    label: str, path: pathlib.Path, process: LimitedProcess, repeated: frozenset[str]
) -> Document:
    """The document that a file is, about its heading, its name in the text, or what it defines."""
    document, suffix = _of_file(label, path, process, repeated), path.suffix.lower()
    return _as_read(document, is_filled=suffix in ('.txt', '.md'), is_markdown=suffix == '.md')


def _of_file(
    label: str, path: pathlib.Path, process: LimitedProcess, repeated: frozenset[str]
) -> Document:
    suffix, title = path.suffix.lower(), None
    if suffix == '.pdf':
        title, text = pdf_text.read_pdf(path, process)
    else:
        try:
            text = read_text(path)
        except InputError as error:
            # The message names the file by its label.
            raise InputError(str(error).removeprefix(f'{path}: ')) from error
        if suffix in ('.html', '.htm'):
            title, text = read_html(text)
    check_string('text', text)
    _check_text(text)
    text = cleaned(text)
    if title:
        return Document(label, title, text, title_entity=title)
    first, _, after = text.lstrip().partition('\n')
    is_repeated = _may_be_heading(first) and first.strip() in repeated and after.strip()
    if is_repeated and not _says(after, first.strip('# \t')):
        text = after
    title, rest = _heading(text)
    if title and rest:
        return Document(label, title, rest, title_entity=title)
    title = re.sub(r'[_-]+', ' ', path.stem).strip() or path.stem
    # Files that are numbered, or named by a letter, are not about it.
    if re.search(r'[^\W\d_]\w', title) and _says(text, title):
        return Document(label, title, text, title_entity=title)
    about = subject(text)
    return Document(label, about or title, text, title_entity=about)


def _says(text: str, name: str) -> bool:
    return f' {fold(name)} ' in f' {fold(text)} '


def _may_be_heading(line: str) -> bool:
    line = line.rstrip()
    ends = line[-1:] not in '.!?,;' or _ABBREVIATED.search(line)
    return len(line) <= _MAX_HEADING and bool(ends)


def _heading(text: str) -> tuple[str, str]:
    """Markdown's heading, or a short line before a blank one, and the text after; '' if none."""
    text = text.lstrip()
    if front := _FRONT_MATTER.match(text):
        body = text[front.end() :]
        title, rest = _heading(body)
        stated = _STATED_TITLE.search(front['fields'])
        about = stated['title'].strip() if stated else title
        return about, f'{front["fields"]}\n{rest if title and rest else body}'
    line, _, rest = text.partition('\n')
    line = line.rstrip()
    if marks := re.match('#{1,6}[ \\t]+', line):
        title = line[marks.end() :]
        bare = title.rstrip('#')  # marks may close a heading, after a space: 'C#' is none
        title = bare.rstrip() if bare[-1:] in ('', ' ', '\t') else title
        title = title if len(title) <= MAX_MENTION else ''
    else:
        after, newline, rest = rest.partition('\n')
        stands_alone = newline and not after.strip() and _may_be_heading(line)
        title = line.lstrip('#').strip() if stands_alone else ''
    return title, rest.strip('\n') if rest.strip() else ''


def _check_text(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise InputError(f'text: {len(text):,} characters, more than {MAX_CHARACTERS:,}: split it')
    if shares := _other_language([text]):
        raise InputError(f'text: not English: {shares}. Names are recognised in English')


def _warn_of_case(documents: Sequence[Document]) -> None:
    """Warns of texts in one case, whose names are hard to recognise."""
    for case, advice in (
        ('capitals', 'they are read as prose in lower case, and some names may be missed'),
        ('lower case', 'names are found in them only where other text has them with capitals'),
    ):
        if found := [d.id for d in documents if casing.told_case(d.text) == case]:
            told = f'all in {case} ({some(found)}): {advice}'
            _log.warning(f'{len(found)} of {len(documents)} documents are {told}')


def some(names: Sequence[str], most: int = 3) -> str:
    """The first names, and how many more there are."""
    more = f' and {len(names) - most:,} more' if len(names) > most else ''
    return ', '.join(map(short_repr, names[:most])) + more


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:JUDGED_CHARACTERS].lower())


def _other_language(texts: Sequence[str]) -> str:
    """Why texts are not English, as shares of words; '' if they seem English or are too short."""
    count = latin = english = other = 0
    for text in texts:
        words = _words(text)
        count += len(words)
        latin += sum(word.isascii() for word in words)
        english += sum(word in _ENGLISH for word in words)
        other += sum(word in _OTHER for word in words)
    is_other = latin < count / 2 or (other > english and other > FREQUENT_SHARE * count)
    if count < JUDGED_FROM or not is_other:
        return ''
    return (
        f'of its {count} words {latin / count:.0%} are in Latin letters, {english / count:.0%} '
        f'frequent words of English and {other / count:.0%} of other languages'
    )


def as_sources(texts: str | os.PathLike | Iterable[Any]) -> list[str | os.PathLike | dict]:
    """The sources that `index_text` reads; InputError if there are none, or of another form.

    `texts` are the path of a file or folder; or several strings, documents `{id?, title?, text}`
    and paths; or a table with columns `text`, `id?` and `title?`, of pandas or any other with the
    Arrow interface. What has no id is called by its number, from 0.
    """
    if isinstance(texts, str | os.PathLike):
        return [texts]
    sources = _listed(texts)
    for number, each in enumerate(sources):
        if isinstance(each, str | dict):
            sources[number] = {'text': each} if isinstance(each, str) else document_fields(each)
        elif not isinstance(each, os.PathLike):
            form = 'a string, a document {id, title, text} or a path'
            raise InputError(f'texts: text {number}: expected {form}, found {short_repr(each)}')
    taken = {str(each.get('id')) for each in sources if isinstance(each, dict)}
    for number, each in enumerate(sources):
        while isinstance(each, dict) and 'id' not in each:
            if str(number) not in taken:
                each['id'] = str(number)
            number += len(sources)
    return sources


def _listed(texts: Any) -> list[Any]:
    is_table = hasattr(texts, '__arrow_c_stream__')
    is_list = isinstance(texts, Iterable) and not isinstance(texts, Mapping | Set | bytes)
    if not (is_table or is_list):
        raise InputError(f'texts: expected a list, a table or a path, found {short_repr(texts)}')
    if is_table:
        try:
            table = pa.table(texts)
            names = table.column_names
            texts = table.select([n for n in ('id', 'title', 'text') if n in names]).to_pylist()
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InputError(f'texts: the table cannot be read: {error}') from error
        if 'text' not in names:
            found = ', '.join(names) or 'none'
            raise InputError(f'texts: the table has no column "text", but {found}')
    if not (listed := list(texts)):
        raise InputError('texts: empty: give a list of strings or documents, a table, or a path')
    return listed
