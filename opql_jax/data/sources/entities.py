"""Batches of passages with one random mention hidden, for RELIC-style training of the entity table."""

from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data import batching, markup
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Source


class EntityBatch(NamedTuple):
    """Passages with a hidden mention each."""

    mentions: tuple[batching.MaskedBucket, ...]


class EntitySource(Source):
    """Draws passages and a mention to hide in each."""

    def __init__(self, prepared: Prepared, rows: int = 256, seed: int = 0):
        """Plans batches of `rows` passages; InputError if no passage has a mention."""
        super().__init__(seed)
        self._records, self._special = prepared.records, prepared.special
        tokens, mentions = self._records.sizes()
        self._passages = np.flatnonzero(mentions)
        if not len(self._passages):
            raise InputError(f'{self._records.path}: no passage has a mention')
        # Hiding a mention never lengthens a passage by more than [CLS], [SEP] and one marker.
        self.capacities = batching.plan_capacities(tokens[self._passages] + 3, rows)

    def batch(self, step, rng) -> EntityBatch:
        packer, rows = batching.Packer(self.capacities), []
        for _ in range(2):  # a second draw fills what the lengths of the first one left free
            for passage in self._records.read(rng.choice(self._passages, sum(packer.free.values()))):
                masked = markup.mask_mention(passage, rng.integers(len(passage.entities)), self._special)
                if packer.add(len(masked.tokens)):
                    rows.append(masked)
        return EntityBatch(batching.pack_masked(rows, packer, self._special))
