"""Batches of whole passages, each encoded once for all pairs of its mentions, and 1-hop questions.

A pair of OPQL is marked in its text, so a passage with m mentions is encoded m (m - 1) times. Here
its mentions keep their names, and the relation of a pair is read off its two spans (see
`RelationEncoder.relate_spans`). A batch holds several times as many pairs for its cost.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from opql_jax.data import batching, markup, sampling
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import AlignedQuestions, EpochOrder, QuestionBatch
from opql_jax.data.sources.base import Source, interleave


class PassageBucket(NamedTuple):
    """n passages of at most L tokens, with M mentions and R pairs of these each; int32."""

    tokens: np.ndarray  # [n, L]
    first: np.ndarray  # [n, M], position of each mention's first token
    last: np.ndarray  # [n, M], and of its last
    topic_mention: np.ndarray  # [n, R], index of the topic's mention
    target_mention: np.ndarray  # [n, R], index of the target's mention
    topic: np.ndarray  # [n, R], entity; -1 in unused slots
    target: np.ndarray  # [n, R], entity; -1 in unused slots


class PassageAlignBatch(NamedTuple):
    """Questions, and passages that answer them."""

    questions: QuestionBatch
    passages: tuple[PassageBucket, ...]


class PackedPassages(NamedTuple):
    """Passages that found room in a batch."""

    ids: np.ndarray  # [p], in the order in which `packer` accepted them
    spans: list[markup.PlacedMentions]
    packer: batching.Packer


class PassagePacker:
    """Packs passages with rows of the pair table, `index`; `capacities` are {length: passages}."""

    def __init__(
        self,
        prepared: Prepared,
        columns: Mapping[str, np.ndarray],
        passages: int,
        pairs_per_passage: int,
        buckets: batching.Buckets = (),
    ):
        """Plans batches of passages, of at most R = `pairs_per_passage` rows each."""
        self.index = sampling.PairIndex(columns)
        self._records = prepared.records
        self._special = prepared.special
        self._pairs = pairs_per_passage
        self._order = np.argsort(self.index.passage, kind='stable')
        passages_of = self.index.passage[self._order]
        self._start = np.searchsorted(passages_of, np.arange(len(prepared.records) + 1))
        tokens, mentions = prepared.records.sizes()
        self._mentions = batching.round_up(int(mentions.max()), 4)
        lengths = tokens[np.unique(self.index.passage)] + 2
        self.capacities = batching.capacities_for(lengths, lengths, passages, buckets)

    def rows_of(self, passages: np.ndarray) -> np.ndarray:
        """All rows of passages."""
        return np.concatenate([self._order[self._start[p] : self._start[p + 1]] for p in passages])

    def choose(self, ids: Iterable[int]) -> PackedPassages:
        """Takes passages, those at the front first, until the batch is full."""
        ids = np.array(list(dict.fromkeys(int(i) for i in ids)))
        spans = [markup.place_mentions(p, self._special) for p in self._records.read(ids)]
        packer = batching.Packer(self.capacities)
        chosen = np.flatnonzero([packer.add(len(passage.tokens)) for passage in spans])
        return PackedPassages(ids[chosen], [spans[i] for i in chosen], packer)

    def pack(self, passages: PackedPassages, rows: np.ndarray) -> tuple[PassageBucket, ...]:
        """The buckets of a batch, with the first R of `rows` [n] of each passage."""
        index, passage_of_row = self.index, self.index.passage[rows]
        rows_of = lambda passage: rows[passage_of_row == passage][: self._pairs]

        def pack(length, n, members):
            # Rows of a bucket are in the order of passage ids.
            members = sorted(members, key=lambda i: passages.ids[i])
            spans = [passages.spans[i] for i in members]
            chosen = [rows_of(passages.ids[i]) for i in members]
            pairs = lambda name, fill: batching.pad_rows(
                [getattr(index, name)[r] for r in chosen], n, (self._pairs,), fill
            )
            return PassageBucket(
                tokens=batching.pad_tokens([p.tokens for p in spans], n, length, self._special),
                first=batching.pad_rows([p.first for p in spans], n, (self._mentions,)),
                last=batching.pad_rows([p.last for p in spans], n, (self._mentions,)),
                topic_mention=pairs('topic_mention', 0),
                target_mention=pairs('target_mention', 0),
                topic=pairs('topic', -1),
                target=pairs('target', -1),
            )

        return tuple(pack(*bucket) for bucket in passages.packer.buckets())


@dataclasses.dataclass(frozen=True)
class PassageAlignSettings:
    """Which questions and passages make a batch.

    Attributes:
        split, buckets, pairs, held_out: as in `AlignSettings`.
        passages: encoded per step.
        topics: topics whose passages a batch holds; the questions are about these, or others that
            the passages mention.
        questions, passages_per_topic, pairs_per_passage, questions_per_topic: at most.
    """

    split: str = '1-hop/train'
    passages: int = 128
    buckets: batching.Buckets = ()
    pairs: str = 'title'
    held_out: tuple[str, ...] = ()
    topics: int = 48
    questions: int = 320
    passages_per_topic: int = 8
    pairs_per_passage: int = 40
    questions_per_topic: int = 4


class PassageAlignSource(Source):
    """Draws topics, passages that mention them, and all questions that these passages answer."""

    def __init__(self, prepared: Prepared, settings: PassageAlignSettings, seed: int = 0):
        super().__init__(seed)
        self._settings = settings
        columns = prepared.pair_columns(settings.pairs)
        sizes = settings.passages, settings.pairs_per_passage
        self._packer = PassagePacker(prepared, columns, *sizes, settings.buckets)
        self.capacities, index = self._packer.capacities, self._packer.index
        self.questions = AlignedQuestions(prepared, settings.split, settings.held_out, index)
        self._order = EpochOrder(len(self.questions.topics), seed)

    def batch(self, step, rng) -> PassageAlignBatch:
        s, index, questions = self._settings, self._packer.index, self.questions
        drawn = questions.topics[np.unique(self._deal(self._order, step, s.topics))]
        of_topics = [self._passages_of_topic(topic, rng) for topic in drawn]
        passages = self._packer.choose(np.concatenate(interleave(of_topics)))
        rows = rng.permutation(self._packer.rows_of(np.sort(passages.ids)))
        others = rng.permutation(np.setdiff1d(index.topic[rows], drawn))
        pairs = set(index.pair_of(rows).tolist())
        is_answered = lambda i: not pairs.isdisjoint(questions.pairs[i].tolist())
        of_topic = lambda topic: list(filter(is_answered, questions.of_topic(topic)))
        ids = [rng.permutation(of_topic(t))[: s.questions_per_topic] for t in [*drawn, *others]]
        ids = np.concatenate(ids)[: s.questions].astype(np.int64)
        # Pairs that answer a question come first, and so stay where a passage has too many.
        rows = rows[np.isin(index.topic[rows], questions.arrays.topic[ids])]
        answers = np.isin(index.pair_of(rows), np.concatenate([questions.pairs[i] for i in ids]))
        rows = rows[np.argsort(~answers, kind='stable')]
        asked = questions.batch(ids, s.questions, index.topic[rows], index.target[rows], rng)
        return PassageAlignBatch(asked, self._packer.pack(passages, rows))

    def _passages_of_topic(self, topic, rng):
        """Passages that mention a topic: one that answers one of its questions first, then any."""
        index = self._packer.index
        answer = rng.choice(self.questions.pairs[rng.choice(self.questions.of_topic(topic))])
        start, end = (index.pair_start[pair] for pair in index.pairs_of_topic(topic))
        rows = sampling.some(start, end, 8 * self._settings.passages_per_topic, rng)
        passages = index.passage[np.concatenate([index.rows(answer, 1, rng), rows])]
        several = list(dict.fromkeys(passages.tolist()))
        return np.array(several[: self._settings.passages_per_topic])
