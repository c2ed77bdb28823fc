"""Questions as padded arrays, served epoch by epoch, and their distant alignment with the pairs of a corpus."""

import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, read_questions
from opql_jax.data import batching, markup
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import PairIndex
from opql_jax.data.tokenizer import SpecialIds

_log = logging.getLogger(__name__)


class QuestionArrays:
    """Marked questions, padded to one length.

    Attributes:
        length: of the longest question, rounded up to 8.
        tokens: [n, length] int32.
        r1, r2: [n] int32, positions of the markers.
        topic: [n] int32, -1 where the topic is unknown.
        answers: n arrays of entity ids, of any length.
        hops: [n] int32.
    """

    def __init__(self, questions: Sequence[Question], tokenizer, special: SpecialIds):
        """Marks all questions; InputError names one that is too long."""
        marked = markup.mark_questions(tokenizer, [q.text for q in questions], [q.topic for q in questions], special)
        for m, q in zip(marked, questions):
            check_length(q.id, len(m.tokens))
        self.length = round_up(max((len(m.tokens) for m in marked), default=0), 8)
        self.tokens = batching.pad_tokens([m.tokens for m in marked], len(marked), self.length, special)
        self.r1 = np.array([m.r1 for m in marked], np.int32)
        self.r2 = np.array([m.r2 for m in marked], np.int32)
        self.topic = np.array([q.topic_entity for q in questions], np.int32)
        self.answers = [np.array(q.answers, np.int32) for q in questions]
        self.hops = np.array([q.hops for q in questions], np.int32)
        self._special = special

    def __len__(self) -> int:
        return len(self.topic)

    def features(self, ids: Sequence[int], count: int) -> dict[str, np.ndarray]:
        """The questions `ids` as features of `count` rows, without answers.

        Returns:
            `question_tokens` [count, length], `question_r1`, `question_r2`, `question_topic` [count], int32. Rows
            beyond the ids have topic -1 and [CLS] [SEP] as tokens.
        """
        n = len(ids)
        batch = {
            'question_tokens': batching.pad_tokens([self.tokens[i] for i in ids], count, self.length, self._special),
            'question_r1': np.zeros(count, np.int32),
            'question_r2': np.zeros(count, np.int32),
            'question_topic': np.full(count, -1, np.int32),
        }
        batch['question_r1'][:n] = self.r1[ids]
        batch['question_r2'][:n] = self.r2[ids]
        batch['question_topic'][:n] = self.topic[ids]
        return batch


def check_length(question: str, tokens: int) -> None:
    """Raises InputError, naming the question, if its marked tokens are more than the longest bucket holds."""
    if tokens > (most := max(batching.BUCKET_LENGTHS)):
        raise InputError(f'question {question} has {tokens} tokens, at most {most} are read: shorten or remove it')


class AlignedQuestions:
    """1-hop questions that a corpus answers: some pair of (topic, answer) is mentioned together (paper section 4.1).

    Attributes:
        num_questions: questions that were to be aligned.
        arrays: the `QuestionArrays` of the aligned ones.
        aligned: their pairs (topic, answer), an array of indices of pairs for each.
        topics: [t] int32, their topics, rising.
    """

    def __init__(self, prepared: Prepared, split: str, asked: Sequence[Question], index: PairIndex, max_answers: int = 256):
        """Aligns questions `asked` of a split with the pairs of an index.

        Raises:
            InputError: none is aligned.
        """
        self.num_questions = len(asked)
        pairs = [index.find(np.full(len(q.answers), q.topic_entity), np.array(q.answers, np.int64)) for q in asked]
        self.aligned = [found[found >= 0] for found in pairs]
        kept = [i for i, found in enumerate(self.aligned) if asked[i].topic_entity >= 0 and len(found)]
        if not kept:
            raise InputError(f'{split}: no question has a passage that mentions its topic with an answer')
        self.aligned = [self.aligned[i] for i in kept]
        self.arrays = QuestionArrays([asked[i] for i in kept], prepared.tokenizer, prepared.special)
        self._width = answer_width(self.arrays.answers, max_answers)
        self._order = np.argsort(self.arrays.topic, kind='stable')
        self.topics, first = np.unique(self.arrays.topic[self._order], return_index=True)
        self._bounds = np.append(first, len(self._order))

    def __len__(self) -> int:
        return len(self.arrays)

    def of_topic(self, topic: int) -> np.ndarray:
        """The questions about a topic; none where there is none."""
        at = np.searchsorted(self.topics, topic)
        if at == len(self.topics) or self.topics[at] != topic:
            return np.empty(0, np.int64)
        return self._order[self._bounds[at] : self._bounds[at + 1]]

    def features(self, ids: np.ndarray, count: int, topic: np.ndarray, target: np.ndarray, rng) -> dict[str, np.ndarray]:
        """Questions as features of `count` rows, beside the mentions `topic`, `target` [n] of a batch.

        Returns:
            Those of `QuestionArrays.features`, and `answers` [count, A], -1 where there is none: when a question has more
            than A, those of the mentions of its topic come before a random choice of the others.
        """
        answers = [self.arrays.answers[i] for i in ids]
        first = [target[topic == self.arrays.topic[i]] for i in ids]
        return {**self.arrays.features(ids, count), 'answers': pad_answers(answers, count, self._width, rng, first)}


