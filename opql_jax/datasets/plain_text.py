"""The reader of plain text: files and folders of it, in which names are recognised (extra `text`)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import logging
import pathlib
import re
from collections.abc import Sequence
from typing import ClassVar

import pyarrow as pa

from opql_jax.core.batch_cache import MapBatches, map_cached
from opql_jax.core.errors import InputError
from opql_jax.core.processes import map_ordered
from opql_jax.corpus import recognition, tables
from opql_jax.corpus.documents import Document, document_from_json, validate
from opql_jax.corpus.json_lines import check_string, read_text, shown
from opql_jax.corpus.name_resolution import fold, resolve
from opql_jax.corpus.rejected import add_rejected, check_rejected, convert_lines
from opql_jax.datasets.html_text import read_html

_log = logging.getLogger(__name__)

SUFFIXES = ('.txt', '.md', '.html', '.htm', '.jsonl')
_PDF_ADVICE = 'convert PDFs to text first, as with `pdftotext FILE.pdf`'
# Documents whose names are recognised at a time.
BATCH_DOCUMENTS = 256
# A text of this many words is judged. In prose 30 to 50 % of them are among the most frequent ones of its language; in tables and lists few are.
JUDGED_FROM, FREQUENT_SHARE = 50, 0.05
_ENGLISH = frozenset(
    'the of and to in a is was that for as with on by it he his from at be are were this an or which had has'.split()
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
# A heading, of Markdown or a short line with a blank one after it.
_HEADING = re.compile(
    r'\s*(?:#+[ \t]*(?P<markdown>\S[^\n]*?)[ \t#]*|(?P<line>\S[^\n]{0,99}?(?<![.!?,;])))[ \t]*\r?\n[ \t]*\r?\n'
)


@dataclasses.dataclass(frozen=True)
class PlainText:
    """English text without entity links.

    A .txt, .md, .html or .htm file is one document, called by its heading or, without one, by its file. A .jsonl file has a document
    `{id, title, text}` a line; what else its lines have is ignored. PDFs are left out with a warning, and refused where there is nothing else.

    Attributes:
        sources: files, and folders that are searched for files of these kinds.
        model: of spaCy; None for the one that is installed.
        max_reject_fraction: share of bad documents above which the corpus is refused: empty ones, those that are no text in UTF-8, or not
            English. Documents whose text is that of an earlier one are left out and do not count.
        processes: that recognise names; None for one per core.
        map_batches: recognises names elsewhere, see `corpus.spark.map_ordered`; in these processes if None.
    """

    paths: ClassVar = ('sources', 'processes', 'map_batches')
    sources: tuple[str, ...]
    model: str | None = None
    max_reject_fraction: float = 0.01
    processes: int | None = 1
    map_batches: MapBatches | None = None

    def files(self):
        """The files by the label that a document made of one has for its id."""
        found: dict[str, pathlib.Path] = {}
        for source in map(pathlib.Path, self.sources):
            if not source.exists():
                raise InputError(f'{source}: no such file or folder')
            inside = sorted(path for path in source.rglob('*') if path.is_file()) if source.is_dir() else [source]
            of_kind = [path for path in inside if path.suffix.lower() in SUFFIXES]
            if not of_kind:
                raise InputError(
                    f'{source}: no text to read: expected {", ".join(SUFFIXES)} {"in it" if source.is_dir() else "files"}'
                    f'{f"; {_PDF_ADVICE}" if any(map(_is_pdf, inside)) else ""}'
                )
            for path in of_kind:
                label = path.relative_to(source.parent).as_posix()
                if found.setdefault(label, path) != path:
                    raise InputError(f'{path} and {found[label]}: both are called {label}: give the folder that holds both')
        return found

    def read(self, rejected_path):
        if pdfs := sum(_is_pdf(path) for source in self.sources for path in pathlib.Path(source).rglob('*')):
            _log.warning('%s: %d PDF files are left out: %s', ', '.join(self.sources), pdfs, _PDF_ADVICE)
        documents = self._documents(rejected_path)
        batches = (_batch(documents[i : i + BATCH_DOCUMENTS]) for i in range(0, len(documents), BATCH_DOCUMENTS))
        recognise = functools.partial(recognition.recognise_batch, model=self.model)
        map_batches = self.map_batches or functools.partial(map_ordered, processes=self.processes)
        parts = rejected_path.parent / tables.PARTS / _recognition_version(self.model) / 'spans'
        parts.mkdir(parents=True, exist_ok=True)
        spans = [
            [recognition.Span(**span) for span in row]
            for batch in map_cached(map_batches, recognise, parts, batches)
            for row in batch['spans'].to_pylist()
        ]
        vocab, documents = resolve(documents, spans)
        if not any(document.mentions for document in documents):
            raise InputError(
                f'{", ".join(self.sources)}: no name was recognised in {len(documents)} documents: is this English prose?'
            )
        return vocab, documents

    def questions(self, vocab, rejected_path):
        return {}

    def _documents(self, rejected_path: pathlib.Path) -> list[Document]:
        """All documents, each text once."""
        read: list[Document] = []
        bad: list[tuple[str, str]] = []
        texts = 0
        for label, path in self.files().items():
            if path.suffix.lower() == '.jsonl':
                read += convert_lines(path, _from_line, rejected_path, self.max_reject_fraction)
                continue
            texts += 1
            try:
                read.append(_from_file(label, path))
            except InputError as error:
                bad.append((label, str(error)))
        add_rejected(rejected_path, bad)
        check_rejected(
            ', '.join(self.sources),
            [f'{label}: {reason}' for label, reason in bad],
            'files',
            texts,
            self.max_reject_fraction,
            rejected_path,
        )
        documents: list[Document] = []
        copies: list[tuple[str, str]] = []
        id_of_text: dict[str, str] = {}
        ids: set[str] = set()
        for document in read:
            if document.id in ids:
                raise InputError(f'document id {shown(document.id)} is used more than once')
            ids.add(document.id)
            first = id_of_text.setdefault(document.text, document.id)
            if first == document.id:
                documents.append(document)
            else:
                copies.append((document.id, f'the text of {first}'))
        if copies:
            add_rejected(rejected_path, copies)
            _log.info('%d of %d documents have the text of an earlier one and are left out', len(copies), len(read))
        return documents


def _recognition_version(model: str | None) -> str:
    """The hash of all that recognised names depend on but the text: the rules, spaCy and its model."""
    digest = hashlib.sha256(pathlib.Path(recognition.__file__).read_bytes())
    for package in ('spacy', *([model] if model else recognition.MODELS)):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            digest.update(f'{package} {importlib.metadata.version(package)}\n'.encode())
    return digest.hexdigest()


def _is_pdf(path: pathlib.Path) -> bool:
    return path.suffix.lower() == '.pdf' and path.is_file()


def _from_line(number: int, record: object) -> Document:
    """The document of a line of a .jsonl file, about the entity of its title."""
    document = document_from_json(record)
    document = dataclasses.replace(document, mentions=None, title_entity=document.title)
    validate(document)
    _check_english(document.text)
    return document


def _from_file(label: str, path: pathlib.Path) -> Document:
    """The document that a file is, about the entity of its heading, or of its name if the text mentions it."""
    text = read_text(path)
    if path.suffix.lower() in ('.html', '.htm'):
        title, text = read_html(text)
    else:
        title = None
    check_string('text', text)
    _check_english(text)
    if title:
        return Document(label, title, text, title_entity=title)
    if heading := _HEADING.match(text):
        title = heading['markdown'] or heading['line']
        if text[heading.end() :].strip():
            return Document(label, title, text[heading.end() :].strip('\n'), title_entity=title)
    title = re.sub(r'[_-]+', ' ', path.stem).strip() or path.stem
    is_mentioned = f' {fold(title)} ' in f' {fold(text)} '
    return Document(label, title, text, title_entity=title if is_mentioned else None)


def _check_english(text: str) -> None:
    words = _WORD.findall(text.lower())
    if len(words) < JUDGED_FROM:
        return
    latin = sum(word.isascii() for word in words)
    english, other = (sum(word in frequent for word in words) for frequent in (_ENGLISH, _OTHER))
    if latin < len(words) / 2 or (other > english and other > FREQUENT_SHARE * len(words)):
        raise InputError(
            f'text: not English: of its {len(words)} words {latin / len(words):.0%} are in Latin letters, {english / len(words):.0%} frequent'
            f' words of English and {other / len(words):.0%} of other languages. Names are recognised in English'
        )


def _batch(documents: Sequence[Document]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: [getattr(d, name) for d in documents] for name in ('id', 'title', 'text')})
