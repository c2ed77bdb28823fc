"""Passages in which a mention is predicted, others being topics: pretrains the language model."""

import numpy as np

from opql_jax.core.ranges import ranges
from opql_jax.data import batching, lm_markup
from opql_jax.data.lm_markup import TextBatch, TextBucket, Texts
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import pair_key
from opql_jax.data.sources.base import PassageSource

# Tokens added to a passage besides each topic's [R1]: [CLS], [SEP], and [ENT] [R2] for a name.
_MARKUP_ROOM = 4
# Gold entries per topic.
_GOLD = 4


class EntryIndex:
    """Finds the entries of a memory by topic and target."""

    def __init__(self, topic: np.ndarray, target: np.ndarray, passages: np.ndarray):
        """Takes the memory's columns: topic and target [N], passages [N, P], -1 in unused slots."""
        keys = pair_key(topic, target)
        self._rows, self._passages = np.argsort(keys, kind='stable'), passages
        self._keys = keys[self._rows]

    def find(
        self, topic: np.ndarray, target: np.ndarray, passage: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Entries of k queries not read in `passage` (-1: any): counts [k], and their rows."""
        keys = pair_key(topic, target)
        first, end = (np.searchsorted(self._keys, keys, side=side) for side in ('left', 'right'))
        query, place = ranges(0, end - first)
        rows = self._rows[first[query] + place]
        kept = ~((self._passages[rows] == passage[query, None]).any(axis=1) & (passage[query] >= 0))
        return np.bincount(query[kept], minlength=len(keys)), rows[kept]


class ClozeSource(PassageSource):
    """Draws passages, a mention to hide in each, and other mentions as topics.

    Topics for which the longest bucket has no room, farthest from it first, count as `left_out`.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        entries: EntryIndex | None = None,
        rows: int = 64,
        topics: int = 2,
        buckets: batching.Buckets = (),
        seed: int = 0,
    ):
        """Plans batches of so many passages; `entries` are the memory's.

        Of one with more than `topics` (T), as many are chosen at random. InputError: no passage has
        a mention, or one does not fit the longest bucket.
        """
        super().__init__(prepared, rows, _MARKUP_ROOM, _MARKUP_ROOM + topics, buckets, seed)
        self._entries, self._topics = entries, topics

    def batch(self, step, rng) -> TextBatch:
        drawn, packer = self._fill(rng, self._choose)
        (target, topics, left_out), texts = drawn.choice, drawn.texts
        marked = lm_markup.ClozeTexts(texts, target, self._special).mark(topics)
        first = texts.begins[:, 1]
        label, used = texts.entities[first + target], topics >= 0
        topic = np.where(used, texts.entities[first[:, None] + topics], -1)
        gold, absent = self._find_gold(topic, label, drawn.numbers, rng)

        def pack(length, n, members):
            rows = drawn.rows[np.array(members, np.int64)]
            column = lambda values, fill=0: batching.filled(values[rows], n, fill)
            tokens = np.full((n, length), self._special.pad, np.int32)
            width = min(length, marked.tokens.shape[1])
            tokens[: len(rows), :width] = marked.tokens[rows, :width]
            tokens[len(rows) :, :2] = self._special.cls, self._special.sep
            return TextBucket(
                Texts(
                    tokens=tokens,
                    start=column(marked.starts),
                    r1=column(marked.r1),
                    r2=column(marked.r2),
                    used=column(used, False),
                    gold=column(gold, -1),
                    passage=column(drawn.numbers.astype(np.int32), -1),
                    exclude=np.full((n, 1), -1, np.int32),
                ),
                topic=column(topic, -1),
                absent=column(absent, False),
                label=column(label, -1),
                answers=column(label[:, None], -1),
                left_out=column(left_out),
            )

        return TextBatch(tuple(pack(*bucket) for bucket in packer.buckets()))

    def _choose(self, numbers, texts, rng):
        """For each passage: the hidden mention [n], topics [n, T] or -1, and topics cut [n]."""
        target = rng.integers(texts.sizes[:, 1])
        hidden = lm_markup.ClozeTexts(texts, target, self._special)
        topics = first_at_random(*hidden.topics(), len(numbers), self._topics, rng)
        count = (topics >= 0).sum(axis=1)
        # Each topic has one token of markup.
        left_out = np.maximum(hidden.base + count - max(self.capacities), 0)
        first = texts.begins[:, 1]
        for row in np.flatnonzero(left_out):
            at, chosen = first[row] + target[row], first[row] + topics[row, : count[row]]
            after = texts.starts[chosen] - texts.ends[at]
            apart = np.maximum(after, texts.starts[at] - texts.ends[chosen])
            nearest = np.sort(np.argsort(apart, kind='stable')[: count[row] - left_out[row]])
            topics[row] = batching.filled(topics[row, nearest], self._topics, -1)
        return (target, topics, left_out.astype(np.int32)), hidden.base + count - left_out

    def _find_gold(self, topic, label, numbers, rng):
        """Entries that state the label [n, T, G], and whether a topic has none [n, T]."""
        gold, absent = np.full((*topic.shape, _GOLD), -1, np.int32), np.zeros(topic.shape, bool)
        if self._entries is not None:
            row, slot = np.nonzero(topic >= 0)
            found, rows = self._entries.find(topic[row, slot], label[row], numbers[row])
            absent[row, slot] = found == 0
            owner = np.repeat(np.arange(len(row)), found)
            gold[row, slot] = first_at_random(owner, rows, len(row), _GOLD, rng)
        return gold, absent


def first_at_random(owner: np.ndarray, items: np.ndarray, count: int, most: int, rng) -> np.ndarray:
    """[count, most] int64: random `items` [n] of each list (`owner` [n] rises); -1 where unused."""
    items = items[np.lexsort((rng.random(len(items)), owner))]
    counts = np.bincount(owner, minlength=count)
    row, slot = ranges(0, np.minimum(counts, most))
    out = np.full((count, most), -1, np.int64)
    out[row, slot] = items[(np.cumsum(counts) - counts)[row] + slot]
    return out
