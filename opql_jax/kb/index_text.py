"""Makes a knowledge base of plain text: names are recognised, passages encoded with a released encoder, and nothing is trained."""

import logging
import os
import pathlib
import time
from collections.abc import Sequence

from opql_jax.core import files, locks
from opql_jax.core.batch_cache import MapBatches
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import is_folder_of
from opql_jax.corpus import tables
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.plain_text import PlainText
from opql_jax.kb.build_memory import entry_table, log_progress, memory_options, select_pair_rows
from opql_jax.kb.retrieve import index_passages
from opql_jax.memory import build as build_lib
from opql_jax.models import released
from opql_jax.models.passage_encoder import PassageEncoder
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval import index as retrieval_index

_log = logging.getLogger(__name__)

# The parts of a knowledge base of plain text.
TEXT, ENCODER, MEMORY, RETRIEVAL = 'text', 'encoder', 'memory', 'retrieval'
# Pairs that are far apart say little of each other.
PAIRS = 'near'
MAX_TOKENS = 128


def index_text(
    sources: Sequence[str],
    kb: str | os.PathLike,
    *,
    encoder: str | os.PathLike = 'default',
    max_reject_fraction: float = 0.01,
    processes: int | None = None,
    map_batches: MapBatches | None = None,
) -> None:
    """Builds a knowledge base, or goes on where a killed run of the same stopped.

    Args:
        sources: text files and folders, see `PlainText`.
        kb: the folder that is written.
        encoder: the folder of a released encoder, or 'default'.
        max_reject_fraction: share of bad files, or lines of a file, above which nothing is made, see `PlainText`.
        processes: that recognise names; one per core if None.
        map_batches: does elsewhere what is done for each document and passage, see `corpus.spark.map_ordered`; on this machine if None.

    Raises:
        InputError: no text, or none in which names are recognised; a knowledge base of other text in that folder.
    """
    reader = PlainText(
        tuple(map(os.fspath, sources)),
        max_reject_fraction=max_reject_fraction,
        processes=processes,
        map_batches=map_batches,
    )
    reader.files()  # or says what is wrong with the sources
    folder = KBFolder(kb)
    _check_free(folder)
    part = files.require_local(folder.part(ENCODER, new=True))
    with locks.writer(part):  # one process makes all parts
        _index(reader, kb, folder, copy_encoder(encoder, part))


def _check_free(folder: KBFolder) -> None:
    """Raises InputError if a folder holds files, and no knowledge base that was begun."""
    path = files.require_local(folder.path)
    if path.is_dir() and any(path.iterdir()) and not (path / ENCODER).is_dir() and not folder.manifest.exists():
        raise InputError(f'{path} holds other files, and no knowledge base: give a new or empty folder')


def _index(reader: PlainText, kb, folder: KBFolder, used: TextEncoder) -> None:
    """`index_text`, while nobody else does."""
    started = time.monotonic()
    prepare(
        kb=os.fspath(kb),
        text=TEXT,
        reader=reader,
        tokenizer=os.fspath(folder.part(ENCODER) / released.TOKENIZER),
        max_tokens=MAX_TOKENS,
        pair_mode='all',
        processes=reader.processes,
        map_batches=reader.map_batches,
    )
    prepared = Prepared(folder.part(TEXT))
    rows = select_pair_rows(prepared, PAIRS)
    parts = files.require_local(folder.part(ENCODER)) / tables.PARTS
    passages = PassageEncoder(used, prepared, parts, reader.map_batches or map)
    memory = build_lib.build(
        folder.part(MEMORY, new=True),
        entry_table(prepared, rows),
        lambda entry_rows: passages.relations(rows[entry_rows]),
        memory_options(
            prepared,
            {'encoder': used.params, 'entity_table': {}},
            {'pairs': PAIRS, 'min_count': 1, 'max_pairs': None},
            relation_dim=used.dim,
            dtype='float16',
        ),
        on_progress=log_progress,
    )
    index = files.require_local(folder.part(RETRIEVAL, new=True))
    if not is_folder_of(index, retrieval_index.FORMAT):
        index_passages(index, prepared, passages)
    folder.write(text=TEXT, model=ENCODER, memory=MEMORY, retrieval=RETRIEVAL)
    passages.clear()
    _log.info('%s: %d entries over %d entities, %.0f s', kb, len(memory), len(prepared.vocab), time.monotonic() - started)


def copy_encoder(encoder: str | os.PathLike, part: pathlib.Path) -> TextEncoder:
    """Copies a released encoder into a knowledge base, so that it can be taken elsewhere; `config.json` comes last."""
    source = released.DEFAULT if encoder == 'default' else files.require_local(encoder)
    used = TextEncoder.load(source)  # or says what is wrong with it
    for name in (released.WEIGHTS, released.TOKENIZER, released.CARD, released.FORMAT.file):
        content = (source / name).read_bytes()
        if not (part / name).exists() or (part / name).read_bytes() != content:
            with files.atomic_path(part / name) as partial:
                partial.write_bytes(content)
    return used
