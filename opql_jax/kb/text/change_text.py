"""Changes a knowledge base: documents are added, replaced and forgotten, all or nothing.

A change makes new parts beside those that answer (`text-2`, `memory-2`, `retrieval-2`), and then
replaces the manifest of the knowledge base, which names them. Whoever opened the version before
keeps it; a change that was killed leaves it as it was. Parts that no version needs are removed at
the end of a change, or by the next one while somebody has them open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import itertools
import logging
import os
import pathlib
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from opql_jax.core import batch_cache, files, locks
from opql_jax.core.batch_cache import MapBatches
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import FolderFormat, ManifestError, is_folder_of, read_manifest
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document, read_documents
from opql_jax.corpus.json_lines import short_repr
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.plain_text import PlainText, StoredText, link_names
from opql_jax.datasets.text_records import document_from_record, documents_from_records
from opql_jax.kb.text.forget_sentences import find_entities, find_sentences, without
from opql_jax.kb.text.index_text import (
    CACHE,
    ENCODED,
    ENCODER,
    Parts,
    make_parts,
    removing,
    tell_left_out,
)
from opql_jax.memory import build as build_lib
from opql_jax.memory import manifest as memory_manifest
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval import index as retrieval_index

_log = logging.getLogger(__name__)

# What documents were left out of those that were added, and why.
REJECTED = 'rejected.jsonl'
# Bytes of a text that a page or another program sends: a few hundred pages.
LONGEST_TEXT = 1 << 20
LONGEST_TITLE = 300


class _Kind(NamedTuple):
    """A kind of part: the formats of its manifest and plan, and what lists an unfinished one."""

    finished: FolderFormat
    unfinished: FolderFormat
    files: Callable[[pathlib.Path], Iterable[str]]


_KINDS = {
    'text': _Kind(
        tables.PREPARED, tables.PLAN, lambda folder: read_manifest(folder, tables.PLAN).listed()
    ),
    'memory': _Kind(memory_manifest.FORMAT, memory_manifest.PLAN_FORMAT, build_lib.files_of_build),
    'retrieval': _Kind(
        retrieval_index.FORMAT,
        retrieval_index.PLAN,
        lambda folder: read_manifest(folder, retrieval_index.PLAN).names,
    ),
}


@dataclasses.dataclass
class Change:
    """A change that is being put together; see `change`.

    Attributes:
        documents: those that there will be, by id, in order; `before` is the text as it is.
        skipped, cut: how many were there already, and how many lost some of their sentences.
    """

    documents: dict[str, Document]
    before: Prepared
    _folder: pathlib.Path
    _processes: int | None = None
    _map_batches: MapBatches | None = None
    added: int = 0
    replaced: int = 0
    removed: int = 0
    skipped: int = 0
    cut: int = 0

    def add(
        self,
        *sources: str | os.PathLike | dict,
        replace: bool = False,
        max_reject_fraction: float = 0.01,
    ) -> None:
        """Adds files, folders, patterns, and documents `{id, title, text}`, see `PlainText`.

        With `replace` a document takes the place of one with its id. InputError: bad sources, or a
        document whose id is that of another text.
        """
        documents = documents_from_records(sources)
        if paths := tuple(source for source in sources if not isinstance(source, dict)):
            reader = PlainText(paths, max_reject_fraction=max_reject_fraction)
            documents += reader.documents(files.below(self._folder, REJECTED))
            tell_left_out(reader)
        # Without those that another text replaces: a text may come back under another id.
        incoming = {document.id: document.text for document in documents} if replace else {}
        there = ((id, document.text) for id, document in self.documents.items())
        texts = {text for id, text in there if incoming.get(id, text) == text}
        for document in documents:
            before = self.documents.get(document.id)
            if document == before or (before is None and document.text in texts):
                self.skipped += 1
                continue
            if before is not None and not replace:
                exists = f'document {short_repr(document.id)} already exists with different text'
                raise InputError(f'{exists}: replace it (--replace), or give it another id')
            self.added += before is None
            self.replaced += before is not None
            self.documents[document.id] = document
            texts.add(document.text)

    def remove(
        self,
        *,
        document: str | Collection[str] = (),
        entity: str | Collection[str] = (),
        sentence: str | Collection[str] = (),
        whole: bool = False,
    ) -> None:
        """Forgets documents, sentences, and entities: what is about them, and what mentions them.

        Args:
            document: ids of documents.
            entity: names or keys of entities, of the documents as the change has left them so far.
            sentence: sentences as answers show them, wherever they stand; or, unless they have to
                be `whole`, words that only one sentence has, which is then forgotten.

        Raises:
            InputError: there is no such document, entity or sentence, of which it names the
                nearest; several entities have the name, or several sentences the words.
        """
        gone, names, sentences = _several(document), _several(entity), _several(sentence)
        for name in gone:
            if name not in self.documents:
                near = difflib.get_close_matches(name, self.documents, n=3, cutoff=0.6)
                hint = f'; did you mean {" or ".join(map(short_repr, near))}?' if near else ''
                raise InputError(f'unknown document {short_repr(name)}{hint}')
        if names or sentences:
            self._forget(names, sentences, whole, gone)
        for name in gone:
            del self.documents[name]
            self.removed += 1

    def _forget(
        self, names: Sequence[str], sentences: Sequence[str], whole: bool, gone: Sequence[str]
    ) -> None:
        """Removes or cuts all documents but `gone` ones, which may say what a name means, too."""
        self.check_some_left()
        # What a name means may have changed with documents that were added or removed before.
        documents, cache = [*self.documents.values()], files.below(self._folder, CACHE)
        how: dict = {'processes': self._processes, 'map_batches': self._map_batches}
        vocab, linked = link_names(documents, cache, 'the text', **how)
        keys, named = find_entities(vocab, linked, names), find_sentences(linked, sentences, whole)
        for document in linked:
            rest = without(document, keys, named.get(document.id, set()))
            if document.id in gone or rest == document.text:
                continue
            if rest.strip():
                self.cut += 1
                before = self.documents[document.id]
                self.documents[document.id] = dataclasses.replace(before, text=rest)
            else:
                self.removed += 1
                del self.documents[document.id]

    def check_some_left(self) -> None:
        """Raises InputError if no document is left."""
        if not self.documents:
            none_left = f'{self._folder}: no document would be left'
            raise InputError(f'{none_left}; delete the folder to forget all')

    def counts(self) -> dict[str, int]:
        """How many documents were added, replaced, removed, cut and skipped."""
        names = 'added', 'replaced', 'removed', 'cut', 'skipped'
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        *changed, (_, skipped) = self.counts().items()
        said = [f'{n:,} document{"s" * (n != 1)} {how}' for how, n in changed if n]
        said += (
            [f'{skipped:,} {"was" if skipped == 1 else "were"} there already'] if skipped else []
        )
        return ', '.join(said) or 'nothing to change'


@contextlib.contextmanager
def change(
    kb: str | os.PathLike, *, processes: int | None = None, map_batches: MapBatches | None = None
) -> Iterator[Change]:
    """Yields a `Change`; a clean exit makes one new version, and an exception none.

    `processes` and `map_batches` are as in `index_text`. InputError: this is no knowledge base of
    plain text, another process changes it, or no document is left.
    """
    folder = KBFolder(kb)
    Parts.of(folder, folder.read())
    with locks.writer(files.require_local(folder.part(ENCODER))):
        stated = folder.read()
        parts = Parts.of(folder, stated)
        remove_unneeded(folder)
        text = Prepared(folder.part(parts.text))
        stored = read_documents(text.file(tables.DOCUMENTS_FILE))
        before = {document.id: document for document in stored}
        changed = Change(dict(before), text, pathlib.Path(folder.path), processes, map_batches)
        yield changed
        folder.read()  # InputError if it was moved or removed meanwhile
        if list(changed.documents.items()) != list(before.items()):
            changed.check_some_left()
            new = _next(folder, parts)
            documents, rejected = tuple(changed.documents.values()), text.file('rejected.jsonl')
            of_folder = str(folder.path), rejected, files.below(folder.path, CACHE)
            reader = StoredText(documents, *of_folder, processes, map_batches)
            make_parts(reader, folder, new, TextEncoder.load(folder.part(ENCODER)))
            folder.change(stated, **dataclasses.asdict(new))
        with removing():
            remove_unneeded(folder)
            if folder.read() != stated:  # else an interrupted change may go on from it
                batch_cache.remove(folder.path, ENCODED)


def add_text(
    kb: str | os.PathLike,
    sources: Sequence[str | os.PathLike | dict],
    *,
    replace: bool = False,
    max_reject_fraction: float = 0.01,
    **options,
) -> Change:
    """Adds documents to a knowledge base: see `Change.add`, and `change` for the options."""
    with change(kb, **options) as changed:
        changed.add(*sources, replace=replace, max_reject_fraction=max_reject_fraction)
    return changed


def sent_document(title: str, text: str) -> dict[str, str]:
    """The document `{id, title, text}`, with a new id, of a text that a page or program sends.

    InputError: the title or the text is blank or too long (`LONGEST_TITLE` characters,
    `LONGEST_TEXT` bytes), or not English.
    """
    if not title.strip():
        raise InputError('title: missing: the name of what the text is about')
    if len(title) > LONGEST_TITLE:
        most = f'{LONGEST_TITLE} characters'
        raise InputError(f'the title has more than {most}: a text is about a name')
    if len(text.encode(errors='replace')) > LONGEST_TEXT:
        most = f'{LONGEST_TEXT:,} bytes'
        raise InputError(f'the text has more than {most}: use `opql add` for long texts')
    document = {'id': f'added-{secrets.token_hex(4)}', 'title': title.strip(), 'text': text}
    document_from_record(document)  # or says what is wrong with it
    return document


def remove_text(
    kb: str | os.PathLike,
    documents: Collection[str] = (),
    entities: Collection[str] = (),
    sentences: Collection[str] = (),
    *,
    whole: bool = False,
    **options,
) -> Change:
    """Forgets documents, entities and sentences: see `Change.remove`, and `change` for options."""
    with change(kb, **options) as changed:
        changed.remove(document=documents, entity=entities, sentence=sentences, whole=whole)
    return changed


def compact(kb: str | os.PathLike) -> int:
    """Removes what no answer needs; returns how many bytes that freed.

    That is parts that were open when a change ended, what a killed one has encoded, and what was
    recognised in texts, those of forgotten documents included: the next change recognises all names
    again.
    """
    folder = KBFolder(kb)
    Parts.of(folder, folder.read())
    with locks.writer(files.require_local(folder.part(ENCODER))):
        return remove_unneeded(folder) + batch_cache.remove(folder.path, CACHE)


def remove_unneeded(folder: KBFolder) -> int:
    """Removes parts of versions that do not answer, unless open; returns the bytes freed.

    The caller holds the lock of the encoder's folder. Of a part only the files go that its manifest
    or its plan lists, and what killed writes of them left; a folder with other files stays.
    """
    kb, freed = files.require_local(folder.path), 0
    # Not by their names, which on a disk that ignores case a manifest may state otherwise.
    stated = [kb / name for name in folder.read().values() if name]
    answering = [part.lstat() for part in stated if part.exists()]
    for part in sorted(kb.iterdir()):
        kind = re.fullmatch(rf'({"|".join(_KINDS)})(-[0-9]+)?', part.name)
        if not kind or part.is_symlink() or not part.is_dir():
            continue
        if any(os.path.samestat(part.lstat(), state) for state in answering):
            continue
        try:
            freed += _remove_part(kb, part.name, _KINDS[kind[1]])
        except ManifestError as error:
            _log.warning('%s was left, as it may not be of this program: %s', part, error)
    return freed


def _remove_part(kb: pathlib.Path, part: str, kind: _Kind) -> int:
    """Removes a part unless it is open; ManifestError: this program did not write its manifest."""
    folder, listed, stating = kb / part, set(), set()
    if is_folder_of(folder, kind.finished):
        listed |= set(read_manifest(folder, kind.finished).files)
        stating.add(kind.finished.file)
    if is_folder_of(folder, kind.unfinished):
        listed |= set(kind.files(folder))
        stating.add(kind.unfinished.file)
    present = [name.removeprefix(f'{part}/') for name in files.names_below(kb, part)]
    ours = listed | {kind.finished.file, kind.unfinished.file}
    partials = {name for name in present if files.whole_name(name) in ours}
    held_by = {name for name in present if locks.is_lock(name) and '/' not in name}
    # Else a change was killed before it said what it writes.
    if not (stating or partials | held_by >= set(present)):
        return 0
    inside = lambda names: [f'{part}/{name}' for name in names]
    with contextlib.ExitStack() as held:
        for inner in {'', *(name.rpartition('/')[0] for name in listed)}:
            # A link's files stay.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError):
                if not held.enter_context(locks.try_exclusive(kb, f'{part}/{inner}')):
                    return 0
        freed = files.remove_below(kb, inside(listed | partials))
        if kind.unfinished.file in stating:
            freed += batch_cache.remove(kb, f'{part}/{tables.PARTS}')
        files.remove_empty(kb, part)
        # Last what says that the folder is ours, so that the next change may go on.
        freed += files.remove_below(kb, inside(stating | held_by))
        files.remove_empty(kb, part)
        return freed


def _next(folder: KBFolder, parts: Parts) -> Parts:
    """Names of parts that are free."""
    number = re.search(r'-(\d+)$', parts.text)
    for version in itertools.count(int(number[1]) + 1 if number else 2):
        new = Parts(*(f'{kind}-{version}' for kind in _KINDS))
        if not any(os.path.lexists(folder.path / part) for part in dataclasses.astuple(new)):
            return new
    raise AssertionError


def _several(names: str | Collection[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))
