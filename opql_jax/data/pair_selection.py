"""Selects the pairs of a memory, or for L_rel, by highest mutual information (paper §2.5).

A pair is one int64 key for both of its directions, `low * num_entities + high`.
"""

import hashlib
import logging
import pathlib
import time

import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import cache_folder
from opql_jax.corpus.pairs import mutual_information
from opql_jax.data.prepared import PAIR_KINDS, Prepared

_log = logging.getLogger(__name__)

# A choice that took this many seconds is kept for the next start.
_WORTH_KEEPING = 10.0


def select_pair_rows(
    prepared: Prepared,
    pairs: str = 'title',
    min_count: int = 1,
    max_pairs: int | None = None,
    first_passage: int = 0,
) -> np.ndarray:
    """The rows of pairs.parquet [n] int64, rising, of a kind (`pair_rows`) and of the best pairs.

    Of entities that at least `min_count` passages, from `first_passage` on, mention together, the
    `max_pairs` with the highest mutual information, in both directions; all if None. The paper
    (§2.5) has 800,000 with a `min_count` of 5. A choice that took long is kept in this machine's
    cache (`manifest.cache_folder`), by the hash of the text and the settings. InputError: no pair
    qualifies.
    """
    if min_count < 1 or (max_pairs is not None and max_pairs < 1):
        raise InputError(f'min_count={min_count} and max_pairs={max_pairs} must be at least 1')
    kept = _cache_file(prepared, pairs, min_count, max_pairs, first_passage)
    if (rows := _read(kept, prepared.manifest.counts.pair_rows)) is not None:
        return rows
    started = time.monotonic()
    columns, rows = prepared.pairs, prepared.pair_rows(pairs)
    rows = rows[columns['passage'][rows] >= first_passage]
    if len(rows) and (min_count > 1 or max_pairs is not None):
        n = len(prepared.vocab)
        keys = pair_keys(columns['topic'][rows], columns['target'][rows], n)
        statistics = mutual_information(prepared.passages.slice(first_passage), min_count)
        rows = rows[np.isin(keys, best_pairs(statistics, keys, n, max_pairs))]
        if not len(rows):
            raise InputError(
                f'{prepared.directory}: {min_count} passages mention none of the {pairs} pairs'
            )
    if not len(rows):
        raise InputError(f'{prepared.directory} holds no {pairs} pairs: {PAIR_KINDS[pairs]}')
    if time.monotonic() - started > _WORTH_KEEPING:
        with files.atomic_path(kept) as partial, partial.open('wb') as file:
            np.save(file, rows, allow_pickle=False)
    return rows


def _cache_file(prepared: Prepared, *settings) -> pathlib.Path:
    key = hashlib.sha256(repr((prepared.hash(), *settings)).encode()).hexdigest()
    return cache_folder() / f'pair-rows-{key[:32]}.npy'


def _read(file: pathlib.Path, count: int) -> np.ndarray | None:
    """Rows of a table of `count` that were kept; None if none were, or the file is damaged."""
    if not file.exists():
        return None
    try:
        rows = np.load(file, allow_pickle=False)
        if rows.dtype == np.int64 and rows.ndim == 1 and len(rows):
            if 0 <= rows[0] and rows[-1] < count and (np.diff(rows) > 0).all():
                return rows
    except (ValueError, EOFError) as error:
        _log.warning('%s cannot be read (%s)', file, error)
    _log.warning('%s is damaged: the pairs are chosen again', file)
    return None


def pair_keys(topic: np.ndarray, target: np.ndarray, num_entities: int) -> np.ndarray:
    """The keys [n] int64 of pairs in either direction."""
    return np.minimum(topic, target).astype(np.int64) * num_entities + np.maximum(topic, target)


def best_pairs(
    statistics, allowed: np.ndarray, num_entities: int, max_pairs: int | None = None
) -> np.ndarray:
    """The `max_pairs` best `allowed` keys (all if None) by `mutual_information`, ties to lower."""
    keys, information = _allowed(statistics, allowed, num_entities)
    return keys[np.lexsort((keys, -information))[:max_pairs]]


def best_pairs_of_topics(
    statistics, allowed: np.ndarray, num_entities: int, topics, count: int
) -> np.ndarray:
    """The keys of the `count` best pairs of each of `topics`; see `best_pairs`."""
    keys, information = _allowed(statistics, allowed, num_entities)
    low, high = np.divmod(keys, num_entities)
    entity, other = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((other, -np.tile(information, 2), entity))
    entity = entity[order]
    rank = np.arange(len(entity)) - np.searchsorted(entity, entity)
    return np.unique(np.tile(keys, 2)[order][(rank < count) & np.isin(entity, topics)])


def _allowed(statistics, allowed, num_entities):
    """Keys and mutual information of the allowed pairs."""
    keys = pair_keys(statistics['low'], statistics['high'], num_entities)
    chosen = np.isin(keys, allowed)
    return keys[chosen], statistics['pmi'][chosen]
