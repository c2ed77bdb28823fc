"""The reader of English text without links: files, folders, documents in memory (extra `text`)."""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import importlib.metadata
import itertools
import json
import logging
import os
import pathlib
import shutil
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
from opql_jax.corpus.documents import Document, write_documents
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.name_resolution import resolve
from opql_jax.corpus.rejected import add_rejected, convert_records
from opql_jax.corpus.spans import Span
from opql_jax.datasets import pdf_text
from opql_jax.datasets.document_files import is_document_file, read_document_file
from opql_jax.datasets.english import JUDGED_FROM, other_language, words_of_language
from opql_jax.datasets.readers import Reader
from opql_jax.datasets.text_file import SUFFIXES, document_of_file, repeated_beginnings
from opql_jax.datasets.text_records import document_fields, document_from_record

_log = logging.getLogger(__name__)

_EXPECTED = f'{", ".join(SUFFIXES)}, .jsonl, .parquet or MediaWiki dumps (.xml, .xml.bz2, .xml.gz)'
# Maximum number of files or documents named in a message.
MOST_TOLD = 30
# Documents per batch of recognition.
BATCH_DOCUMENTS = 256
# The modules of `corpus` that decide which names are recognised.
_MODULES_OF_NAMES = 'recognition name_kinds spans definitions linking layout'.split()


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
        repeated, source = repeated_beginnings(singles.values()), ', '.join(self.on_disk)
        with LimitedProcess(pdf_text.MEMORY) as process:
            from_file = functools.partial(document_of_file, process=process, repeated=repeated)
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
        short = [d.text for d in documents if len(words_of_language(d.text)) < JUDGED_FROM]
        if shares := other_language(short):
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
    _log.info(f'looking for names in {len(documents)} documents')
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
