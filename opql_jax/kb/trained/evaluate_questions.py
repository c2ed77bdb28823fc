"""Scores the answers to a file of plain questions whose answers are known."""

import dataclasses
import os
from collections.abc import Sequence

from opql_jax.core.errors import InputError
from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.trained.train_questions import AnsweredQuestion, read_answered
from opql_jax.kb.virtual_kb import VirtualKB

# Answers that are looked at, and questions that are answered together.
_TOP, _TOGETHER = 5, 64


@dataclasses.dataclass(frozen=True)
class Result:
    """What was answered to a question: the best names, best first, or why there are none."""

    asked: AnsweredQuestion
    found: tuple[str, ...]
    error: str | None = None

    def is_hit(self, k: int) -> bool:
        """Whether one of the k best answers is right, whatever case, accents and punctuation."""
        return not {fold(name) for name in self.found[:k]}.isdisjoint(map(fold, self.asked.answers))


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The results of all questions, in the order of the file."""

    results: Sequence[Result]

    def scores(self) -> dict[str, dict[str, float]]:
        """Hits@1 and Hits@5 by group: 'all', and before it '1 hop', '2 hops', ...

        The latter where the file says how many questions take.
        """
        groups: dict[str, list[Result]] = {}
        for result in sorted(self.results, key=lambda result: result.asked.hops or 0):
            if hops := result.asked.hops:
                groups.setdefault(f'{hops} hop{"s" * (hops > 1)}', []).append(result)
        groups['all'] = list(self.results)
        mean = lambda members, k: round(
            sum(result.is_hit(k) for result in members) / len(members), 4
        )
        return {
            name: {
                'questions': len(members),
                'unanswered': sum(not result.found for result in members),
                'hits@1': mean(members, 1),
                f'hits@{_TOP}': mean(members, _TOP),
            }
            for name, members in groups.items()
        }

    def examples(self, most: int) -> dict[str, list[Result]]:
        """The first questions whose best answer is right, and the first of the others."""
        hits = {
            kind: [result for result in self.results if result.is_hit(1) == (kind == 'right')]
            for kind in ('right', 'wrong')
        }
        return {kind: results[:most] for kind, results in hits.items()}

    def to_record(self, most: int) -> dict:
        """Scores and examples as JSON."""
        record = lambda result: (
            result.asked._asdict() | {'found': result.found, 'error': result.error}
        )
        return {
            'scores': self.scores(),
            **{kind: list(map(record, results)) for kind, results in self.examples(most).items()},
        }

    def to_text(self, most: int) -> str:
        """Scores and examples as lines."""
        scores = self.scores()
        lines = [' ' * 8 + ''.join(f'{name:>12}' for name in scores['all'])]
        for name, row in scores.items():
            cells = (
                f'{value:12.3f}' if isinstance(value, float) else f'{value:12,}'
                for value in row.values()
            )
            lines.append(f'{name:8}' + ''.join(cells))
        for kind, results in self.examples(most).items():
            lines += [f'\n{kind}:'] if results else []
            for result in results:
                lines.append(f'  {one_line(result.asked.text)}')
                found = one_line(', '.join(result.found[:3])) or hanging(
                    f'nothing: {result.error}', 6
                )
                lines.append(f'    answered {found}')
                if kind == 'wrong':
                    lines.append(f'    right is {one_line(", ".join(result.asked.answers[:3]))}')
        return '\n'.join(lines)


def evaluate_questions(kb: str | os.PathLike, questions: str | os.PathLike) -> Evaluation:
    """Answers a file's questions; a follower takes as many hops as "hops" says, or one.

    See `read_answered`.

    InputError: a line of the file is bad, or the knowledge base cannot be opened.
    """
    asked = read_answered(questions)
    opened = open_kb(kb)
    results = []
    for start in range(0, len(asked), _TOGETHER):
        results += _answered(opened, asked[start : start + _TOGETHER])
    return Evaluation(results)


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
        results.append(
            Result(
                one,
                found,
                errors.get(place, None if found else 'the memory has nothing that answers it'),
            )
        )
    return results
