"""Batches of whole passages: each is encoded once, and every pair of its mentions has a relation from that.

A pair of OPQL is marked in its text, so a passage with m mentions is encoded m (m - 1) times. Here its mentions keep their
names, and the relation of a pair is read off the places of its two. A batch holds several times as many pairs for its cost.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.data import batching, markup, sampling
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import AlignedQuestions, Epochs, one_hop, round_up, without
from opql_jax.data.sources import Source, interleave


class Placed(NamedTuple):
    """Passages that found a place in a batch."""

    ids: np.ndarray  # [p], rising
    inputs: list[markup.PlacedMentions]
    lengths: np.ndarray  # [p], the bucket of each


class PassageRows:
    """Places and packs passages with rows of the pair table.

    Attributes:
        index: the rows.
        capacities: {bucket length: passages}.
    """

    def __init__(
        self,
        prepared: Prepared,
        columns: Mapping[str, np.ndarray],
        passages: int,
        pairs_per_passage: int,
        bucket_lengths: Sequence[int],
        multiple: int,
    ):
        """Plans the batches.

        Args:
            prepared: the prepared folder.
            columns: of the pair table, see `PairIndex`.
            passages: of a batch.
            pairs_per_passage: R, the most rows that a passage of a batch has.
            bucket_lengths, multiple: see `buckets.plan_capacities`.
        """
        self.index = sampling.PairIndex(columns)
        self._records, self._special, self._pairs = prepared.records, prepared.special, pairs_per_passage
        self._order = np.argsort(self.index.passage, kind='stable')
        self._start = np.searchsorted(self.index.passage[self._order], np.arange(len(prepared.records) + 1))
        tokens, mentions = prepared.records.sizes()
        self._mentions = round_up(int(mentions.max()), 4)
        self.capacities = batching.plan_capacities(
            tokens[np.unique(self.index.passage)] + 2, passages, bucket_lengths, multiple
        )

    def rows_of(self, passages: np.ndarray) -> np.ndarray:
        """All rows of passages."""
        return np.concatenate([self._order[self._start[p] : self._start[p + 1]] for p in passages])

    def place(self, ids: Sequence[int]) -> Placed:
        """Gives passages places, the most wanted first, until the batch is full."""
        ids = np.array(list(dict.fromkeys(int(i) for i in ids)))
        inputs = [markup.place_mentions(passage, self._special) for passage in self._records.read(ids)]
        packer = batching.Packer(self.capacities)
        kept = np.flatnonzero([packer.add(len(placed.tokens)) for placed in inputs])
        order = np.argsort(ids[kept])
        return Placed(ids[kept][order], [inputs[i] for i in kept[order]], np.array(packer.places)[order])

    def pack(self, placed: Placed, rows: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays of a batch.

        Args:
            placed: its passages.
            rows: [n] rows of these, the most wanted first; of a passage only the first R are taken.

        Returns:
            For each bucket length L with p passages, int32: `tokens_{L}` [p, L]; `first_{L}`, `last_{L}` [p, M], the places
            of the mentions; and of the pairs `topic_mention_{L}`, `target_mention_{L}` (indices of these mentions),
            `topic_{L}` and `target_{L}`, -1 in unused slots, [p, R].
        """
        index, batch = self.index, {}
        passage = np.searchsorted(placed.ids, index.passage[rows])
        # The place of each row among those of its passage.
        order = np.argsort(passage, kind='stable')
        counts = np.bincount(passage, minlength=len(placed.ids))
        rank = np.empty(len(rows), np.int64)
        rank[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        for length, n in self.capacities.items():
            members = np.flatnonzero(placed.lengths == length)
            slot = np.full(len(placed.ids), -1)
            slot[members] = np.arange(len(members))
            tokens = batching.pad_tokens([placed.inputs[i].tokens for i in members], n, length, self._special)
            first, last = np.zeros((2, n, self._mentions), np.int32)
            for at, i in enumerate(members):
                m = len(placed.inputs[i].first)
                first[at, :m], last[at, :m] = placed.inputs[i].first, placed.inputs[i].last
            taken = (slot[passage] >= 0) & (rank < self._pairs)
            at = slot[passage[taken]], rank[taken]
            batch |= {f'tokens_{length}': tokens, f'first_{length}': first, f'last_{length}': last}
            for name, empty in (('topic_mention', 0), ('target_mention', 0), ('topic', -1), ('target', -1)):
                values = np.full((n, self._pairs), empty, np.int32)
                values[at] = getattr(index, name)[rows[taken]]
                batch[f'{name}_{length}'] = values
        return batch


class PassageAlignSource(Source):
    """1-hop questions beside the passages that mention their topic, distantly aligned (paper section 4.1).

    As `AlignSource`, but a batch is made of passages: all of their pairs are there, so questions about other topics, to which
    the passages hold an answer, are asked as well.

    Features: those of `PassageRows.pack`, and those of `AlignedQuestions.features` for `questions` of them.

    Attributes:
        questions: the `AlignedQuestions`.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        split: str,
        num_steps: int,
        seed: int,
        passages: int = 128,
        pairs: str = 'title',
        held_out: Sequence[str] = (),
        topics: int = 48,
        questions: int = 320,
        passages_per_topic: int = 8,
        pairs_per_passage: int = 40,
        questions_per_topic: int = 4,
        max_answers: int = 256,
        bucket_lengths: Sequence[int] = batching.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        asked = without(one_hop(prepared, split), held_out)
        kept = prepared.pair_rows(pairs)
        columns = {name: column[kept] for name, column in prepared.pairs.items()}
        self._rows = PassageRows(prepared, columns, passages, pairs_per_passage, bucket_lengths, multiple)
        self.capacities = self._rows.capacities
        self.questions = AlignedQuestions(prepared, split, asked, self._rows.index, max_answers)
        self._order = Epochs(len(self.questions.topics), seed)
        self._topics, self._count = topics, questions
        self._passages_per_topic, self._questions_per_topic = passages_per_topic, questions_per_topic

    def batch(self, step, rng):
        index, asked = self._rows.index, self.questions
        drawn = asked.topics[np.unique(self._dealt(self._order, step, self._topics))]
        placed = self._rows.place(np.concatenate(interleave([self._passages(topic, rng) for topic in drawn])))
        rows = rng.permutation(self._rows.rows_of(placed.ids))
        others = rng.permutation(np.setdiff1d(index.topic[rows], drawn))
        here = set(index.pair_of(rows).tolist())
        answered = lambda topic: [i for i in asked.of_topic(topic) if not here.isdisjoint(asked.aligned[i].tolist())]
        ids = [rng.permutation(answered(topic))[: self._questions_per_topic] for topic in [*drawn, *others]]
        ids = np.concatenate(ids)[: self._count].astype(np.int64)
        rows = rows[np.isin(index.topic[rows], asked.arrays.topic[ids])]
        answers = np.isin(index.pair_of(rows), np.concatenate([asked.aligned[i] for i in ids]))
        rows = rows[np.argsort(~answers, kind='stable')]
        features = asked.features(ids, self._count, index.topic[rows], index.target[rows], rng)
        return {**features, **self._rows.pack(placed, rows)}

    def _passages(self, topic, rng):
        """Passages that mention a topic: one with an answer to one of its questions first, then any."""
        index = self._rows.index
        answer = rng.choice(self.questions.aligned[rng.choice(self.questions.of_topic(topic))])
        start, end = index.pairs_of_topic(topic)
        rows = sampling.some(index.pair_start[start], index.pair_start[end], 8 * self._passages_per_topic, rng)
        passages = dict.fromkeys(index.passage[np.concatenate([index.rows(answer, 1, rng), rows])].tolist())
        return np.array(list(passages)[: self._passages_per_topic])
