"""From a trained encoder to a memory: which pairs become entries, with what provenance, encoded how."""

import logging
import time

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.pairs import mutual_information
from opql_jax.data.prepared import PAIR_KINDS, Prepared
from opql_jax.kb import pair_selection as selection_lib
from opql_jax.kb.new_entities import embeddings
from opql_jax.memory import build as build_lib
from opql_jax.memory.format import params_hash
from opql_jax.models.bulk_encoding import pair_encoder
from opql_jax.training import model_config

_log = logging.getLogger(__name__)


def pair_rows(
    prepared: Prepared,
    pairs: str = 'title',
    min_count: int = 1,
    max_pairs: int | None = None,
    passages: int | None = None,
    first_passage: int = 0,
) -> np.ndarray:
    """The pair rows that become entries.

    Args:
        prepared: the prepared folder.
        pairs: see `Prepared.pair_rows`.
        min_count: passages that must mention both entities of a pair.
        max_pairs: how many pairs of entities, at most: those with the highest mutual information, in both directions; all
            if None. The paper's open-domain memory has 800,000 with a `min_count` of 5.
        passages: how many of the passages are known, from the first one; all if None.
        first_passage: the first of these that is looked at.

    Returns:
        Rows of pairs.parquet [n] int64, rising.

    Raises:
        InputError: no pair qualifies.
    """
    if min_count < 1 or (max_pairs is not None and max_pairs < 1):
        raise InputError(f'min_count={min_count} and max_pairs={max_pairs} must be at least 1')
    columns, rows = prepared.pairs, prepared.pair_rows(pairs)
    passage = columns['passage'][rows]
    rows = rows[(passage >= first_passage) & (passage < (len(prepared.passages) if passages is None else passages))]
    if len(rows) and (min_count > 1 or max_pairs is not None):
        n = len(prepared.vocab)
        keys = selection_lib.keys_of(columns['topic'][rows], columns['target'][rows], n)
        statistics = mutual_information(prepared.passages.slice(0, passages).slice(first_passage), min_count)
        rows = rows[np.isin(keys, selection_lib.best_pairs(statistics, keys, n, max_pairs))]
        if not len(rows):
            raise InputError(f'{prepared.directory} holds no {pairs} pairs that {min_count} passages or more mention')
    if not len(rows):
        raise InputError(f'{prepared.directory} holds no {pairs} pairs: {PAIR_KINDS[pairs]}')
    return rows


def entries_of(prepared: Prepared, rows: np.ndarray) -> build_lib.EntryTable:
    """Rows of the pair table with their provenance, in that order."""
    return build_lib.EntryTable.from_pairs({name: column[rows] for name, column in prepared.pairs.items()}, prepared.passages)


def build_memory(
    *,
    prepared_dir: str,
    model_dir: str,
    memory_dir: str,
    pairs: str = 'title',
    only_new: bool = False,
    mentions: str = 'all',
    shard_rows: int = 16384,
    dtype: str = 'float32',
    seed: int = 0,
    min_count: int = 1,
    max_pairs: int | None = None,
    step: int | None = None,
    dry_run: bool = False,
):
    """Encodes every pair with the encoder in `model_dir` and writes the memory, resuming a build that was killed.

    Args:
        prepared_dir: folder written by `prepare`.
        model_dir: workdir of the training run whose encoder is used.
        memory_dir: where the memory goes.
        pairs, min_count, max_pairs: see `pair_rows`.
        only_new: takes the passages that the folder has besides those of the folder it continues (`extends`), and nothing else:
            the memory of another corpus, for models that were trained over a memory of the same encoder. Entities that the
            model lacks get embeddings from their mentions, see `embeddings`.
        mentions: 'all' keeps every mention (relation following), 'average' averages up to 5 per pair (open-domain).
        shard_rows: entries per shard.
        dtype: of the stored relations.
        seed: of the choice among more than 5 mentions.
        step: checkpoint to use; the newest if None.
        dry_run: print shapes and return.
    """
    prepared = Prepared(prepared_dir)
    encoder, params, card, _ = model_config.load(model_dir, step)
    model_config.check_vocabulary(card, prepared, model_dir, grown=only_new)
    selection = {'pairs': pairs, 'min_count': min_count, 'max_pairs': max_pairs}
    if only_new:
        if len(prepared.folders) < 2:
            raise InputError(f'only_new: {prepared_dir} continues no other folder, so nothing in it is newer than the rest')
        selection['first_passage'] = prepared.folders[1]['passages']
    rows = pair_rows(prepared, **selection)
    new = np.arange(card['num_entities'], len(prepared.vocab))
    if dry_run:
        print(f'# {len(rows):,} {pairs} pair rows of {len(prepared.vocab):,} entities, d_r {encoder.relation_dim}, {dtype}')
        return
    encode = pair_encoder(card['pair_encoding'], encoder, params['encoder'], prepared)
    started = time.monotonic()
    memory = build_lib.build(
        memory_dir,
        entries_of(prepared, rows),
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
        covers={'prepared': prepared.hash(), 'passages': len(prepared.passages), **selection},
        embed=(lambda: embeddings(encoder, params, prepared, new)) if len(new) else None,
        progress=log_progress,
    )
    _log.info('memory of %d entries in %s, %.0f s', len(memory), memory_dir, time.monotonic() - started)


def log_progress(done: int, total: int, rate: float, eta: float) -> None:
    _log.info('%d/%d mentions  %.0f/s  ETA %ds', done, total, rate, eta)
