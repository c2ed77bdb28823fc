"""The reader of plain text: files, folders and documents in memory (extra `text`).

Names are recognised in it.
"""

from __future__ import annotations

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
from collections.abc import Iterable, Sequence
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
from opql_jax.datasets import pdf_text
from opql_jax.datasets.document_files import is_document_file, read_document_file
from opql_jax.datasets.html_text import read_html

_log = logging.getLogger(__name__)

# Of files that are a document each.
SUFFIXES = ('.txt', '.md', '.html', '.htm', '.pdf')
_EXPECTED = f'{", ".join(SUFFIXES)}, .jsonl, .parquet or MediaWiki dumps (.xml, .xml.bz2, .xml.gz)'
# Of a document, at most: its names are found by one process in one go, and answers cite it as a
# whole.
MAX_CHARACTERS = 10_000_000
# Files or documents, at most, that a message names.
MOST_TOLD = 30
# Documents whose names are recognised at a time.
BATCH_DOCUMENTS = 256
# Of `corpus`: those that say which names are recognised.
_MODULES_OF_NAMES = ('recognition', 'name_kinds', 'spans', 'definitions', 'linking', 'layout')
# A text of this many words is judged. In prose 30 to 50 % of them are among the most frequent ones
# of its language; in tables and lists few are.
JUDGED_FROM, FREQUENT_SHARE = 50, 0.05
# Characters of a text by which it is judged.
JUDGED_CHARACTERS = 100_000
_ENGLISH = frozenset(
    'the of and to in a is was that for as with on by it he his from at be '
    'are were this an or which had has'.split()
)
_OTHER = frozenset(
    'der die das und ist nicht von mit den dem ein eine auf für sich'  # German
    ' les des est une dans que pour sur avec pas au du et il elle'  # French
    ' los las del una por con para su como más fue es y'  # Spanish
    ' che gli della di il non sono per nel alla è'  # Italian
    ' os da do dos um uma não com ao são'  # Portuguese
    ' het een van niet zijn op te dat voor'  # Dutch
    ' och att som av till är ett på med'  # Swedish, Danish, Norwegian
    ' nie się na jest w z że do'.split()  # Polish
)
_WORD = re.compile(r'\w+')
# What stands before a text in lines of its own, and the title in it.
_FRONT_MATTER = re.compile(
    r'---[ \t]*\n(?P<fields>(?:[\w-][^\n]*\n|[ \t]+[^\n]*\n){1,60}?)---[ \t]*(?:\n|$)'
)
_STATED_TITLE = re.compile(
    r'^title:[ \t]*["\']?(?P<title>[^\n]{1,100}?)["\']?[ \t]*$', re.MULTILINE | re.IGNORECASE
)
# The longest line that may be a heading, unless it is one of Markdown.
_MAX_HEADING = 100
# So many files with the same first line may have it for another reason than that they are about it.
_REPEATED = 3


