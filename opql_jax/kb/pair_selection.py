"""Which pairs of entities a memory gets: those with the highest pointwise mutual information (paper, open-domain memory).

A pair is known here by one number for both directions, `low * num_entities + high`.
"""

import numpy as np


def keys_of(topic: np.ndarray, target: np.ndarray, num_entities: int) -> np.ndarray:
    """The keys [n] int64 of pairs, whichever direction they are in."""
    return np.minimum(topic, target).astype(np.int64) * num_entities + np.maximum(topic, target)


def best_pairs(statistics, among: np.ndarray, num_entities: int, max_pairs: int | None = None) -> np.ndarray:
    """The pairs with the highest mutual information.

    Args:
        statistics: what `pairs.mutual_information` gives.
        among: keys of the pairs that may be taken.
        num_entities: of the vocabulary.
        max_pairs: how many, at most; all if None. Of equal ones those of the lowest ids are taken.

    Returns:
        Keys.
    """
    keys, pmi = _of(statistics, among, num_entities)
    return keys[np.lexsort((keys, -pmi))[:max_pairs]]


def best_of_topics(statistics, among: np.ndarray, num_entities: int, topics, count: int) -> np.ndarray:
    """Of each of `topics` the `count` pairs with the highest mutual information; arguments and result as in `best_pairs`."""
    keys, pmi = _of(statistics, among, num_entities)
    low, high = np.divmod(keys, num_entities)
    entity, other = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((other, -np.tile(pmi, 2), entity))
    entity = entity[order]
    rank = np.arange(len(entity)) - np.searchsorted(entity, entity)
    return np.unique(np.tile(keys, 2)[order][(rank < count) & np.isin(entity, topics)])


def _of(statistics, among, num_entities):
    """Keys and mutual information of the pairs that may be taken."""
    keys = keys_of(statistics['low'], statistics['high'], num_entities)
    kept = np.isin(keys, among)
    return keys[kept], statistics['pmi'][kept]
