"""Batches of whole passages: each is encoded once, and every pair of its mentions has a relation from that.

A pair of OPQL is marked in its text, so a passage with m mentions is encoded m (m - 1) times. Here its mentions keep their
names, or some of them do, and the relation of a pair is read off the places of its two mentions. A batch of a budget holds
an order of magnitude more pairs.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.data import buckets, markup, sampling
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import AlignedQuestions, Epochs, round_up
from opql_jax.data.sources import OFFERS, Source, interleave


class Placed(NamedTuple):
    """Passages that found a place in a batch."""

    ids: np.ndarray  # [p], rising
    inputs: list[markup.PlacedMentions]
    masked: list[np.ndarray]  # of each passage [m] bool
    entities: list[np.ndarray]  # of each passage [m]
    lengths: np.ndarray  # [p], the bucket of each


class PassageRows:
    """Places and packs passages with rows of the pair table; shared by the sources that encode passages.

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
        self.capacities = buckets.plan_capacities(
            tokens[np.unique(self.index.passage)] + 2, passages, bucket_lengths, multiple
        )

    def rows_of(self, passages: np.ndarray) -> np.ndarray:
        """All rows of passages."""
        return np.concatenate([self._order[self._start[p] : self._start[p + 1]] for p in passages])

    def place(self, ids: Sequence[int], rng: np.random.Generator, names: float = 1.0) -> Placed:
        """Gives passages places, the most wanted first, until the batch is full; a mention keeps its name with probability
        `names`."""
        packer, kept = buckets.Packer(self.capacities), []
        ids = list(dict.fromkeys(int(i) for i in ids))
        for i, passage in zip(ids, self._records.read(ids)):
            masked = rng.random(len(passage.entities)) >= names
            placed = markup.place_mentions(passage, self._special, masked)
            if packer.add(len(placed.tokens)):
                kept.append((i, placed, masked, passage.entities))
        order = sorted(range(len(kept)), key=lambda k: kept[k][0])
        columns = zip(*(kept[k] for k in order))
        return Placed(np.array(next(columns)), *map(list, columns), np.array(packer.places)[order])

    def pack(self, placed: Placed, rows: np.ndarray, anchor: np.ndarray, max_context: int = 0) -> dict[str, np.ndarray]:
        """The arrays of a batch.

        Args:
            placed: its passages.
            rows: [n] rows of these, the most wanted first; of a passage only the first R are taken.
            anchor: [n] bool, rows that are to be anchors of L_rel.
            max_context: C, masked mentions of a passage that L_el looks at.

        Returns:
            For each bucket length L with p passages, int32: `tokens_{L}` [p, L], `first_{L}`, `last_{L}` [p, M], the places
            of the mentions; of the pairs `topic_mention_{L}`, `target_mention_{L}` (indices of these mentions), `topic_{L}`,
            `target_{L}`, -1 in unused slots, and `anchor_{L}` bool, all [p, R]; `context_{L}` (indices of mentions) and
            `context_entities_{L}`, -1 in unused slots, [p, C].
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
            tokens = buckets.pad_tokens([placed.inputs[i].tokens for i in members], n, length, self._special)
            first, last = np.zeros((2, n, self._mentions), np.int32)
            context, context_entities = np.zeros((n, max_context), np.int32), np.full((n, max_context), -1, np.int32)
            for at, i in enumerate(members):
                m = len(placed.entities[i])
                first[at, :m], last[at, :m] = placed.inputs[i].first, placed.inputs[i].last
                if max_context:
                    chosen = _apart(placed.inputs[i].first, placed.masked[i], max_context)
                    context[at, : len(chosen)], context_entities[at, : len(chosen)] = chosen, placed.entities[i][chosen]
            taken = (slot[passage] >= 0) & (rank < self._pairs)
            at = slot[passage[taken]], rank[taken]
            batch |= {f'tokens_{length}': tokens, f'first_{length}': first, f'last_{length}': last}
            for name, empty in (('topic_mention', 0), ('target_mention', 0), ('topic', -1), ('target', -1)):
                values = np.full((n, self._pairs), empty, np.int32)
                values[at] = getattr(index, name)[rows[taken]]
                batch[f'{name}_{length}'] = values
            anchors = np.zeros((n, self._pairs), bool)
            anchors[at] = anchor[taken]
            batch |= {
                f'anchor_{length}': anchors,
                f'context_{length}': context,
                f'context_entities_{length}': context_entities,
            }
        return batch


class PassageRelationSource(Source):
    """Passages that share pairs, for L_rel and L_el; see `PassageRows.pack` for the features.

    Each mention keeps its name with the probability `names`, as in "Matching the Blanks" (Baldini Soares et al., 2019): were
    all visible, two mentions of a pair would be told by their names, and were none, an encoder that reads names later would
    never have seen one. The rows that are anchors have another of their pair in the batch, in another passage.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        num_steps: int,
        seed: int,
        passages: int = 128,
        pairs_per_passage: int = 12,
        neighbours: int = 4,
        names: float = 0.3,
        max_context: int = 4,
        bucket_lengths: Sequence[int] = buckets.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        self._rows = PassageRows(prepared, prepared.pairs, passages, pairs_per_passage, bucket_lengths, multiple)
        self._sampler = sampling.SharedSampler(self._rows.index, neighbours)
        self._names, self._max_context = names, max_context
        self.capacities = self._rows.capacities

    def batch(self, step, rng):
        index, offered = self._rows.index, {}
        for rows, _ in self._sampler.draw(rng):
            offered |= dict.fromkeys(index.passage[rows].tolist())
            if len(offered) > OFFERS * sum(self.capacities.values()):
                break
        placed = self._rows.place(list(offered), rng, self._names)
        rows = rng.permutation(self._rows.rows_of(placed.ids))
        # One row of a pair and passage: two share most of their words, so they make poor positives.
        pair = index.pair_of(rows)
        rows, pair = (x[np.unique([pair, index.passage[rows]], axis=1, return_index=True)[1]] for x in (rows, pair))
        _, inverse, count = np.unique(pair, return_inverse=True, return_counts=True)
        repeated = count[inverse] > 1
        order = np.lexsort([rng.random(len(rows)), ~repeated])
        return self._rows.pack(placed, rows[order], repeated[order], self._max_context)


