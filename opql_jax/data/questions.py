"""Questions as padded arrays, their training order, and their alignment with a corpus's pairs."""

import functools
import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.data import batching, markup
from opql_jax.data.batching import round_up
from opql_jax.data.prepared import Prepared
from opql_jax.data.question_conversion import format_of
from opql_jax.data.sampling import PairIndex
from opql_jax.data.tokenizer import SpecialIds

_log = logging.getLogger(__name__)

# Maximum number of answers per question in a batch.
MAX_ANSWERS = 256


class QuestionBatch(NamedTuple):
    """n questions of at most L tokens; int32. Unused rows: topic -1, tokens [CLS] [SEP]."""

    tokens: np.ndarray  # [n, L]
    r1: np.ndarray  # [n], position of [R1], after the topic
    r2: np.ndarray  # [n], position of [R2], after the unknown answer
    topic: np.ndarray  # [n], entity
    answers: np.ndarray  # [n, A], entities; -1 in unused slots


class QuestionArrays:
    """Marked questions, padded to one length, that of the longest rounded up to 8.

    `tokens` are [n, length], `r1` and `r2` [n] positions of the markers, `topic` [n], -1 where it
    is unknown, `hops` [n], all int32, and `answers` n arrays of entity ids.
    """

    def __init__(self, questions: Sequence[Question], tokenizer, special: SpecialIds):
        """Marks all questions; InputError names one that is too long."""
        marked = markup.mark_questions(
            tokenizer, [q.text for q in questions], [q.topic for q in questions], special
        )
        for m, q in zip(marked, questions):
            check_length(q.id, len(m.tokens))
        self.length = round_up(max((len(m.tokens) for m in marked), default=0), 8)
        self.tokens = batching.pad_tokens(
            [m.tokens for m in marked], len(marked), self.length, special
        )
        self.r1 = np.array([m.r1 for m in marked], np.int32)
        self.r2 = np.array([m.r2 for m in marked], np.int32)
        self.topic = np.array([q.topic_entity for q in questions], np.int32)
        self.answers = [np.array(q.answers, np.int32) for q in questions]
        self.hops = np.array([q.hops for q in questions], np.int32)
        self._special = special

    def batch(
        self,
        ids: Sequence[int] | np.ndarray,
        count: int,
        width: int,
        rng: np.random.Generator,
        preferred: Sequence[np.ndarray] | None = None,
    ) -> QuestionBatch:
        """The questions `ids` as `count` rows with `width` answers, see `pad_answers`."""
        column = lambda values, fill=0: batching.pad_rows(values[ids], count, fill=fill)
        return QuestionBatch(
            tokens=batching.pad_tokens(self.tokens[ids], count, self.length, self._special),
            r1=column(self.r1),
            r2=column(self.r2),
            topic=column(self.topic, -1),
            answers=pad_answers([self.answers[i] for i in ids], count, width, rng, preferred),
        )


def check_length(question: str, tokens: int) -> None:
    """Raises InputError, naming the question, if it has more tokens than the longest bucket."""
    if tokens > (most := max(batching.BUCKET_LENGTHS)):
        raise InputError(f'question {question} has {tokens} tokens, more than {most}: shorten it')


class AlignedQuestions:
    """1-hop questions that a corpus answers: a passage mentions topic and answer together.

    Of their `arrays`, `pairs` are indices of pairs (topic, answer), an array a question, and
    `topics` [t] int32 rise.
    """

    def __init__(self, prepared: Prepared, split: str, held_out: Sequence[str], index: PairIndex):
        """Aligns a split with an index; InputError if no question is aligned."""
        questions = without_relations(one_hop_questions(prepared, split), held_out)
        pairs = [
            index.find(np.full(len(q.answers), q.topic_entity), np.array(q.answers, np.int64))
            for q in questions
        ]
        pairs = [found[found >= 0] for found in pairs]
        is_aligned = lambda i: questions[i].topic_entity >= 0 and len(pairs[i])
        aligned = list(filter(is_aligned, range(len(questions))))
        if not aligned:
            raise InputError(f'{split}: no passage mentions the topic and an answer of a question')
        self.pairs = [pairs[i] for i in aligned]
        self.arrays = QuestionArrays(
            [questions[i] for i in aligned], prepared.tokenizer, prepared.special
        )
        self._width = answer_width(self.arrays.answers)
        self._order = np.argsort(self.arrays.topic, kind='stable')
        self.topics, first = np.unique(self.arrays.topic[self._order], return_index=True)
        self._bounds = np.append(first, len(self._order))

    def of_topic(self, topic: int) -> np.ndarray:
        """The questions about a topic; none where there is none."""
        at = np.searchsorted(self.topics, topic)
        if at == len(self.topics) or self.topics[at] != topic:
            return np.empty(0, np.int64)
        return self._order[self._bounds[at] : self._bounds[at + 1]]

    def batch(
        self, ids: np.ndarray, count: int, topic: np.ndarray, target: np.ndarray, rng
    ) -> QuestionBatch:
        """A batch of `count` rows; answers that its (topic, target) mention are cut last."""
        mentioned = [target[topic == self.arrays.topic[i]] for i in ids]
        return self.arrays.batch(ids, count, self._width, rng, mentioned)