@dataclasses.dataclass(frozen=True)
class PlainText:
    """English text without entity links.

    A .txt, .md, .html, .htm or .pdf file is one document, called by its heading or, without one, by
    its file. A .jsonl file has a document `{id, title, text}` a line and a .parquet file one a row,
    where the title may be missing; other fields and columns are ignored. A dump of MediaWiki (.xml,
    .xml.bz2 or .xml.gz) has one an article, with the id of its page.

    Attributes:
        sources: files, and folders or patterns such as `articles/*.txt` and `**/*.md`, which are
            searched for files of these kinds. Other files are left out, and so are knowledge bases
            within them. Also records `{id, title, text}` that are in memory, which come last.
        model: of spaCy; None for the one that is installed.
        max_reject_fraction: share of bad documents above which the corpus is refused: empty ones,
            those that are no text in UTF-8, or not English. Documents whose text is that of an
            earlier one are left out and do not count.
        processes: that recognise names; None for one per core.
        map_batches: recognises names elsewhere, see `corpus.spark.map_ordered`; in these processes
            if None.
        cache: a folder that keeps what was recognised in each text; None keeps it until the text is
            prepared.
    """

    paths: ClassVar = ('sources', 'processes', 'map_batches', 'cache')
    sources: tuple[str | os.PathLike | dict[str, Any], ...]
    model: str | None = None
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
        return {
            f'text {i}': source for i, source in enumerate(self.sources) if isinstance(source, dict)
        }

    @functools.cached_property
    def _inside(self) -> dict[str, tuple[pathlib.Path, list[pathlib.Path]]]:
        """The folder that labels begin in and the files, of all kinds, of each source.

        A large folder takes long to list.
        """
        found = {}
        for source in self.on_disk:
            path = pathlib.Path(source)
            if path.is_dir():
                found[source] = path.parent, _files(path.rglob('*'), path)
            elif path.exists():
                found[source] = path.parent, [path]
            elif glob.has_magic(source):
                folder = pathlib.Path(
                    *itertools.takewhile(lambda part: not glob.has_magic(part), path.parts)
                )
                found[source] = (
                    folder,
                    _files(map(pathlib.Path, glob.glob(source, recursive=True)), folder),
                )
                if not found[source][1]:
                    raise InputError(f'{source}: no file has a name of this pattern')
            else:
                raise InputError(f'{source}: no such file or folder')
        return found

    def files(self):
        """The files by the label that becomes a document's id, and all records as 'texts'."""
        found: dict[str, Any] = {}
        for source, (folder, inside) in self._inside.items():
            of_kind = [
                path
                for path in inside
                if path.is_file() and (path.suffix.lower() in SUFFIXES or is_document_file(path))
            ]
            if not of_kind:
                raise InputError(
                    f'{source}: no text to read: expected {_EXPECTED} '
                    f'{"in it" if pathlib.Path(source).is_dir() else "files"}'
                )
            for path in of_kind:
                label = path.relative_to(folder).as_posix()
                if found.setdefault(label, path) != path:
                    raise InputError(
                        f'{path} and {found[label]}: both are called {label}: '
                        'give the folder that holds both'
                    )
        if self.in_memory:
            records = {place: document_fields(record) for place, record in self.in_memory.items()}
            found['texts'] = json.dumps(records, default=str).encode()
        return found

    def read(self, rejected_path):
        documents = self.documents(rejected_path)
        write_documents(rejected_path.with_name(tables.DOCUMENTS_FILE), documents)
        parts = self.cache or storage.below(rejected_path.parent, tables.PARTS)
        return link_names(documents, parts, str(self), self.model, self.processes, self.map_batches)

    def questions(self, vocab, rejected_path):
        return {}

    def documents(self, rejected_path: pathlib.Path) -> list[Document]:
        """All documents, each text and each id once. Bad ones are added to `rejected_path`."""
        files = {
            label: content
            for label, content in self.files().items()
            if not isinstance(content, bytes)
        }
        singles = {label: path for label, path in files.items() if path.suffix.lower() in SUFFIXES}
        if any(path.suffix.lower() == '.pdf' for path in singles.values()):
            pdf_text.check_installed()
        rejecting = rejected_path, self.max_reject_fraction
        with LimitedProcess(pdf_text.MEMORY) as process:
            from_file = functools.partial(
                _from_file, process=process, repeated=_repeated_beginnings(singles.values())
            )
            read = convert_records(
                ', '.join(self.on_disk), singles.items(), from_file, 'files', *rejecting
            )
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
                before = place_of_id[document.id]
                others.append(
                    (
                        place,
                        (
                            f'id: {short_repr(document.id)} was already used in {before} for '
                            'another text, which is kept'
                        ),
                    )
                )
            else:
                documents.append(document)
                place_of_text[document.text] = place_of_id[document.id] = place
        if copies:
            _log.info(
                '%d of %d documents have the text of an earlier one and are left out',
                len(copies),
                len(read),
            )
        if others:
            _log.warning(
                '%d of %d documents have the id of another one and are left '
                'out, see %s: give each its own id',
                *(len(others), len(read), rejected_path),
            )
        add_rejected(rejected_path, [*copies, *others])
        # Texts that are too short to be judged one by one, such as single sentences, are judged
        # together.
        short = [
            document.text for document in documents if len(_words(document.text)) < JUDGED_FROM
        ]
        if shares := _other_language(short):
            _log.warning(
                '%d short documents are not English: %s. Few names will be recognised in them',
                len(short),
                shares,
            )
        _warn_of_case(documents)
        return documents

    def left_out(self) -> list[str]:
        """The labels of files in the sources that are not read, and of links that lead to none.

        Hidden ones come last.
        """
        found = {
            path.relative_to(folder).as_posix()
            for folder, inside in self._inside.values()
            for path in inside
            if not path.is_file() or not (path.suffix.lower() in SUFFIXES or is_document_file(path))
        }
        is_hidden = lambda label: any(part.startswith('.') for part in label.split('/'))
        return sorted(found, key=lambda label: (is_hidden(label), label))


