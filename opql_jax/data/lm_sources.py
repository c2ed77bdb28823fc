"""Batches of the language model: passages with a hidden mention, open questions, and questions about an entity of one's choice.

Features of both, for each bucket length L with n rows and T places for topics: `tokens_{L}` [n, L], `start_{L}` and `r1_{L}`
[n, T], positions of each topic's first token and of its [R1], `r2_{L}` [n], that of [R2], just after the [ENT] of the answer,
`passage_{L}` [n], where the text is from, -1 for nowhere, `label_{L}` [n], the entity to predict, -1 in unused rows, `answers_{L}`
[n, A], all that are right, `topic_{L}` [n, T], the topics' entities where these are given, else -1, and `gold_{L}` [n, T, G], entries
of the memory that state an answer, -1 where there is none; `exclude_{L}` [n, X], entities that must not be read as targets, -1 in
unused places; all int32. `used_{L}` [n, T] says which places hold a topic, and
`absent_{L}` [n, T] for which of them the memory is known to have no such entry; both bool.
"""

import logging
from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import Epochs, HopTurns, answer_width, check_length, pad_answers, round_up
from opql_jax.data.sources import Source
from opql_jax.data.tokenizer import SpecialIds

_log = logging.getLogger(__name__)

# Of questions with more answers than this none is barred: the search compares each entry with each of them.
MOST_BARRED = 8
# Questions that are looked at to see how long they are.
_SAMPLE = 1000
# Tokens that marks add to a passage besides [R1] of its topics: [CLS], [SEP], and [ENT] [R2] in place of a name.
_ROOM = 4


class Entries:
    """Finds the entries of a memory by topic and target."""

    def __init__(self, topic: np.ndarray, target: np.ndarray, passages: np.ndarray):
        """Takes the memory's columns: topic and target [N], passages [N, P] with -1 in unused places."""
        order = np.lexsort((target, topic))
        self._rows, self._passages = order, passages
        self._topic, self._target = topic[order], target[order]

    def find(self, topic: int, target: int, passage: int) -> np.ndarray:
        """Rows of the entries (topic, target) that were read elsewhere than in a passage only; -1 bars none."""
        first, end = np.searchsorted(self._topic, [topic, topic + 1])
        first, end = first + np.searchsorted(self._target[first:end], [target, target + 1])
        rows = self._rows[first:end]
        return rows[~((self._passages[rows] == passage).any(axis=1) & (passage >= 0))]


def pack(
    rows: Sequence[dict],
    capacities: dict[int, int],
    places: Sequence[int],
    topics: int,
    answers: int,
    gold: int,
    special: SpecialIds,
    barred: int = 1,
) -> dict[str, np.ndarray]:
    """Packs rows into the features above.

    Args:
        rows: dicts of `input` (LMInput), `topic` [t], `gold` (t arrays of rows), `absent` [t], `passage`, `label`, `answers` [a], `exclude` [x].
        capacities: {bucket length: rows}.
        places: the bucket length of each row.
        topics, answers, gold, barred: T, A, G and X; answers and gold that exceed theirs are cut, the others must fit.
        special: marker ids.
    """
    batch = {}
    for length, n in capacities.items():
        members = [row for row, place in zip(rows, places) if place == length]
        padded = lambda shape, fill=-1: np.full((n, *shape), fill, np.int32)
        start, r1, topic, r2 = padded((topics,), 0), padded((topics,), 0), padded((topics,)), padded((), 0)
        used, absent = np.zeros((2, n, topics), bool)
        found, right = padded((topics, gold)), padded((answers,))
        passage, label, exclude = padded(()), padded(()), padded((barred,))
        for i, row in enumerate(members):
            t = len(row['input'].r1)
            start[i, :t], r1[i, :t], r2[i] = row['input'].starts, row['input'].r1, row['input'].r2
            topic[i, :t], used[i, :t], absent[i, :t] = row['topic'], True, row['absent']
            passage[i], label[i] = row['passage'], row['label']
            exclude[i, : len(row['exclude'])] = row['exclude']
            right[i, : len(row['answers'])] = row['answers'][:answers]
            for j, entries in enumerate(row['gold']):
                found[i, j, : len(entries)] = entries[:gold]
        tokens = batching.pad_tokens([row['input'].tokens for row in members], n, length, special)
        features = dict(tokens=tokens, start=start, r1=r1, r2=r2, topic=topic, used=used, absent=absent, gold=found)
        features |= dict(passage=passage, label=label, answers=right, exclude=exclude)
        batch |= {f'{name}_{length}': value for name, value in features.items()}
    return batch


