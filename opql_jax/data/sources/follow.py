"""Batches of questions for multi-hop relation following (paper §3), one number of hops per step, in turn."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.corpus.wordings import Wording, in_other_wordings
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import MAX_ANSWERS, HopSchedule, QuestionArrays, QuestionBatch, answer_width, without_relations
from opql_jax.data.sources.base import Hops, Source


class FollowBatch(NamedTuple):
    """Questions of one number of hops."""

    questions: QuestionBatch
    hops: Hops


class FollowSource(Source):
    """Draws questions with a known topic and a known answer.

    Attributes:
        hop_counts: the numbers of hops, increasing.
        num_questions, num_left_out: questions of the splits that are used, and that are not.
    """

    def __init__(
        self,
        prepared: Prepared,
        splits: Sequence[str],
        *,
        held_out: Sequence[str] = (),
        wordings: Mapping[str, Sequence[Wording]] | None = None,
        questions: int = 64,
        seed: int = 0,
    ):
        """Reads the questions.

        Args:
            prepared: the prepared folder.
            splits: names of question sets.
            held_out: relations such as 'P57'; questions that need one are left out (see `Question.needs`).
            wordings: others, by the type of questions; one drawn at random is a second question beside each of its type.
            questions: per step.
            seed: of the order of questions, and of the wordings drawn.

        Raises:
            InputError: no question is left, or none has a type that has other wordings.
        """
        super().__init__(seed)
        found = [q for split in splits for q in prepared.questions(split)]
        usable = [q for q in without_relations(found, held_out) if q.topic_entity >= 0 and q.answers]
        if not usable:
            raise InputError(f'{", ".join(splits)}: no question has a known topic and a known answer')
        self.num_questions, self.num_left_out = len(usable), len(found) - len(usable)
        other = in_other_wordings(usable, wordings or {}, seed)
        if wordings and not other:
            raise InputError(
                f'wordings: {", ".join(splits)}: no question has a type of the file, such as {next(iter(wordings))!r}'
            )
        self._count = questions
        self._questions = QuestionArrays([*usable, *other], prepared.tokenizer, prepared.special)
        self._width = answer_width(self._questions.answers, MAX_ANSWERS)
        self._schedule = HopSchedule(self._questions.hops, seed)
        self.hop_counts = self._schedule.counts

    def batch(self, step, rng) -> FollowBatch:
        ids, hops = self._schedule.at(step, lambda order, turn: self._deal(order, turn, self._count))
        return FollowBatch(self._questions.batch(ids, self._count, self._width, rng), Hops(hops))
