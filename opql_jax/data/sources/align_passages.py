"""Batches of whole passages, each encoded once for all pairs of its mentions, and 1-hop questions.

A pair of OPQL is marked in its text, so a passage with m mentions is encoded m (m - 1) times. Here
its mentions keep their names, and the relation of a pair is read off its two spans (see
`RelationEncoder.relate_spans`). A batch holds several times as many pairs for its cost.
"""

import dataclasses
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
        self._settings, self._special, self._records = settings, prepared.special, prepared.records
        self._index = index = sampling.PairIndex(prepared.pair_columns(settings.pairs))
        tokens, mentions = self._records.sizes()
        self._mentions = batching.round_up(int(mentions.max()), 4)
        lengths, sizes = tokens[np.unique(index.passage)] + 2, (settings.passages, settings.buckets)
        self.capacities = batching.capacities_for(lengths, lengths, *sizes)
        # Rows of the pair table by passage, and where each passage begins.
        self._rows = np.argsort(index.passage, kind='stable')
        self._start = np.searchsorted(index.passage[self._rows], np.arange(len(tokens) + 1))
        self.questions = AlignedQuestions(prepared, settings.split, settings.held_out, index)
        self._order = EpochOrder(len(self.questions.topics), seed)

    def batch(self, step, rng) -> PassageAlignBatch:
        s, index, questions = self._settings, self._index, self.questions
        drawn = questions.topics[np.unique(self._deal(self._order, step, s.topics))]
        of_topics = [self._passages_of_topic(topic, rng) for topic in drawn]
        # Those at the front first, until the batch is full.
        passages = np.array(list(dict.fromkeys(np.concatenate(interleave(of_topics)).tolist())))
        placed = [markup.place_mentions(p, self._special) for p in self._records.read(passages)]
        packer = batching.Packer(self.capacities)
        chosen = np.flatnonzero([packer.add(len(passage.tokens)) for passage in placed])
        passages, placed = passages[chosen], [placed[i] for i in chosen]
        rows_of = lambda passage: self._rows[self._start[passage] : self._start[passage + 1]]
        rows = rng.permutation(np.concatenate(list(map(rows_of, np.sort(passages)))))
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
        return PassageAlignBatch(asked, self._pack(packer, passages, placed, rows))

    def _pack(self, packer, passages, placed, rows) -> tuple[PassageBucket, ...]:
        """The buckets of a batch, with the first of `rows` [n] of each passage."""
        index, most = self._index, self._settings.pairs_per_passage
        of_passage = {p: rows[index.passage[rows] == p][:most] for p in passages.tolist()}

        def pack(length, n, members):
            # Rows of a bucket are in the order of passage ids.
            members = sorted(members, key=lambda i: passages[i])
            spans = [placed[i] for i in members]
            chosen = [of_passage[passages[i]] for i in members]
            pairs = lambda name, fill: batching.pad_rows(
                [getattr(index, name)[r] for r in chosen], n, (most,), fill
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

        return tuple(pack(*bucket) for bucket in packer.buckets())

    def _passages_of_topic(self, topic, rng):
        """Passages that mention a topic: one that answers one of its questions first, then any."""
        index = self._index
        answer = rng.choice(self.questions.pairs[rng.choice(self.questions.of_topic(topic))])
        start, end = (index.pair_start[pair] for pair in index.pairs_of_topic(topic))
        rows = sampling.some(start, end, 8 * self._settings.passages_per_topic, rng)
        passages = index.passage[np.concatenate([index.rows(answer, 1, rng), rows])]
        several = list(dict.fromkeys(passages.tolist()))
        return np.array(several[: self._settings.passages_per_topic])
