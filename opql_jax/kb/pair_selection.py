"""Selects the entity pairs stored in a memory: those with the highest pointwise mutual information (paper §2.5).

A pair is one int64 key for both of its directions, `low * num_entities + high`.
"""

import numpy as np


def pair_keys(topic: np.ndarray, target: np.ndarray, num_entities: int) -> np.ndarray:
    """The keys [n] int64 of pairs in either direction."""
    return np.minimum(topic, target).astype(np.int64) * num_entities + np.maximum(topic, target)


def best_pairs(statistics, allowed: np.ndarray, num_entities: int, max_pairs: int | None = None) -> np.ndarray:
    """The pairs with the highest mutual information.

    Args:
        statistics: what `pairs.mutual_information` returns.
        allowed: keys of the pairs to choose from.
        num_entities: of the vocabulary.
        max_pairs: how many, at most; all if None. Equally good pairs are taken by rising ids.

    Returns:
        Their keys.
    """
    keys, information = _allowed(statistics, allowed, num_entities)
    return keys[np.lexsort((keys, -information))[:max_pairs]]


def best_pairs_of_topics(statistics, allowed: np.ndarray, num_entities: int, topics, count: int) -> np.ndarray:
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
