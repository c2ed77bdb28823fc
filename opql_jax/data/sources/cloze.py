"""Batches of passages in which one mention is to be predicted and others are topics (pretraining of the language model)."""

from typing import NamedTuple

import numpy as np

from opql_jax.data import lm_markup
from opql_jax.data.batching import Buckets
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import PassageSource
from opql_jax.data.texts import TextBucket, TextRow, TextSizes, pack_texts

# Tokens that markup adds to a passage besides [R1] of its topics: [CLS], [SEP], and [ENT] [R2] in place of a name.
_MARKUP_ROOM = 4
# Gold entries per topic.
_GOLD = 4


class ClozeBatch(NamedTuple):
    """Passages with a hidden mention each."""

    texts: tuple[TextBucket, ...]


class EntryIndex:
    """Finds the entries of a memory by topic and target."""

    def __init__(self, topic: np.ndarray, target: np.ndarray, passages: np.ndarray):
        """Takes the memory's columns: topic and target [N], passages [N, P] with -1 in unused slots."""
        order = np.lexsort((target, topic))
        self._rows, self._passages = order, passages
        self._topic, self._target = topic[order], target[order]

    def find(self, topic: int, target: int, passage: int) -> np.ndarray:
        """Rows of the entries (topic, target), without those read in `passage` (-1 excludes none)."""
        first, end = np.searchsorted(self._topic, [topic, topic + 1])
        first, end = first + np.searchsorted(self._target[first:end], [target, target + 1])
        rows = self._rows[first:end]
        return rows[~((self._passages[rows] == passage).any(axis=1) & (passage >= 0))]


class ClozeSource(PassageSource):
    """Draws passages, a mention to hide in each, and other mentions as topics.

    A passage with more topics than the longest bucket has room for keeps those nearest to the hidden mention; `left_out` counts the others.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        entries: EntryIndex | None = None,
        rows: int = 64,
        topics: int = 2,
        buckets: Buckets = (),
        seed: int = 0,
    ):
        """Plans the batches.

        Args:
            prepared: the text.
            entries: of the memory; None for a model without one.
            rows: passages per batch.
            topics: T; of a passage with more, as many are chosen at random.
            buckets: see `batching.capacities_for`.
            seed: of the draws.

        Raises:
            InputError: no passage has a mention, or one does not fit the longest bucket.
        """
        super().__init__(prepared, rows, _MARKUP_ROOM, _MARKUP_ROOM + topics, buckets, seed)
        self._entries, self._sizes = entries, TextSizes(topics=topics, gold=_GOLD)

    def batch(self, step, rng) -> ClozeBatch:
        return ClozeBatch(pack_texts(*self._fill(rng, self._row), self._sizes, self._special))

    def _row(self, number, passage, rng):
        target = int(rng.integers(len(passage.entities)))
        label = int(passage.entities[target])
        topics = rng.permutation(lm_markup.topics_beside(passage, target))[: self._sizes.topics]
        marked = lm_markup.mark_cloze(passage, target, topics, self._special)
        left_out = max(len(marked.tokens) - max(self.capacities), 0)  # each topic has one token of markup
        if left_out:
            topics = _nearest(passage, target, topics, len(topics) - left_out)
            marked = lm_markup.mark_cloze(passage, target, topics, self._special)
        entities = passage.entities[topics]
        gold = [] if self._entries is None else [rng.permutation(self._entries.find(e, label, number)) for e in entities]
        row = TextRow(
            input=marked,
            label=label,
            answers=[label],
            topic=entities,
            gold=gold,
            absent=[not len(rows) for rows in gold] if gold else False,
            passage=number,
            left_out=left_out,
        )
        return row, len(marked.tokens)


def _nearest(passage, target, topics, count):
    """The `count` of `topics` with the fewest tokens between them and the target, in their order."""
    apart = np.maximum(passage.starts[topics] - passage.ends[target], passage.starts[target] - passage.ends[topics])
    return topics[np.sort(np.argsort(apart, kind='stable')[:count])]