class EpochOrder:
    """An endless shuffled sequence over n items; each comes once in every epoch of n."""

    def __init__(self, n: int, *key: int):
        """Makes the sequence that is determined by `n` and the non-negative integers `key`."""
        self._n, self._key = n, key

    def take(self, start: int, count: int) -> np.ndarray:
        """Items at positions start .. start + count, [count] int64."""
        positions = np.arange(start, start + count)
        out = np.empty(count, np.int64)
        for epoch in np.unique(positions // self._n):
            inside = positions // self._n == epoch
            out[inside] = _permutation(self._n, self._key, int(epoch))[positions[inside] % self._n]
        return out


class HopSchedule:
    """Distributes questions over steps, of one number of hops each, in turn; `counts` rise."""

    def __init__(self, hops: np.ndarray, seed: int):
        """Takes the number of hops of each question and the seed of their order."""
        self.counts = [int(h) for h in np.unique(hops)]
        self._members = [np.flatnonzero(hops == h) for h in self.counts]
        sizes = map(len, self._members)
        self._orders = [EpochOrder(size, seed, h) for size, h in zip(sizes, self.counts)]

    def at(
        self, step: int, deal: Callable[[EpochOrder, int], np.ndarray]
    ) -> tuple[np.ndarray, int]:
        """The questions `deal(order, turn)` takes for a step, and their number of hops."""
        turn, which = divmod(step, len(self.counts))
        return self._members[which][deal(self._orders[which], turn)], self.counts[which]


@functools.lru_cache(maxsize=16)
def _permutation(n, key, epoch):
    # A pure function; cached because a step needs a few of the n numbers.
    return np.random.default_rng((*key, epoch)).permutation(n)


def is_file(questions: str) -> bool:
    """Whether `questions` names a .jsonl file and not a split of a prepared folder."""
    return questions.endswith('.jsonl')


def read_file(path: str, vocab: EntityVocab) -> list[Question]:
    """The questions of a JSON Lines file, see `corpus.questions`; raises as `read_questions`."""
    check_format(path)
    return read_questions(path, vocab)


def check_format(path: str) -> None:
    """Raises InputError, with the setting that reads it, if a file is of another known format."""
    if os.path.isfile(path) and (other := format_of(path)):
        raise InputError(
            f'{path}: the file is of the format {other!r}: convert_questions with FORMAT={other} '
            'makes a question file of it'
        )


def load_questions(name: str, prepared: Prepared) -> list[Question]:
    """The questions of a JSON Lines file (`*.jsonl`), or else of a split of the prepared folder."""
    if is_file(name):
        return read_file(name, prepared.vocab)
    check_format(name)
    return prepared.questions(name)


def one_hop_questions(prepared: Prepared, name: str) -> list[Question]:
    """A set's questions of one hop about one known entity; InputError if there is none."""
    if not is_file(name):
        return load_questions(name, prepared)
    questions = read_file(name, prepared.vocab)
    found = [q for q in questions if q.hops == 1 and len(q.topics) == 1 and q.topic_entity >= 0]
    share = f'{len(found)} of {len(questions)}'
    _log.info('%s: %s questions have one hop and one topic, known entities', name, share)
    if not found:
        raise InputError(f'{name}: no question has one hop and one topic, a known entity')
    return found


def without_relations(questions: Sequence[Question], held_out: Sequence[str]) -> list[Question]:
    """The questions that need no held-out relation; some question must need each of those."""
    if isinstance(held_out, str):
        raise InputError(f"held_out: write a tuple, ('{held_out}',)")
    if unknown := sorted(set(held_out).difference(*(question.relations for question in questions))):
        known = sorted({relation for question in questions for relation in question.relations})
        raise InputError(
            f'held_out: no question needs {short_repr(unknown[0])}; they need {", ".join(known)}'
        )
    return [question for question in questions if not question.needs(held_out)]


def answer_width(answers: Sequence[np.ndarray]) -> int:
    """Answers per row of a batch: of the longest list, at most `MAX_ANSWERS`, rounded up to 8."""
    return round_up(min(max(len(a) for a in answers), MAX_ANSWERS), 8)


def pad_answers(
    answers: Sequence[np.ndarray],
    count: int,
    width: int,
    rng: np.random.Generator,
    preferred: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Stacks ids to [count, width] int32, padded by -1; cut at random, `preferred` ids last."""
    cut = []
    for i, ids in enumerate(answers):
        if len(ids) > width:
            ids = rng.permutation(ids)
            if preferred is not None:
                ids = ids[np.argsort(~np.isin(ids, preferred[i]), kind='stable')]
        cut.append(ids[:width])
    return batching.pad_rows(cut, count, (width,), -1)
