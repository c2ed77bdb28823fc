"""From a trained encoder to a memory: which pairs become entries, with what provenance, encoded how."""

import logging
import time

import numpy as np

from opql_jax.corpus.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.memory import build as build_lib
from opql_jax.memory.store import params_hash
from opql_jax.models.encoding import PairEncoder
from opql_jax.training import model_card

_log = logging.getLogger(__name__)


def memory_entries(prepared: Prepared, pairs: str = 'title') -> tuple[np.ndarray, build_lib.EntryTable]:
    """The pair rows that become entries, and their provenance.

    Args:
        prepared: the prepared folder.
        pairs: 'title' (page title and mention, both directions) or 'all' (every two mentions of a passage).

    Returns:
        (rows of pairs.parquet [n], EntryTable of n rows).

    Raises:
        InputError: no pair qualifies.
    """
    if pairs not in ('title', 'all'):
        raise InputError(f"pairs={pairs!r}: 'title' or 'all'")
    columns = prepared.pairs
    rows = np.flatnonzero(columns['is_title']) if pairs == 'title' else np.arange(len(columns['topic']))
    if not len(rows):
        raise InputError(f"{prepared.directory} holds no {pairs} pairs: no passage mentions an entity besides its title's")
    return rows, build_lib.EntryTable.from_pairs({name: column[rows] for name, column in columns.items()}, prepared.passages)


def build_memory(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    pairs: str = 'title',
    mentions: str = 'all',
    shard_rows: int = 16384,
    dtype: str = 'float32',
    seed: int = 0,
    step: int | None = None,
    dry_run: bool = False,
):
    """Encodes every pair with the encoder in `model_dir` and writes the memory, resuming a build that was killed.

    Args:
        prepared_dir: folder written by `prepare`.
        model_dir: workdir of the training run whose encoder is used.
        memory_dir: where the memory goes.
        pairs: see `memory_entries`.
        mentions: 'all' keeps every mention (relation following), 'average' averages up to 5 per pair (open-domain).
        shard_rows: entries per shard.
        dtype: of the stored relations.
        seed: of the choice among more than 5 mentions.
        step: checkpoint to use; the newest if None.
        dry_run: print shapes and return.
    """
    prepared = Prepared(prepared_dir)
    encoder, params, card, _ = model_card.load(model_dir, step)
    model_card.check_vocabulary(card, prepared, model_dir)
    rows, entries = memory_entries(prepared, pairs)
    if dry_run:
        print(f'# {len(rows):,} {pairs} pair rows of {len(prepared.vocab):,} entities, d_r {encoder.relation_dim}, {dtype}')
        return
    encode = PairEncoder(encoder, params['encoder'], prepared.records, prepared.pairs, prepared.special)
    started = time.monotonic()
    memory = build_lib.build(
        memory_dir,
        entries,
        lambda entry_rows: encode(rows[entry_rows]),
        shard_rows=shard_rows,
        mentions=mentions,
        seed=seed,
        relation_dim=encoder.relation_dim,
        num_entities=len(prepared.vocab),
        dtype=dtype,
        hashes={
            'encoder': params_hash(params['encoder']),
            'entity_table': params_hash(params['entity_table']),
            'vocabulary': prepared.vocab.hash(),
        },
        progress=lambda done, total, rate, eta: _log.info('%d/%d mentions  %.0f/s  ETA %ds', done, total, rate, eta),
    )
    _log.info('memory of %d entries in %s, %.0f s', len(memory), memory_dir, time.monotonic() - started)