class ClozeSource(Source):
    """Passages in which one mention is to be predicted and others are topics (second-stage pretraining, paper section 3.3)."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        num_steps: int,
        seed: int,
        entries: Entries | None,
        rows: int = 64,
        topics: int = 2,
        gold: int = 4,
        bucket_lengths: Sequence[int] = batching.BUCKET_LENGTHS,
        multiple: int = 8,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        """Plans the batches.

        Args:
            prepared: the text.
            num_steps, seed, shard_index, shard_count: see `Source`.
            entries: of the memory; None for a model without one.
            rows: of a batch.
            topics: T; of a passage with more, as many are chosen at random.
            gold: G.
            bucket_lengths, multiple: see `buckets.plan_capacities`.
        """
        super().__init__(num_steps, seed, shard_index, shard_count)
        self._records, self._special, self._entries = prepared.records, prepared.special, entries
        self._topics, self._gold = topics, gold
        tokens, mentions = self._records.sizes()
        self._passages = np.flatnonzero(mentions)
        if not len(self._passages):
            raise InputError(f'{self._records.path}: no passage has a mention')
        lengths = np.minimum(tokens[self._passages] + _ROOM + topics, max(bucket_lengths))
        self.capacities = batching.plan_capacities(lengths, rows, bucket_lengths, multiple)

    def batch(self, step, rng):
        packer, rows = batching.Packer(self.capacities), []
        for _ in range(2):  # a second draw fills what the first one's lengths left free
            drawn = rng.choice(self._passages, sum(packer.free.values()))
            for number, passage in zip(drawn.tolist(), self._records.read(drawn)):
                row = self._row(number, passage, rng)
                if len(row['input'].tokens) <= max(self.capacities) and packer.add(len(row['input'].tokens)):
                    rows.append(row)
        return pack(rows, self.capacities, packer.places, self._topics, 1, self._gold, self._special)

    def _row(self, number, passage, rng):
        target = int(rng.integers(len(passage.entities)))
        label = int(passage.entities[target])
        topics = rng.permutation(lm_markup.topics_beside(passage, target))[: self._topics]
        entities = passage.entities[topics]
        gold = [] if self._entries is None else [rng.permutation(self._entries.find(e, label, number)) for e in entities]
        return {
            'input': lm_markup.mark_cloze(passage, target, topics, self._special),
            'topic': entities,
            'gold': gold,
            'absent': [not len(rows) for rows in gold] if gold else False,
            'passage': number,
            'label': label,
            'answers': [label],
            'exclude': (),
        }


def question_row(marked: lm_markup.LMInput, answers, label: int, barred: Sequence[int] = ()) -> dict:
    """A question as `pack` takes it; `barred`: its answers, if it must do without them."""
    row = {'input': marked, 'topic': -1, 'gold': [], 'passage': -1, 'label': label, 'answers': answers}
    return row | {'absent': bool(len(barred)), 'exclude': barred}


class OpenQuestionSource(Source):
    """Open questions, one number of hops per step, taken in turn; of several answers one, at random, is the label.

    Of one-hop questions about one topic the share `absent_rate`, drawn anew each time, must not read their answers (unless they have
    more than MOST_BARRED): the memory is as if it had no such entry, and null is right. Of several topics each would learn to
    find nothing, though for one of them the memory does have an entry, if not the right one.

    Attributes:
        hop_counts: the numbers of hops, increasing.
        num_questions, num_left_out: questions used, and those without an answer in the vocabulary, which teach nothing.
    """

    def __init__(
        self,
        prepared: Prepared,
        questions: Sequence[Question],
        *,
        num_steps: int,
        seed: int,
        rows: int = 64,
        max_answers: int = 64,
        absent_rate: float = 0.0,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        super().__init__(num_steps, seed, shard_index, shard_count)
        usable = [q for q in questions if q.answers]
        if not usable:
            raise InputError('no question has an answer in the entity vocabulary')
        self.num_questions, self.num_left_out = len(usable), len(questions) - len(usable)
        if self.num_left_out:
            _log.warning(
                '%d of %d questions have no answer in the vocabulary and teach nothing', self.num_left_out, len(questions)
            )
        self._special, self._count, self._absent_rate = prepared.special, rows, absent_rate
        self._inputs = [lm_markup.mark_open_question(prepared.tokenizer, q.text, q.topics, self._special) for q in usable]
        self._answers = [np.array(q.answers, np.int32) for q in usable]
        self._width = answer_width(self._answers, max_answers)
        longest, question = max(zip(self._inputs, usable), key=lambda pair: len(pair[0].tokens))
        check_length(question.id, len(longest.tokens))
        self.capacities = {round_up(len(longest.tokens), 8): rows}
        self._topics = max(len(q.topics) for q in usable)
        self._turns = HopTurns(np.array([q.hops for q in usable]), seed)
        self.hop_counts = self._turns.counts

    def batch(self, step, rng):
        ids, hops = self._turns.at(step, lambda order, turn: self._dealt(order, turn, self._count))
        answers = pad_answers([self._answers[i] for i in ids], len(ids), self._width, rng)
        can = [len(self._answers[i]) <= MOST_BARRED and len(self._inputs[i].r1) == 1 for i in ids]
        absent = np.array(can) & (hops == 1) & (rng.random(len(ids)) < self._absent_rate)
        rows = [
            question_row(self._inputs[i], answers[at], rng.choice(self._answers[i]), self._answers[i] if absent[at] else ())
            for at, i in enumerate(ids)
        ]
        places = [*self.capacities] * len(rows)
        batch = pack(rows, self.capacities, places, self._topics, self._width, 1, self._special, MOST_BARRED)
        return {**batch, 'hops': np.int32(hops)}


class NameSource(Source):
    """Questions whose topic is replaced by a name of some entity, all of them in turn: who is meant needs no label (L_el).

    There is nothing to predict: `label` is -1, and no entry of the memory is gold or absent.
    """

    def __init__(
        self,
        prepared: Prepared,
        questions: Sequence[Question],
        *,
        num_steps: int,
        seed: int,
        rows: int = 64,
        shard_index: int = 0,
        shard_count: int = 1,
    ):
        """Takes questions about one topic; one drawn at random asks about each entity, under its name or one of its aliases."""
        super().__init__(num_steps, seed, shard_index, shard_count)
        self._asked = [(q.text, *q.topics[0]) for q in questions if len(q.topics) == 1]
        if not self._asked:
            raise InputError('no question has just one topic, in whose place other names could be put')
        vocab = prepared.vocab
        self._names = [[name, *aliases] for name, aliases in zip(vocab.names, vocab.aliases)]
        self._tokenizer, self._special, self._rows = prepared.tokenizer, prepared.special, rows
        self._order = Epochs(len(vocab), seed)
        sample = np.random.default_rng(seed)
        lengths = [len(self._input(int(e), sample).tokens) for e in sample.integers(len(vocab), size=_SAMPLE)]
        # As long as nearly all; the others are left out.
        self.capacities = {min(round_up(int(np.quantile(lengths, 0.99)), 8), max(batching.BUCKET_LENGTHS)): rows}

    def _input(self, entity, rng):
        text, start, end = self._asked[rng.integers(len(self._asked))]
        name = self._names[entity][rng.integers(len(self._names[entity]))]
        text = text[:start] + name + text[end:]
        return lm_markup.mark_open_question(self._tokenizer, text, [(start, start + len(name))], self._special)

    def batch(self, step, rng):
        (length,) = self.capacities
        rows = []
        for entity in self._dealt(self._order, step, self._rows).tolist():
            marked = self._input(entity, rng)
            if len(marked.tokens) <= length:
                rows.append(question_row(marked, (), -1) | {'topic': entity})
        return pack(rows, self.capacities, [length] * len(rows), 1, 1, 1, self._special)


class Beside(Source):
    """Batches of several sources as one: those of all but the first under names that begin with what they are, such as 'text/'."""

    def __init__(self, first: Source, **others: Source):
        super().__init__(min(len(source) for source in (first, *others.values())), 0, 0, 1)
        self._first, self._others = first, others

    def shard(self, index, count):
        others = {kind: source.shard(index, count) for kind, source in self._others.items()}
        return Beside(self._first.shard(index, count), **others)

    def batch(self, step, rng):
        beside = {f'{kind}/{name}': x for kind, source in self._others.items() for name, x in source[step].items()}
        return {**self._first[step], **beside}

    @staticmethod
    def apart(batch: dict) -> tuple[dict, dict[str, dict]]:
        """The batch of the first source, and those of the others by what they are."""
        first, others = {}, {}
        for name, value in batch.items():
            kind, slash, feature = name.rpartition('/')
            (others.setdefault(kind, {}) if slash else first)[feature] = value
        return first, others
