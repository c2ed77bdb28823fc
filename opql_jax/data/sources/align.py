"""Batches of 1-hop questions beside mentions of their topics, distantly aligned (paper §3).

A mention of (question topic, answer) is taken to express what the question asks; other mentions of
the topic are not. A batch is made of topics, not of questions: what was encoded for a topic serves
all of its questions, so an encoding teaches several times as much. Most topics have few rows, so
`topics` is chosen to offer about as many as there is room for; where it offers more, topics with
many rows lose some.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from opql_jax.data import batching, sampling
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import AlignedQuestions, EpochOrder, QuestionBatch
from opql_jax.data.sources.base import Source, interleave
from opql_jax.data.sources.relations import PairPacker


class AlignBatch(NamedTuple):
    """Questions, and marked pairs of their topics."""

    questions: QuestionBatch
    pairs: tuple[batching.PairBucket, ...]


@dataclasses.dataclass(frozen=True)
class AlignSettings:
    """Which questions and mentions make a batch.

    Attributes:
        split: the questions: a split of the prepared folder, or a .jsonl file, see
            `data.questions.one_hop_questions`.
        rows: mentions encoded per step.
        buckets: of these, as in `RelationSettings`.
        pairs: 'title', 'sentence' or 'all': the pairs that the memory will hold; other co-mentions
            of a topic are no candidates.
        held_out: relations such as 'P57'; questions that need one are left out (see
            `Question.needs`).
        topics: topics per batch.
        rows_per_topic, questions_per_topic: at most.
    """

    split: str = '1-hop/train'
    rows: int = 256
    buckets: batching.Buckets = ()
    pairs: str = 'title'
    held_out: tuple[str, ...] = ()
    topics: int = 32
    rows_per_topic: int = 16
    questions_per_topic: int = 4


class AlignSource(Source):
    """Draws topics, with their questions and mentions."""

    def __init__(self, prepared: Prepared, settings: AlignSettings, seed: int = 0):
        super().__init__(seed)
        self._settings = settings
        columns = prepared.pair_columns(settings.pairs)
        self._packer = PairPacker(prepared, columns, settings.rows, 0, settings.buckets)
        self.capacities = self._packer.capacities
        index, split = self._packer.index, settings.split
        self.questions = AlignedQuestions(prepared, split, settings.held_out, index)
        self._order = EpochOrder(len(self.questions.topics), seed)

    def batch(self, step, rng) -> AlignBatch:
        s = self._settings
        # A topic that is drawn twice, at the border of two epochs, is used once.
        drawn = self.questions.topics[np.unique(self._deal(self._order, step, s.topics))]
        ids = [rng.permutation(self.questions.of_topic(t))[: s.questions_per_topic] for t in drawn]
        rows = np.concatenate(interleave([self._rows_of_topic(of_topic, rng) for of_topic in ids]))
        pairs = self._packer.pack(iter([(rows, np.zeros(len(rows), bool))]))
        topic = np.concatenate([bucket.topic for bucket in pairs])
        target = np.concatenate([bucket.target for bucket in pairs])
        count = s.topics * s.questions_per_topic
        asked = self.questions.batch(np.concatenate(ids), count, topic, target, rng)
        return AlignBatch(asked, pairs)

    def _rows_of_topic(self, ids, rng):
        """Rows of the questions' topic: one with an answer to each first, then any."""
        index, topic = self._packer.index, int(self.questions.arrays.topic[ids[0]])
        positives = [rng.choice(self.questions.pairs[i]) for i in ids]
        others = sampling.some(*index.pairs_of_topic(topic), self._settings.rows_per_topic, rng)
        chosen = list(dict.fromkeys([*positives, *others]))[: self._settings.rows_per_topic]
        return np.concatenate([index.rows(pair, 1, rng) for pair in chosen])
