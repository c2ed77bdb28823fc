"""Each question of a set once, for evaluation; one number of hops a batch, few hops first."""

from collections.abc import Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup
from opql_jax.data.batching import round_up
from opql_jax.data.lm_markup import TextRow, TextSizes, pack_texts
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import QuestionArrays, check_length
from opql_jax.data.sources.base import Hops, Source
from opql_jax.data.sources.follow import FollowBatch
from opql_jax.data.sources.open_questions import OpenQuestionBatch

# An answer that the vocabulary lacks, in `targets`.
UNKNOWN = -2


class EachQuestion(Source):
    """A finite sequence of batches; `hop_counts` are their numbers of hops, increasing."""

    def __init__(self, prepared: Prepared, questions: Sequence[Question], rows: int = 64):
        """Takes questions and a batch's rows; InputError if none are given, or one is too long."""
        super().__init__(0)
        if not questions:
            raise InputError('there is no question to ask')
        self._special, self._rows = prepared.special, rows
        self._questions = sorted(questions, key=lambda q: q.hops)
        hops = np.array([q.hops for q in self._questions])
        self.hop_counts = np.unique(hops).tolist()
        runs = [np.flatnonzero(hops == h) for h in self.hop_counts]
        self._batches = [run[at : at + rows] for run in runs for at in range(0, len(run), rows)]
        self._answers = [[*q.answers, *[UNKNOWN] * len(q.unknown_answers)] for q in self._questions]
        self._width = round_up(max(map(len, self._answers)), 8)

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def has_answers(self) -> bool:
        """Whether an answer to any question is known, if only one that the vocabulary lacks."""
        return any(self._answers)

    def asked(self, step: int) -> list[Question]:
        """The questions of a batch, in the order of its rows; the rows after them are unused."""
        return [self._questions[i] for i in self._batches[step]]

    def targets(self, step: int) -> np.ndarray:
        """The answers of a batch, [rows, A] int32: entities, then UNKNOWN for others, then -1."""
        answers = [self._answers[i] for i in self._batches[step]]
        return batching.pad_rows(answers, self._rows, (self._width,), -1)

    def _hops(self, step) -> Hops:
        return Hops(self._questions[self._batches[step][0]].hops)


class EachFollowedQuestion(EachQuestion):
    """The batches are those of `FollowSource`."""

    def __init__(self, prepared, questions, rows=64):
        super().__init__(prepared, questions, rows)
        self._arrays = QuestionArrays(self._questions, prepared.tokenizer, prepared.special)

    def batch(self, step, rng) -> FollowBatch:
        asked = self._arrays.batch(self._batches[step], self._rows, self._width, rng)
        return FollowBatch(asked, self._hops(step))


class EachOpenQuestion(EachQuestion):
    """Batches as of `OpenQuestionSource`; `label` is the first known answer, -1 if none is."""

    def __init__(self, prepared, questions, rows=64):
        super().__init__(prepared, questions, rows)
        mark, tokenizer = lm_markup.mark_open_question, prepared.tokenizer
        asked = self._questions
        self._inputs = [mark(tokenizer, q.text, q.topics, prepared.special) for q in asked]
        for question, marked in zip(self._questions, self._inputs):
            check_length(question.id, len(marked.tokens))
        self._length = round_up(max(len(marked.tokens) for marked in self._inputs), 8)
        self._sizes = TextSizes(max(len(q.topics) for q in asked), answers=self._width)

    def batch(self, step, rng) -> OpenQuestionBatch:
        packer, rows = batching.Packer({self._length: self._rows}), []
        for i in self._batches[step]:
            answers = self._questions[i].answers
            packer.add(len(self._inputs[i].tokens))
            rows.append(TextRow(self._inputs[i], answers[0] if answers else -1, answers))
        texts = pack_texts(rows, packer, self._sizes, self._special)
        return OpenQuestionBatch(texts, self._hops(step))