class PassageAlignSource(Source):
    """1-hop questions beside the passages that mention their topic, distantly aligned (paper section 4.1).

    As `AlignSource`, but a batch is made of passages: all of their pairs are there, so other questions can be asked about
    them too, of whatever topic they mention.

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
        bucket_lengths: Sequence[int] = buckets.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        kept = prepared.pair_rows(pairs)
        columns = {name: column[kept] for name, column in prepared.pairs.items()}
        self._rows = PassageRows(prepared, columns, passages, pairs_per_passage, bucket_lengths, multiple)
        self.capacities = self._rows.capacities
        self.questions = AlignedQuestions(prepared, split, self._rows.index, held_out, max_answers)
        self._order = Epochs(len(self.questions.topics), seed)
        self._topics, self._count = topics, questions
        self._passages_per_topic, self._questions_per_topic = passages_per_topic, questions_per_topic

    def batch(self, step, rng):
        index, asked = self._rows.index, self.questions
        start = (step * self._shard_count + self._shard_index) * self._topics
        drawn = asked.topics[np.unique(self._order.take(start, self._topics))]
        placed = self._rows.place(np.concatenate(interleave([self._passages(topic, rng) for topic in drawn])), rng)
        rows = rng.permutation(self._rows.rows_of(placed.ids))
        others = np.setdiff1d(index.topic[rows], drawn)
        ids = [rng.permutation(asked.of_topic(t))[: self._questions_per_topic] for t in [*drawn, *rng.permutation(others)]]
        ids = np.concatenate(ids)[: self._count]
        rows = rows[np.isin(index.topic[rows], asked.arrays.topic[ids])]
        answers = np.isin(index.pair_of(rows), np.concatenate([asked.aligned[i] for i in ids]))
        rows = rows[np.argsort(~answers, kind='stable')]
        batch = self._rows.pack(placed, rows, np.zeros(len(rows), bool))
        return {**asked.features(ids, self._count, index.topic[rows], index.target[rows], rng), **batch}

    def _passages(self, topic, rng):
        """Passages that mention a topic: one with an answer to one of its questions first, then any."""
        index = self._rows.index
        answer = rng.choice(self.questions.aligned[rng.choice(self.questions.of_topic(topic))])
        start, end = index.pairs_of_topic(topic)
        rows = sampling.some(index.pair_start[start], index.pair_start[end], 8 * self._passages_per_topic, rng)
        passages = dict.fromkeys(index.passage[np.concatenate([index.rows(answer, 1, rng), rows])].tolist())
        return np.array(list(passages)[: self._passages_per_topic])


def _apart(first, masked, count):
    """At most `count` of the masked mentions, evenly spread; of those in one place the outermost."""
    members = np.flatnonzero(masked)
    members = members[np.unique(first[members], return_index=True)[1]]
    return members if len(members) <= count else members[np.arange(count) * len(members) // count]
