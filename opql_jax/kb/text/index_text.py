"""Makes a knowledge base of plain text: recognises names and encodes passages, untrained."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opql_jax.core import batch_cache, files, locks
from opql_jax.core.arrays import SCALE_BYTES
from opql_jax.core.batch_cache import MapBatches
from opql_jax.core.errors import InputError, error_message
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import FolderFormat, ManifestError, is_folder_of, read_manifest
from opql_jax.corpus import tables
from opql_jax.corpus.documents import read_documents
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.plain_text import MOST_TOLD, PlainText, StoredText, some
from opql_jax.kb.build_memory import entry_table, memory_options
from opql_jax.kb.text.retrieve import index_passages
from opql_jax.memory import build as build_lib
from opql_jax.memory import manifest as memory_manifest
from opql_jax.memory.format import Memory
from opql_jax.memory.relations import Halves
from opql_jax.models import released
from opql_jax.models.mention_kinds import KINDS
from opql_jax.models.passage_encoder import PassageEncoder, StoredPassages, digest
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval import index as retrieval_index

_log = logging.getLogger(__name__)

# The parts of a knowledge base of plain text.
TEXT, ENCODER, MEMORY, RETRIEVAL = 'text', 'encoder', 'memory', 'retrieval'
# What was recognised in each text, by content; and, until the version answers, what was encoded of
# each passage. It may be removed, and takes time only.
CACHE = 'cache'
ENCODED = f'{CACHE}/encoded'
# The hash, in the manifest of a memory, of all that its halves depend on besides the text.
_ENCODED_BY = 'passage_encoder'
# Pairs that are far apart say little of each other.
PAIRS = 'near'
MAX_TOKENS = 128


@dataclasses.dataclass(frozen=True)
class Parts:
    """The names of the parts of one version of a knowledge base, beside the encoder."""

    text: str = TEXT
    memory: str = MEMORY
    retrieval: str = RETRIEVAL

    @classmethod
    def of(cls, folder: KBFolder, stated: Mapping[str, str | None]) -> Parts:
        """Those of the version that answers; InputError if a trained model does."""
        text, memory, retrieval = (stated.get(name) for name in ('text', 'memory', 'retrieval'))
        if not (text and memory and retrieval):
            raise InputError(
                f'{folder.path} is no knowledge base of plain text, which `opql index` makes'
            )
        return cls(text, memory, retrieval)


def index_text(
    sources: Sequence[str | os.PathLike | dict],
    kb: str | os.PathLike,
    *,
    encoder: str | os.PathLike = 'default',
    max_reject_fraction: float = 0.01,
    processes: int | None = None,
    map_batches: MapBatches | None = None,
) -> None:
    """Builds a knowledge base, or goes on with it; one that has all of the text stays as it is.

    Args:
        sources: text files, folders and patterns, and documents `{id, title, text}`, see
            `PlainText`.
        kb: the folder that is written.
        encoder: the folder of a released encoder, or 'default'.
        max_reject_fraction: share of bad files, or lines, rows or articles of a file, above which
            nothing is made.
        processes: that recognise names; one per core if None.
        map_batches: does elsewhere what is done for each document and passage, see
            `corpus.spark.map_ordered`; on this machine if None.

    Raises:
        InputError: no text, or none in which names are recognised; a knowledge base of other text,
            which `change_text` changes.
    """
    reader = PlainText(
        tuple(sources),
        max_reject_fraction=max_reject_fraction,
        processes=processes,
        map_batches=map_batches,
        cache=files.require_local(files.below(kb, CACHE)),
    )
    reader.files()  # or says what is wrong with the sources
    folder = KBFolder(kb)
    _check_free(folder)
    part = files.require_local(folder.part(ENCODER, new=True))
    with locks.writer(part):  # one process makes all parts
        parts = Parts()
        if stated := folder.stated():
            parts = Parts.of(folder, stated)
            _check_unchanged(reader, folder, parts)
        used = copy_encoder(encoder, part, folder.part(parts.memory, new=True))
        made = make_parts(reader, folder, parts, used)
        folder.write(text=parts.text, model=ENCODER, memory=parts.memory, retrieval=parts.retrieval)
        with removing():
            batch_cache.remove(folder.path, ENCODED)
        if not made:
            _log.info('%s has the text of %s already: nothing to do', folder.path, reader)
    tell_left_out(reader)


@contextlib.contextmanager
def removing() -> Iterator[None]:
    """Warns of an OSError in removing what no version needs: the next change removes it."""
    try:
        yield
    except OSError as error:
        _log.warning('what no version needs was left: %s', error_message(error))


def tell_left_out(reader: PlainText) -> None:
    """Says which files of the sources are not read."""
    if left_out := reader.left_out():
        what = '1 file is' if len(left_out) == 1 else f'{len(left_out):,} files are'
        why = 'of no kind that is read, or a link to nothing, and left out'
        _log.warning('%s %s: %s', what, why, some(left_out, MOST_TOLD))


def _check_unchanged(reader: PlainText, folder: KBFolder, parts: Parts) -> None:
    """Raises InputError if a finished knowledge base lacks documents, or has them otherwise."""
    stored = Prepared(folder.part(parts.text)).file(tables.DOCUMENTS_FILE)
    known = {document.id: document for document in read_documents(stored)}
    with tempfile.TemporaryDirectory() as temporary:
        documents = reader.documents(pathlib.Path(temporary, 'rejected.jsonl'))
    texts = {document.text for document in known.values()}
    new = [one.id for one in documents if one.id not in known and one.text not in texts]
    changed = [one.id for one in documents if one.id in known and one != known[one.id]]
    if new or changed:
        shown = ', '.join((new + changed)[:3]) + (', …' if len(new + changed) > 3 else '')
        if reader.in_memory:
            replace = ', replace=True' if changed else ''
            add = f'with opql_jax.open(kb).update() as change: change.add(...{replace})'
        else:
            replace = ' --replace' if changed else ''
            add = f'opql add {folder.path} {shlex.join(reader.on_disk)}{replace}'
        differs = f'the sources have {len(new)} new and {len(changed)} changed documents ({shown})'
        back = ', with sentences that were removed from them' if changed else ''
        take_in = f'To take them in{back}: {add}'
        raise InputError(f'{folder.path} was made of other text: {differs}. {take_in}')
    read = {document.id for document in documents} | {document.text for document in documents}
    if gone := [one.id for one in known.values() if read.isdisjoint((one.id, one.text))]:
        remove = f'opql remove {folder.path} --document ID'
        _log.warning('no source has these documents any more: %s; see `%s`', some(gone), remove)


def _check_free(folder: KBFolder) -> None:
    """Raises InputError if a folder holds files, and no knowledge base that was begun."""
    path = files.require_local(folder.path)
    is_begun = (path / ENCODER).is_dir() or folder.manifest.exists()
    if path.is_dir() and any(path.iterdir()) and not is_begun:
        other = f'{path} holds other files, and no knowledge base'
        raise InputError(f'{other}: give a new or empty folder')


def make_parts(
    reader: PlainText | StoredText, folder: KBFolder, parts: Parts, used: TextEncoder
) -> bool:
    """Makes a version's unfinished parts of a reader's text; returns whether there were any.

    Nobody else makes parts in the folder meanwhile; `used` is the encoder, opened from its part.
    Encodings of passages that the version that answers has, too, are reused.

    InputError: a finished part was made by another encoder or program.
    """
    started = time.monotonic()
    part_of = lambda part: files.require_local(folder.part(part, new=True))
    paths = {name: part_of(part) for name, part in dataclasses.asdict(parts).items()}
    formats: dict[str, FolderFormat] = {
        'text': tables.PREPARED,
        'memory': memory_manifest.FORMAT,
        'retrieval': retrieval_index.FORMAT,
    }
    finished = {name for name, format in formats.items() if is_folder_of(paths[name], format)}
    stated = folder.stated() or {}
    answers = stated.get('text') == parts.text
    if answers and len(finished) == len(formats):
        return False
    if not (answers and 'text' in finished):  # or `prepare` says whether the reader is the same
        prepare(
            kb=os.fspath(folder.path),
            text=parts.text,
            reader=reader,
            tokenizer=os.fspath(folder.part(ENCODER) / released.TOKENIZER),
            max_tokens=MAX_TOKENS,
            processes=reader.processes,
            map_batches=reader.map_batches,
        )
    prepared = Prepared(paths['text'])
    rows = select_pair_rows(prepared, PAIRS)
    encoded_by = digest(used)
    for name, made_by in _MADE_BY.items():
        if name in finished and made_by(paths[name]) != encoded_by:
            other = f'{paths[name]} was made by another encoder or program'
            raise InputError(f'{other}: delete that folder, and run the same again')
    before = Parts.of(folder, stated) if stated and not answers else None
    passages = PassageEncoder(
        used,
        prepared,
        rows,
        files.require_local(files.below(folder.path, f'{ENCODED}/{encoded_by}')),
        reader.map_batches or map,
        _reusable(folder, before, used, encoded_by) if before else None,
    )
    passages.vectors()  # encoded first, so that the build tells its own rate
    params = {'encoder': used.params, 'entity_table': {}}
    selection = {'pairs': PAIRS, 'min_count': 1, 'max_pairs': None}
    options = memory_options(prepared, params, selection, relation_dim=used.dim)
    memory = build_lib.build(
        paths['memory'],
        entry_table(prepared, rows),
        Halves(passages.pairs, passages.halves),
        dataclasses.replace(options, hashes={**options.hashes, _ENCODED_BY: encoded_by}),
    )
    if 'retrieval' not in finished:
        index_passages(paths['retrieval'], prepared, passages, encoded_by)
    made = folder.path, len(memory), len(prepared.vocab), time.monotonic() - started
    _log.info('%s: %d entries over %d entities, %.0f s', *made)
    return True


# Of each part with numbers of an encoder, what reads the `digest` of that from its folder.
_MADE_BY = {
    'memory': lambda folder: memory_manifest.read_manifest(folder).hashes.get(_ENCODED_BY),
    'retrieval': lambda folder: read_manifest(folder, retrieval_index.FORMAT).encoded_by,
}


def _reusable(
    folder: KBFolder, parts: Parts, used: TextEncoder, encoded_by: str
) -> StoredPassages | None:
    """`_stored_passages`; None of a damaged version, so that a change mends it."""
    try:
        return _stored_passages(folder, parts, used, encoded_by)
    except ManifestError as error:
        _log.warning('all passages are encoded again: %s', error_message(error))
        return None


def _stored_passages(
    folder: KBFolder, parts: Parts, used: TextEncoder, encoded_by: str
) -> StoredPassages | None:
    """What a version holds of its passages; None if it was not made of its text by this encoder."""
    of = lambda name: folder.part(getattr(parts, name))
    if any(made_by(of(name)) != encoded_by for name, made_by in _MADE_BY.items()):
        return None
    prepared = Prepared(of('text'))
    rows = select_pair_rows(prepared, PAIRS)
    with contextlib.closing(Memory.open(of('memory'))) as memory:
        built = memory.manifest
        if (built.pairs_sha256, built.history) != (entry_table(prepared, rows).hash(), []):
            return None
        halves = np.concatenate(memory.relation_shards)
    text = PassageEncoder(used, prepared, rows, files.below(folder.path, ENCODED))
    index = retrieval_index.IndexFolder(of('retrieval'))
    kinds, of_passages, of_sentences = (
        index.array(name) for name in ('mention_kinds', 'passage_vectors', 'sentence_vectors')
    )
    first, size = text.first_vector[:-1], used.fields.hidden_size
    if [each.shape for each in (halves, kinds, of_passages, of_sentences)] != [
        (2 * len(np.unique(text.pairs)), used.dim + SCALE_BYTES),
        (text.first_mention[-1], len(KINDS)),
        (len(first), size),
        (text.first_vector[-1] - len(first), size),
    ]:
        return None
    of_sentences = of_sentences.astype(np.float16)
    vectors = np.insert(of_sentences, first - np.arange(len(first)), of_passages, axis=0)
    return StoredPassages(text, halves.reshape(len(halves) // 2, 2, -1), kinds, vectors)


def copy_encoder(
    encoder: str | os.PathLike, part: pathlib.Path, memory: str | os.PathLike
) -> TextEncoder:
    """Copies a released encoder into a knowledge base, its `config.json` last.

    InputError: this is no released encoder, or `memory` is finished and was built with another one.
    """
    source = released.path_of(encoder)
    used = TextEncoder.load(source)  # or says what is wrong with it
    if is_folder_of(memory, memory_manifest.FORMAT):
        built_with = memory_manifest.read_manifest(memory).hashes['encoder']
        if built_with != params_hash(used.params):
            other = f'{memory} was built with another encoder'
            raise InputError(f'{other}: name that one (--encoder), or a new folder')
        with contextlib.suppress(ManifestError):
            # Its kinds may be of another release, and are those of the index.
            return TextEncoder.load(part)
    for name in (*read_manifest(source, released.FORMAT).files, released.FORMAT.file):
        content = (source / name).read_bytes()
        if not (part / name).exists() or (part / name).read_bytes() != content:
            with files.atomic_path(part / name) as partial:
                partial.write_bytes(content)
    return used
