"""Scores the answers to a file of plain questions whose answers are known."""

import dataclasses
import os
from collections.abc import Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus.name_resolution import fold
from opql_jax.evaluation.metrics import grouped, hits, means, rank_of, table
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.train_questions import AnsweredQuestion, read_answered
from opql_jax.kb.virtual_kb import VirtualKB

# Answers that are looked at, and questions that are answered together.
_TOP, _TOGETHER = 5, 64


class Result(NamedTuple):
    """The best names, or why there are none; `rank` is that of the first right one, or 0."""

    asked: AnsweredQuestion
    found: tuple[str, ...]
    rank: int
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The results of all questions, in the order of the file."""

    results: Sequence[Result]

    def scores(self) -> dict[str, dict[str, float]]:
        """Hits@1 and Hits@5 by group: '1 hop', '2 hops', ... as far as is known, and 'all'."""
        by_hops = grouped(self.results, lambda one: one.asked.hops or 0)
        groups = {f'{n} hop{"s" * (n > 1)}': members for n, members in by_hops.items() if n}
        return {
            name: {
                'questions': len(members),
                'unanswered': sum(not result.found for result in members),
                **means(hits(result.rank, (1, _TOP)) for result in members),
            }
            for name, members in (groups | {'all': self.results}).items()
        }

    def examples(self, most: int) -> dict[str, list[Result]]:
        """The first questions whose best answer is right, and the first of the others."""
        right = [result for result in self.results if result.rank == 1]
        wrong = [result for result in self.results if result.rank != 1]
        return {'right': right[:most], 'wrong': wrong[:most]}

    def to_record(self, most: int) -> dict:
        """Scores and examples as JSON."""
        record = lambda one: one.asked._asdict() | {'found': one.found, 'error': one.error}
        examples = self.examples(most).items()
        return {'scores': self.scores(), **{kind: list(map(record, of)) for kind, of in examples}}

    def to_text(self, most: int) -> str:
        """Scores and examples as lines."""
        scores = self.scores()
        lines = [table(scores, list(scores['all']))]
        for kind, results in self.examples(most).items():
            lines += [f'\n{kind}:'] if results else []
            for result in results:
                lines.append(f'  {one_line(result.asked.text)}')
                found = one_line(', '.join(result.found[:3]))
                lines.append(f'    answered {found or hanging(f"nothing: {result.error}", 6)}')
                if kind == 'wrong':
                    lines.append(f'    right is {one_line(", ".join(result.asked.answers[:3]))}')
        return '\n'.join(lines)


def evaluate_questions(kb: str | os.PathLike, questions: str | os.PathLike) -> Evaluation:
    """Answers questions of `read_answered`, by as many hops as they say; InputError as it does."""
    return evaluate(open_kb(kb), read_answered(questions))


def evaluate(kb: VirtualKB, asked: Sequence[AnsweredQuestion]) -> Evaluation:
    """`evaluate_questions` of an open knowledge base."""
    parts = [asked[start : start + _TOGETHER] for start in range(0, len(asked), _TOGETHER)]
    return Evaluation([result for part in parts for result in _answered(kb, part)])


def _answered(kb: VirtualKB, asked: Sequence[AnsweredQuestion]) -> list[Result]:
    questions, errors = [], {}
    for place, one in enumerate(asked):
        try:
            questions.append(kb.question(one.text, one.hops or 1))
        except InputError as error:  # it mentions no name of the text
            errors[place] = str(error)
    answers = iter(kb.answer(questions))
    results = []
    for place, one in enumerate(asked):
        found = () if place in errors else tuple(next(answers).names[:_TOP])
        rank = rank_of(map(fold, found), {*map(fold, one.answers)})
        why = None if found else errors.get(place, 'the memory has nothing that answers it')
        results.append(Result(one, found, rank, why))
    return results
