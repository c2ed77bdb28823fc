"""Relations that were read in passages, and how close they come to what a question asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from opql_jax.core.ranges import ranges


class Relations:
    """Relations of entities by the passage they were read in, such as a memory's entries."""

    def __init__(
        self,
        passages: np.ndarray,
        topics: np.ndarray,
        targets: np.ndarray,
        num_entities: int,
        read: Callable[[np.ndarray], np.ndarray],
    ):
        """Takes the columns of relations [n], and what reads rows [m]: [m, d] of unit length."""
        self._num_entities, self._read = num_entities, read
        self._sorted = {}
        for side, entities in (('topic', topics), ('target', targets)):
            keys = passages.astype(np.int64) * num_entities + entities
            rows = np.argsort(keys, kind='stable')
            self._sorted[side] = keys[rows], rows

    def closeness(
        self,
        side: Literal['topic', 'target'],
        passages: np.ndarray,
        entities: np.ndarray,
        asked: np.ndarray,
    ) -> np.ndarray:
        """How close what passages say of entities, both [n], is to the relations [m, d] asked for.

        Returns [n] the highest cosine of a relation of that passage, which has the entity on this
        `side`, and one that is asked; at least 0, also where there is none.
        """
        if not len(asked) or not len(passages):
            return np.zeros(len(passages), np.float32)
        keys, rows = self._sorted[side]
        wanted = passages.astype(np.int64) * self._num_entities + entities
        distinct, place = np.unique(wanted, return_inverse=True)
        start = np.searchsorted(keys, distinct)
        lengths = np.searchsorted(keys, distinct, side='right') - start
        _, at = ranges(start, lengths)
        # By einsum, see `Candidates.logits`.
        relations = self._read(rows[at]).astype(np.float32, copy=False)
        cosines = np.einsum('rd,ad->ar', relations, asked).max(0)
        closest, some = np.zeros(len(distinct), np.float32), lengths > 0
        if some.any():
            first = (np.cumsum(lengths) - lengths)[some]
            closest[some] = np.maximum(np.maximum.reduceat(cosines, first), 0)
        return closest[place]