def link_names(
    documents: Sequence[Document],
    parts: pathlib.Path,
    source: str,
    model: str | None = None,
    processes: int | None = 1,
    map_batches: MapBatches | None = None,
) -> tuple[EntityVocab, list[Document]]:
    """Recognises names in documents without mentions; returns entities and linked documents.

    What was recognised is kept in the folder `parts`; for the other options see `PlainText`.
    InputError if no document has a name.
    """
    dictionary = functools.partial(casing.load_dictionary, [model] if model else recognition.MODELS)
    persons_and_places = functools.partial(recognition.persons_and_places, model=model)
    texts = casing.cased([document.text for document in documents], dictionary, persons_and_places)
    parts_of_texts = (texts[i : i + BATCH_DOCUMENTS] for i in range(0, len(texts), BATCH_DOCUMENTS))
    batches = (pa.RecordBatch.from_pydict({'text': part}) for part in parts_of_texts)
    recognise = functools.partial(recognition.recognise_batch, model=model)
    map_batches = map_batches or functools.partial(map_ordered, processes=processes)
    kept = storage.below(parts, f'{_recognition_version(model)}/spans')
    kept.mkdir(parents=True, exist_ok=True)
    recognised = map_rows_cached(map_batches, recognise, recognition.RECOGNISED, kept, batches)
    spans = [
        [Span(**span) for span in row]
        for batch in logged(recognised, len(documents), 'documents searched for names')
        for row in batch['spans'].to_pylist()
    ]
    texts, spans = casing.with_names_in_lower_case(texts, spans, dictionary)
    concepts = find_concepts(texts, spans)
    as_prose = [
        dataclasses.replace(document, text=text) for document, text in zip(documents, texts)
    ]
    vocab, resolved = resolve(
        as_prose, [sorted(names + common) for names, common in zip(spans, concepts)]
    )
    linked = [
        dataclasses.replace(found, text=document.text)
        for found, document in zip(resolved, documents)
    ]
    named = [document for document in linked if document.mentions]
    if not named:
        raise InputError(
            f'{source}: no name was recognised in {len(linked)} documents, so that nothing can be '
            'asked of them: is this English prose? Give text that names people, places or things'
        )
    in_names = sum(
        mention.end - mention.start for document in named for mention in document.mentions or ()
    )
    share = in_names / sum(len(document.text) for document in linked)
    message = (
        '%d of %d documents mention names, dates or quantities, which are '
        '%.1f%% of their characters'
    )
    tell = _log.warning if len(named) < len(linked) / 2 else _log.info
    tell(message, len(named), len(linked), 100 * share)
    if nameless := [document.id for document in linked if not document.mentions]:
        _log.info(
            'no question leads to %d documents, which name nothing: %s',
            len(nameless),
            some(nameless, MOST_TOLD),
        )
    return vocab, linked


