"""Passages with one random mention hidden, for RELIC-style training of the entity table."""

from typing import NamedTuple

import numpy as np

from opql_jax.data import batching, markup
from opql_jax.data.batching import Buckets
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import PassageSource


class EntityBatch(NamedTuple):
    """Passages with a hidden mention each."""

    mentions: tuple[batching.MaskedBucket, ...]


class EntitySource(PassageSource):
    """Draws passages and a mention to hide in each."""

    def __init__(self, prepared: Prepared, rows: int = 256, seed: int = 0, buckets: Buckets = ()):
        # Hiding a mention never lengthens a passage by more than [CLS], [SEP] and one marker.
        super().__init__(prepared, rows, 3, 3, buckets, seed)

    def batch(self, step, rng) -> EntityBatch:
        drawn, packer = self._fill(rng, self._choose)
        (mention,) = drawn.choice
        masked = markup.MaskedMentions(drawn.texts, mention, self._special)

        def bucket(length, n, members):
            rows = drawn.rows[np.array(members, np.int64)]
            tokens, position = masked.batch(rows, n, length)
            entity = batching.filled(masked.entity[rows], n, -1)
            return batching.MaskedBucket(tokens, position, entity)

        return EntityBatch(tuple(bucket(*each) for each in packer.buckets()))

    def _choose(self, numbers, texts, rng):
        mention = np.array([rng.integers(count) for count in texts.sizes[:, 1].tolist()], np.int64)
        return (mention,), markup.MaskedMentions(texts, mention, self._special).lengths
