"""The batches of each training stage, by step.

A source is a sequence of batches: `source[step]` is the whole batch of a step as a dict of NumPy arrays, a pure
function of (seed, step, shard_index, shard_count). A run that is resumed at step n therefore sees what an
uninterrupted one would have seen, and no position needs saving but the step.

All batches of a source have the same shapes and types. With several hosts each takes its own shard: rows are
drawn independently, questions are dealt out so that each comes once an epoch over all hosts.
"""

import copy
import logging
from collections.abc import Iterator, Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data import batching, markup, sampling
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import (
    AlignedQuestions,
    Epochs,
    HopTurns,
    QuestionArrays,
    answer_width,
    one_hop,
    pad_answers,
    without,
)

_log = logging.getLogger(__name__)

# Rows of which the length distribution is estimated.
PLAN_ROWS = 4096
# A batch is closed when this many times its rows were offered: what is still free is left empty.
OFFERS = 1.5


class Source(Sequence):
    """A sequence of batches."""

    def __init__(self, num_steps: int, seed: int, shard_index: int, shard_count: int):
        if num_steps < 0 or seed < 0 or not 0 <= shard_index < shard_count:
            raise InputError(
                f'num_steps {num_steps} and seed {seed} must not be negative, and shard_index {shard_index} must be one of'
                f' {shard_count} shards'
            )
        self._num_steps, self._seed, self._shard_index, self._shard_count = num_steps, seed, shard_index, shard_count

    def __len__(self) -> int:
        return self._num_steps

    def shard(self, index: int, count: int) -> 'Source':
        """Part `index` of `count` of the data, each of which makes batches of the same size."""
        other = copy.copy(self)
        Source.__init__(other, self._num_steps, self._seed, index, count)
        return other

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        if not 0 <= step < self._num_steps:
            raise IndexError(f'step {step} of {self._num_steps}')
        return self.batch(int(step), np.random.default_rng((self._seed, int(step), self._shard_index)))

    def _dealt(self, order: Epochs, turn: int, count: int) -> np.ndarray:
        """The `count` items of an order that this shard has in a turn; each item comes once an epoch over all shards."""
        return order.take((turn * self._shard_count + self._shard_index) * count, count)

    def batch(self, step: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """The batch of a step; all its randomness comes from `rng` and the seed."""
        raise NotImplementedError


class EntitySource(Source):
    """Passages with one random mention hidden, for RELIC-style training of the entity table.

    Features for each bucket length L with n rows, int32: `tokens_{L}` [n, L], `position_{L}` [n] of [ENT],
    `entity_{L}` [n], -1 in unused rows.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        num_steps: int,
        seed: int,
        rows: int = 256,
        bucket_lengths: Sequence[int] = batching.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        self._records, self._special = prepared.records, prepared.special
        tokens, mentions = self._records.sizes()
        self._passages = np.flatnonzero(mentions)
        if not len(self._passages):
            raise InputError(f'{self._records.path}: no passage has a mention')
        # Hiding a mention never lengthens a passage by more than [CLS], [SEP] and one marker.
        self.capacities = batching.plan_capacities(tokens[self._passages] + 3, rows, bucket_lengths, multiple)

    def batch(self, step, rng):
        packer = batching.Packer(self.capacities)
        kept = []
        for _ in range(2):  # a second draw fills what the first one's lengths left free
            for passage in self._records.read(rng.choice(self._passages, sum(packer.free.values()))):
                masked = markup.mask_mention(passage, rng.integers(len(passage.entities)), self._special)
                if packer.add(len(masked.tokens)):
                    kept.append(masked)
        batch, _ = batching.pack_masked(kept, self.capacities, self._special)
        return batch


class PairRows:
    """Marks and packs rows of the pair table; shared by the sources that encode pairs."""

    def __init__(self, prepared, columns, rows, bucket_lengths, multiple, max_context):
        self.index = sampling.PairIndex(columns)
        self._records, self._special, self._max_context = prepared.records, prepared.special, max_context
        tokens, _ = self._records.sizes()
        sample = np.unique(np.linspace(0, len(self.index.topic) - 1, PLAN_ROWS).astype(np.int64))
        lengths = [len(marked.tokens) for marked in self.mark(sample)]
        # The sample may lack the longest row, which must have a bucket too.
        longest = int(tokens[np.unique(self.index.passage)].max()) + markup.MARKUP_ROOM
        lengths.append(min(longest, max(bucket_lengths)))
        self.capacities = batching.plan_capacities(lengths, rows, bucket_lengths, multiple)

    def mark(self, rows: np.ndarray) -> list[markup.MarkedPair]:
        """Marks rows of the pair table."""
        index = self.index
        return [
            markup.mark_pair(passage, index.topic_mention[row], index.target_mention[row], self._special, self._max_context)
            for passage, row in zip(self._records.read(index.passage[rows]), rows)
        ]

    def fill(self, chunks: Iterator[tuple[np.ndarray, np.ndarray]]) -> dict[str, np.ndarray]:
        """Packs (rows, wanted as anchor) until the buckets are full; see `buckets.pack` for the features.

        A row that comes again is packed once. Rows without room are passed over. An anchor keeps its mark only
        if another row of its pair was packed too.
        """
        packer = batching.Packer(self.capacities)
        capacity = sum(self.capacities.values())
        seen, offered = {}, 0
        kept_rows, kept, anchors = [], [], []
        for rows, wanted in chunks:
            for row, marked, anchor in zip(rows.tolist(), self.mark(rows), wanted.tolist()):
                if row in seen:
                    if anchor and seen[row] is not None:
                        anchors[seen[row]] = True
                    continue
                offered += 1
                fits = packer.add(len(marked.tokens))
                seen[row] = len(kept) if fits else None
                if fits:
                    kept_rows.append(row)
                    kept.append(marked)
                    anchors.append(anchor)
            if packer.full or offered > OFFERS * capacity:
                break
        _, pair, count = np.unique(self.index.pair_of(np.array(kept_rows)), return_inverse=True, return_counts=True)
        batch, _ = batching.pack(kept, self.capacities, self._special, self._max_context, np.array(anchors) & (count[pair] > 1))
        return batch


class RelationSource(Source):
    """Marked pairs for L_rel and L_el; see `buckets.pack` for the features, `sampling` for the samplers.

    `anchor_{L}` marks the rows whose loss counts: a group's anchor with sampler 'groups', every row with
    another row of its pair in the batch with sampler 'shared'.

    Attributes:
        has_positives: whether any pair is mentioned twice. If none is, no row is an anchor.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        num_steps: int,
        seed: int,
        rows: int = 256,
        sampler: str = 'shared',
        neighbours: int = 16,
        max_context: int = 4,
        bucket_lengths: Sequence[int] = batching.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        if sampler not in sampling.SAMPLERS:
            raise InputError(f'sampler is {sampler!r}; it must be one of {sorted(sampling.SAMPLERS)}')
        self._rows = PairRows(prepared, prepared.pairs, rows, bucket_lengths, multiple, max_context)
        options = {'neighbours': neighbours} if sampler == 'shared' else {}
        self._sampler = sampling.SAMPLERS[sampler](self._rows.index, **options)
        self.capacities = self._rows.capacities
        self.has_positives = bool(self._rows.index.repeated.any())
        if not self.has_positives:
            _log.warning(
                'no pair of entities is mentioned together twice, so L_rel has no positives and teaches nothing: it takes more text'
            )

    def batch(self, step, rng):
        return self._rows.fill(self._sampler.draw(rng))


class AlignSource(Source):
    """1-hop questions beside mentions of their topic, distantly aligned (paper section 4.1).

    A mention of (question topic, answer) is taken to express what the question asks; other mentions of the
    topic are not. A batch is made of topics, not of questions: what was encoded for a topic serves all of its
    questions, so an encoding teaches several times as much. Most topics have few rows, so `topics` is chosen
    to offer about as many as there is room for; where it offers more, topics with many rows lose some.

    Features: those of `buckets.pack` for the mentions, and those of `AlignedQuestions.features`, for
    topics * questions_per_topic questions.

    `pairs` are those that the memory will hold (see `Prepared.pair_rows`): a topic's other co-mentions are no candidates.
    Questions that need a relation of `held_out` are left out (see `Question.needs`).

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
        rows: int = 256,
        pairs: str = 'title',
        held_out: Sequence[str] = (),
        topics: int = 32,
        rows_per_topic: int = 16,
        questions_per_topic: int = 4,
        max_answers: int = 256,
        max_context: int = 4,
        bucket_lengths: Sequence[int] = batching.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        self._topics, self._rows_per_topic, self._questions_per_topic = topics, rows_per_topic, questions_per_topic
        asked = without(one_hop(prepared, split), held_out)
        kept = prepared.pair_rows(pairs)
        columns = {name: column[kept] for name, column in prepared.pairs.items()}
        self._rows = PairRows(prepared, columns, rows, bucket_lengths, multiple, max_context)
        self.capacities = self._rows.capacities
        self.questions = AlignedQuestions(prepared, split, asked, self._rows.index, max_answers)
        self._order = Epochs(len(self.questions.topics), seed)

    def batch(self, step, rng):
        # Of a topic that comes twice, at the border of two epochs, one place is left empty.
        drawn = np.unique(self._dealt(self._order, step, self._topics))
        ids = [rng.permutation(self.questions.of_topic(t))[: self._questions_per_topic] for t in self.questions.topics[drawn]]
        rows = interleave([self._candidates(of_topic, rng) for of_topic in ids])
        pairs = self._rows.fill(iter([(np.concatenate(rows), np.zeros(sum(map(len, rows)), bool))]))
        topic, target = (
            np.concatenate([pairs[f'{name}_{length}'] for length in self.capacities]) for name in ('topic', 'target')
        )
        count = self._topics * self._questions_per_topic
        return {**self.questions.features(np.concatenate(ids), count, topic, target, rng), **pairs}

    def _candidates(self, ids, rng):
        """Rows of the topic of the questions `ids`: a mention of an answer of each question first, then any."""
        index, topic = self._rows.index, int(self.questions.arrays.topic[ids[0]])
        positives = [rng.choice(self.questions.aligned[i]) for i in ids]
        others = sampling.some(*index.pairs_of_topic(topic), self._rows_per_topic, rng)
        chosen = list(dict.fromkeys([*positives, *others]))[: self._rows_per_topic]
        return np.concatenate([index.rows(pair, 1, rng) for pair in chosen])


class FollowSource(Source):
    """Questions for multi-hop following; one number of hops per step, taken in turn.

    Features, the same shapes at every step: `question_tokens` [Q, length], `question_r1`, `question_r2`,
    `question_topic` [Q], `answers` [Q, A] (-1 where there is none; a random choice when a question has more than
    A), `hops` scalar, all int32. Questions with an unknown topic or no known answer cannot be learnt from and are
    left out, and so are those that need a relation of `held_out` (see `Question.needs`).

    Attributes:
        hop_counts: the numbers of hops, increasing.
        num_questions, num_left_out: questions of the splits, used and left out.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        splits: Sequence[str],
        num_steps: int,
        seed: int,
        held_out: Sequence[str] = (),
        questions: int = 64,
        max_answers: int = 256,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        asked = [q for split in splits for q in prepared.questions(split)]
        usable = [q for q in without(asked, held_out) if q.topic_entity >= 0 and q.answers]
        if not usable:
            raise InputError(f'{", ".join(splits)}: no question has a known topic and a known answer')
        self.num_questions, self.num_left_out = len(usable), len(asked) - len(usable)
        self._count = questions
        self._questions = QuestionArrays(usable, prepared.tokenizer, prepared.special)
        self._width = answer_width(self._questions.answers, max_answers)
        self._turns = HopTurns(self._questions.hops, seed)
        self.hop_counts = self._turns.counts

    def batch(self, step, rng):
        ids, hops = self._turns.at(step, lambda order, turn: self._dealt(order, turn, self._count))
        answers = [self._questions.answers[i] for i in ids]
        return {
            **self._questions.features(ids, self._count),
            'answers': pad_answers(answers, self._count, self._width, rng),
            'hops': np.int32(hops),
        }


def interleave(lists: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The first items of all lists, then the second items, and so on."""
    longest = max(map(len, lists))
    return [np.array([items[k] for items in lists if k < len(items)], np.int64) for k in range(longest)]