def _recognition_version(model: str | None) -> str:
    """The hash of what recognised names depend on but the text: rules, spaCy and its model."""
    digest = hashlib.sha256()
    for module in _MODULES_OF_NAMES:
        digest.update(pathlib.Path(recognition.__file__).with_name(f'{module}.py').read_bytes())
    for package in ('spacy', *([model] if model else recognition.MODELS)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f'{package} {importlib.metadata.version(package)}\n'.encode())
    return digest.hexdigest()


def _files(paths: Iterable[pathlib.Path], folder: pathlib.Path) -> list[pathlib.Path]:
    """The files and dangling links among paths in a folder, but not in knowledge bases.

    One may be made in the folder whose text it holds.
    """

    @functools.cache
    def is_outside(inner: pathlib.Path) -> bool:
        texts = [
            (text, format)
            for text in inner.glob('text*')
            for format in (tables.PREPARED, tables.PLAN)
        ]
        return not any(is_folder_of(*each) for each in texts) and (
            inner == folder or is_outside(inner.parent)
        )

    is_file = lambda path: path.is_file() or (path.is_symlink() and not path.exists())
    return sorted(path for path in set(paths) if is_file(path) and is_outside(path.parent))


def document_fields(record: dict[str, Any]) -> dict[str, Any]:
    """The id, title and text of a record, as far as they are there.

    Tables have None, NaN or NA where nothing is, and ids such as 7.0.
    """
    is_there = lambda value: (
        isinstance(value, str | list | dict) or str(value) not in ('None', 'nan', 'NaT', '<NA>')
    )
    fields: dict[str, Any] = {
        name: record[name]
        for name in ('id', 'title', 'text')
        if name in record and is_there(record[name])
    }
    number = fields.get('id')
    if isinstance(number, bool):
        return fields
    if isinstance(number, numbers.Integral) or (isinstance(number, float) and number.is_integer()):
        fields['id'] = str(int(number))
    return fields


def document_from_record(record: object) -> Document:
    """The document of a record `{id, title, text}`, about the entity of its title.

    Such as a line of a .jsonl file. InputError says what is wrong.

    Without a title it is about what its text begins by defining, and else about nothing, and called
    by its id.
    """
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
    """A document in the form in which names are looked for, and in which answers show it.

    One that was read before stays as it is.

    `is_filled` says whether its paragraphs may be broken into lines, `is_markdown` see
    `layout.unfilled`.
    """
    text = cleaned(document.text)
    text = restated(unfilled(text, is_markdown) if is_filled else text)
    title, about = (name and cleaned(name) for name in (document.title, document.title_entity))
    if about and (defined := subject(text)) and guides_to(about, defined):
        about = defined
    check_string('text', text)
    return dataclasses.replace(
        document,
        title=title or document.title,
        text=text,
        title_entity=about or document.title_entity,
    )


def documents_from_records(sources: Sequence[object]) -> list[Document]:
    """The documents of the sources that are records; InputError says which is bad.

    See `document_from_record`.
    """
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
                    first[
                        file.read(4 * _MAX_HEADING)
                        .decode('utf-8-sig', 'replace')
                        .strip()
                        .partition('\n')[0]
                        .strip()
                    ] += 1
            except OSError:
                continue  # whoever reads it says why it cannot be read
    return frozenset(
        line for line, count in first.items() if count >= _REPEATED and re.search(r'\w', line)
    )


