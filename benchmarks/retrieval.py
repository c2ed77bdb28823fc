"""Fits the weights of `opql_jax.retrieval.rank.WEIGHTS`, by which passages are ranked.

python benchmarks/retrieval.py --json

They are fitted to the questions of all sets of the recipe `retrieval`, whose steps are run as far
as they are needed; each set counts alike. Before that they are fitted to each half of the
questions, and score the other. `out` is the recipe's folder, `percent` a share of questions and
passages.
"""

import argparse
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from timing import DATA, run

from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.kb.trained.evaluate_retrieval import Asked, read_questions, scores
from opql_jax.recipes import recipe
from opql_jax.recipes.retrieval import SETS, steps_of
from opql_jax.recipes.step import Options
from opql_jax.retrieval import rank, view

# Penalty on standardised weights.
DECAY = 3e-3
HALVES = slice(0, None, 2), slice(1, None, 2)


class Task(NamedTuple):
    """A knowledge base, questions, their ranked form, and the rows of supporting passages."""

    retriever: Retriever
    asked: list[Asked]
    questions: list[view.Question]
    supporting: list[list[int]]

    def part(self, of: slice) -> 'Task':
        """Some of the questions."""
        return Task(self.retriever, *(column[of] for column in self[1:]))

    def ranker(self, weights: rank.Weights) -> rank.Ranker:
        """What ranks with other weights."""
        return rank.Ranker(self.retriever.index, weights, relations=self.retriever.relations)


def fit_ranking(options: argparse.Namespace) -> Iterator[dict]:
    """Lines of each half of each set, and the weights that all questions give."""
    tasks = {row: load(options, row) for row in SETS}
    everything = slice(None)
    for half, learnt in ((HALVES[0], HALVES[1]), HALVES[::-1], (everything, everything)):
        weights = fit([task.part(learnt) for task in tasks.values()])
        for row, task in tasks.items():
            of = task.part(half)
            ranked = of.retriever.best_documents(of.ranker(weights), of.questions, 5)
            documents = [[each.document for each in found] for found in ranked]
            name = 'both' if half == everything else half.start
            yield {'row': row, 'half': name} | scores(of.asked, documents, of.retriever.texts)
    two = lambda values: {name: round(float(value), 2) for name, value in values.items()}
    yield {'first': two(weights.first), 'next': two(weights.next), 'begin': round(weights.begin, 2)}


def load(options: argparse.Namespace, row: str) -> Task:
    """Runs the steps of the recipe that a row needs; all passages of a document support."""
    chosen = Options(options.out, options.data, percent=options.percent)
    steps = [step for step in steps_of(chosen, row) if not step.name.startswith('results')]
    recipe.run(steps, chosen)
    retriever = open_kb(options.out / f'kb-{row}').retriever
    asked = read_questions(options.out / f'text-{row}/questions.jsonl')
    rows: dict[str, list[int]] = {}
    for number, document in enumerate(retriever.documents):
        rows.setdefault(document, []).append(number)
    supporting = [sorted(row for name in one.supporting for row in rows[name]) for one in asked]
    return Task(retriever, asked, retriever.questions([one.text for one in asked]), supporting)


def fit(tasks: list[Task]) -> rank.Weights:
    """Weights under which supporting passages, and chains of two, are likely to come first."""
    steps = []
    for task in tasks:
        seen = rank.Ranker(task.retriever.index).views(task.questions)
        steps.append(
            [(one.first.astype(np.float32), np.array(of)) for one, of in zip(seen, task.supporting)]
        )
    first = dict(zip(view.FIRST, solve(steps)))
    alone = rank.Weights(first, rank.WEIGHTS.next, 1.0)
    begin, *after = solve([list(chains(task.ranker(alone), task)) for task in tasks])
    return rank.Weights(first, dict(zip(view.NEXT, after)), float(begin))


def chains(ranker: rank.Ranker, task: Task) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each question features of its chains of two passages [n, 1 + NEXT], and the right rows."""
    for seen, needed in zip(ranker.views(task.questions), task.supporting):
        chance = np.log(seen.probabilities[seen.roots] + 1e-300)
        found = ranker.candidates(seen, seen.roots[:, None], chance)
        roots = seen.roots[found.chains[found.pair]]
        right = np.flatnonzero(np.isin(found.passages[found.pair], needed) & np.isin(roots, needed))
        begin = np.log(seen.probabilities[roots] + 1e-12)
        if right.size:
            yield np.concatenate([begin[:, None], found.quantities()], 1, dtype=np.float32), right


def solve(sets: list[list[tuple[np.ndarray, np.ndarray]]]) -> np.ndarray:
    """The weights that maximise the mean over sets of the log-probability of what is right."""
    spread = np.mean([np.mean([x.std(0) for x, _ in of], 0) for of in sets], 0) + 1e-3
    examples = [(x / spread, right, 1 / len(sets) / len(of)) for of in sets for x, right in of]

    def loss(weights):
        value, gradient = DECAY * weights @ weights, 2 * DECAY * weights
        for x, right, share in examples:
            p = scipy.special.softmax(x @ weights)
            mass = p[right].sum() + 1e-12
            value -= share * np.log(mass)
            gradient -= share * (p[right] @ x[right] / mass - p @ x)
        return value, gradient

    start = np.zeros(len(spread))
    return scipy.optimize.minimize(loss, start, jac=True, method='L-BFGS-B').x / spread


if __name__ == '__main__':
    out = pathlib.Path('runs/retrieval')
    run(__doc__, fit_ranking, data=DATA, out=out, percent=100.0)