class Epochs:
    """An endless shuffled sequence over n items; each comes once in every epoch of n."""

    def __init__(self, n: int, *key: int):
        """Makes the sequence that is determined by `n` and the non-negative integers `key`."""
        if n < 1:
            raise ValueError('there is nothing to draw from')
        self._n, self._key = n, key

    def take(self, start: int, count: int) -> np.ndarray:
        """Items at positions start .. start + count, [count] int64."""
        positions = np.arange(start, start + count)
        out = np.empty(count, np.int64)
        for epoch in np.unique(positions // self._n):
            inside = positions // self._n == epoch
            out[inside] = _permutation(self._n, self._key, int(epoch))[positions[inside] % self._n]
        return out


class HopTurns:
    """Questions dealt out by their numbers of hops: a step has one number, which come in turn.

    Attributes:
        counts: the numbers of hops, increasing.
    """

    def __init__(self, hops: np.ndarray, seed: int):
        """Takes the number of hops of each question and the seed of their order."""
        self.counts = [int(h) for h in np.unique(hops)]
        self._members = [np.flatnonzero(hops == h) for h in self.counts]
        self._orders = [Epochs(len(members), seed, h) for members, h in zip(self._members, self.counts)]

    def at(self, step: int, deal: Callable[[Epochs, int], np.ndarray]) -> tuple[np.ndarray, int]:
        """The questions of a step, which `deal` takes from the order of their number of hops in its turn, and that number."""
        turn, which = divmod(step, len(self.counts))
        return self._members[which][deal(self._orders[which], turn)], self.counts[which]


@functools.lru_cache(maxsize=16)
def _permutation(n, key, epoch):
    # A pure function; cached because a step needs a few of the n numbers.
    return np.random.default_rng((*key, epoch)).permutation(n)


def is_file(questions: str) -> bool:
    """Whether a name of questions is that of a file, `....jsonl`, and not a split of a prepared folder."""
    return questions.endswith('.jsonl')


def one_hop(prepared: Prepared, name: str) -> list[Question]:
    """The questions of a split, or those of one hop of a question file whose only topic is a known entity.

    Raises:
        InputError: the file has no such question.
    """
    if not is_file(name):
        return prepared.questions(name)
    asked = read_questions(name, prepared.vocab)
    found = [q for q in asked if q.hops == 1 and len(q.topics) == 1 and q.entities[0] >= 0]
    _log.info('%s: %d of %d questions have one hop and one topic whose entity is known', name, len(found), len(asked))
    if not found:
        raise InputError(
            f'{name}: no question has one hop and one topic, of an entity that `entities` tells and the vocabulary has'
        )
    return found


def without(questions: Sequence[Question], held_out: Sequence[str]) -> list[Question]:
    """The questions that need none of the relations held out."""
    if isinstance(held_out, str):
        raise InputError(f"held_out: write a tuple, ('{held_out}',)")
    return [question for question in questions if not question.needs(held_out)]


def answer_width(answers: Sequence[np.ndarray], most: int) -> int:
    """Width of the `answers` feature: the longest list's, at most `most`, rounded up to 8."""
    return round_up(min(max(len(a) for a in answers), most), 8)


def pad_answers(
    answers: Sequence[np.ndarray],
    count: int,
    width: int,
    rng: np.random.Generator,
    first: Sequence[np.ndarray] | None = None,
) -> np.ndarray:
    """Stacks answer lists, padded by -1.

    Args:
        answers: entity ids of each question.
        count: rows of the result.
        width: columns of the result.
        rng: chooses a random subset of a longer list.
        first: ids of each question that must stay when its list is cut.

    Returns:
        [count, width] int32.
    """
    out = np.full((count, width), -1, np.int32)
    for i, ids in enumerate(answers):
        if len(ids) > width:
            ids = rng.permutation(ids)
            if first is not None:
                ids = ids[np.argsort(~np.isin(ids, first[i]), kind='stable')]
            ids = ids[:width]
        out[i, : len(ids)] = ids
    return out


def round_up(n: int, multiple: int) -> int:
    """The least multiple that is at least n, and at least one multiple."""
    return max(-(-n // multiple), 1) * multiple