def _from_file(
    label: str, path: pathlib.Path, process: LimitedProcess, repeated: frozenset[str]
) -> Document:
    """The document that a file is.

    It is about the entity of its heading, of its name if the text mentions it, or of what it
    defines first.
    """
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
            # Where it stands is told by its label.
            raise InputError(str(error).removeprefix(f'{path}: ')) from error
        if suffix in ('.html', '.htm'):
            title, text = read_html(text)
    check_string('text', text)
    _check_text(text)
    text = cleaned(text)
    if title:
        return Document(label, title, text, title_entity=title)
    first, _, after = text.lstrip().partition('\n')
    words = fold(first.strip('# \t'))
    is_short = len(first) <= _MAX_HEADING and first.strip()[-1:] not in '.!?,;'
    if (
        is_short
        and first.strip() in repeated
        and f' {words} ' not in f' {fold(after)} '
        and after.strip()
    ):
        text = after
    title, rest = _heading(text)
    if title and rest:
        return Document(label, title, rest, title_entity=title)
    title = re.sub(r'[_-]+', ' ', path.stem).strip() or path.stem
    # Files that are numbered, or named by a letter, are not about it.
    if re.search(r'[^\W\d_]\w', title) and f' {fold(title)} ' in f' {fold(text)} ':
        return Document(label, title, text, title_entity=title)
    about = subject(text)
    return Document(label, about or title, text, title_entity=about)


def _heading(text: str) -> tuple[str, str]:
    """The heading of a text, and the text after it; '' for what there is not.

    The heading is Markdown's, or a short first line with a blank one after it.
    """
    text = text.lstrip()
    if front := _FRONT_MATTER.match(text):
        body = text[front.end() :]
        title, rest = _heading(body)
        stated = _STATED_TITLE.search(front['fields'])
        return (
            stated['title'].strip() if stated else title
        ), f'{front["fields"]}\n{rest if title and rest else body}'
    line, _, rest = text.partition('\n')
    line = line.rstrip()
    if marks := re.match('#{1,6}[ \\t]+', line):
        title = line[marks.end() :]
        bare = title.rstrip('#')  # marks may close a heading, after a space: 'C#' is none
        title = bare.rstrip() if bare[-1:] in ('', ' ', '\t') else title
        title = title if len(title) <= MAX_MENTION else ''
    else:
        after, newline, rest = rest.partition('\n')
        blank = newline and not after.strip()
        title = (
            line.lstrip('#').strip()
            if blank and len(line) <= _MAX_HEADING and line[-1:] not in '.!?,;'
            else ''
        )
    return title, rest.strip('\n') if rest.strip() else ''


def _check_text(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise InputError(
            f'text: {len(text):,} characters, and a document has at most {MAX_CHARACTERS:,}: split '
            'it into articles or chapters, which answers then cite'
        )
    if shares := _other_language([text]):
        raise InputError(f'text: not English: {shares}. Names are recognised in English')


def _warn_of_case(documents: Sequence[Document]) -> None:
    """Says which texts are in one case, so that names are hard to tell in them."""
    for case, advice in (
        ('capitals', 'they are read as prose in lower case, and some names may be missed'),
        ('lower case', 'names are found in them only where other text has them with capitals'),
    ):
        if found := [
            document.id for document in documents if casing.told_case(document.text) == case
        ]:
            _log.warning(
                '%d of %d documents are all in %s (%s): %s',
                len(found),
                len(documents),
                case,
                some(found),
                advice,
            )


def some(names: Sequence[str], most: int = 3) -> str:
    """The first of some names, and how many more there are."""
    return ', '.join(map(short_repr, names[:most])) + (
        f' and {len(names) - most:,} more' if len(names) > most else ''
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text[:JUDGED_CHARACTERS].lower())


def _other_language(texts: Sequence[str]) -> str:
    """The shares of words by which texts are not English; '' if they seem so or are too short."""
    count = latin = english = other = 0
    for text in texts:
        words = _words(text)
        count += len(words)
        latin += sum(word.isascii() for word in words)
        english += sum(word in _ENGLISH for word in words)
        other += sum(word in _OTHER for word in words)
    if count < JUDGED_FROM or not (
        latin < count / 2 or (other > english and other > FREQUENT_SHARE * count)
    ):
        return ''
    return (
        f'of its {count} words {latin / count:.0%} are in Latin letters, {english / count:.0%} '
        f'frequent words of English and {other / count:.0%} of other languages'
    )
