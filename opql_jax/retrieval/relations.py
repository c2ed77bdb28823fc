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
        """Takes passage, topic and target of each relation [n], and what reads some of them.

        Of rows [m], [m, d] of unit length.
        """
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

        `side` is what the entities are of the relations that count. Returns [n] the cosine of the
        relation, of that passage and entity, that is closest to any that is asked; 0 if there is
        none, or all are below.
        """
        if not len(asked) or not len(passages):
            return np.zeros(len(passages), np.float32)
        keys, rows = self._sorted[side]
        distinct, place = np.unique(
            passages.astype(np.int64) * self._num_entities + entities, return_inverse=True
        )
        start = np.searchsorted(keys, distinct)
        lengths = np.searchsorted(keys, distinct, side='right') - start
        _, at = ranges(start, lengths)
        # By einsum, see `Candidates.logits`.
        cosines = np.einsum(
            'rd,ad->ar', self._read(rows[at]).astype(np.float32, copy=False), asked
        ).max(0)
        closest, some = np.zeros(len(distinct), np.float32), lengths > 0
        if some.any():
            closest[some] = np.maximum(
                np.maximum.reduceat(cosines, (np.cumsum(lengths) - lengths)[some]), 0
            )
        return closest[place]
