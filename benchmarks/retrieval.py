"""What the ranking of passages for multi-hop questions is made of, and the fit of its weights.

python benchmarks/retrieval.py --json
python benchmarks/retrieval.py --row hotpotqa
python benchmarks/retrieval.py --fit

The knowledge base and the questions are those of the recipe `retrieval`, whose steps are run as far
as they are needed; its scores compare with other rankings. Here parts are left out, and chains are
of other lengths. `--fit` prints the weights of `opql_jax.retrieval.rank.WEIGHTS` anew, fitted to
the questions of all sets, each of which counts alike; before that it fits them to each half of the
questions, and scores the other.
"""

import argparse
import dataclasses
import pathlib
import sys
import time

import numpy as np
import scipy.optimize
from timing import DATA, make_parser, show

from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.kb.trained.evaluate_retrieval import Asked, read_questions, scores
from opql_jax.recipes.recipe import run
from opql_jax.recipes.retrieval import SETS, steps_of
from opql_jax.recipes.step import Options
from opql_jax.retrieval import rank, view

# What is left out, by the weights that make it count nothing; a link of weight -inf is not
# followed.
NEVER = -1e9
WITHOUT = {
    'words': ({'words': 0}, {'words': 0, 'words_share': 0, 'target_words': 0}),
    'entities of the question': ({'named': 0, 'titled': 0}, {'named': 0, 'titled': 0, 'asked': 0}),
    'vectors': (
        {'sentence': 0, 'passage': 0},
        {'sentence': 0, 'passage': 0, 'source': 0, 'target': 0},
    ),
    'sentences of the links': ({}, {'source': 0, 'target': 0, 'target_words': 0}),
    'title links': ({}, {'to_title': NEVER, 'from_title': NEVER}),
    'shared entities': ({}, {'shared': NEVER}),
    'all links': ({}, {'to_title': NEVER, 'from_title': NEVER, 'shared': NEVER}),
    'relations': ({}, {'relation': 0, 'target_relation': 0}),
    'rarity and spread': ({}, {'rarity': 0, 'spread': 0}),
}
# The penalty on standardised weights.
DECAY = 3e-3


@dataclasses.dataclass(frozen=True)
class Task:
    """A knowledge base, questions, their ranked form, and the rows of supporting passages."""

    retriever: Retriever
    asked: list[Asked]
    questions: list[view.Question]
    supporting: list[list[int]]

    def part(self, start: int, step: int = 2) -> 'Task':
        """Every second question."""
        every = slice(start, None, step)
        lists = self.asked[every], self.questions[every], self.supporting[every]
        return Task(self.retriever, *lists)

    def ranker(self, weights: rank.Weights, max_passages: int = 3) -> rank.Ranker:
        """What ranks with other weights."""
        relations = self.retriever.relations
        return rank.Ranker(self.retriever.index, weights, max_passages, relations=relations)


def main() -> None:
    """Prints a line for each way of ranking."""
    parser = make_parser(
        __doc__,
        data=DATA,
        out=(pathlib.Path('runs/retrieval'), 'the folder of the recipe'),
        percent=(100.0, 'of questions and passages'),
        fit=(False, 'fit the weights'),
    )
    parser.add_argument('--row', default='musique', choices=SETS)
    options = parser.parse_args()
    if not (options.data / 'multihop').is_dir():
        print(f'skipped: {options.data} has no folder multihop', file=sys.stderr)
        return
    if options.fit:
        tasks = {row: load(options, row) for row in SETS}
        for half in (0, 1):
            weights = fit([task.part(1 - half) for task in tasks.values()])
            for row, task in tasks.items():
                told = f'{row}, half {half}, fitted to the others'
                show(line(task.part(half), told, task.ranker(weights)), options.json)
        weights = fit(list(tasks.values()))
        show({'measure': 'weights', **rounded(weights)}, options.json)
        for row, task in tasks.items():
            show(line(task, f'{row}, fitted to all', task.ranker(weights)), options.json)
        return
    task, weights = load(options, options.row), rank.WEIGHTS
    show(line(task, 'ours', task.ranker(weights)), options.json)
    for name, (first, after) in WITHOUT.items():
        changed = rank.Weights({**weights.first, **first}, {**weights.next, **after}, weights.begin)
        show(line(task, f'without {name}', task.ranker(changed)), options.json)
    for hops in (1, 2, 4):
        show(line(task, f'chains of at most {hops}', task.ranker(weights, hops)), options.json)


def load(options: argparse.Namespace, row: str) -> Task:
    """Runs the steps of the recipe that a row needs, and opens what they made."""
    recipe = Options(options.out, options.data, percent=options.percent)
    run([step for step in steps_of(recipe, row) if not step.name.startswith('results')], recipe)
    retriever = open_kb(options.out / f'kb-{row}').retriever
    return task_of(retriever, read_questions(options.out / f'text-{row}/questions.jsonl'))


def task_of(retriever: Retriever, asked: list[Asked]) -> Task:
    """Questions with what ranking needs; all passages of a supporting document support."""
    rows: dict[str, list[int]] = {}
    for row, document in enumerate(retriever.documents):
        rows.setdefault(document, []).append(row)
    supporting = [sorted(row for name in one.supporting for row in rows[name]) for one in asked]
    return Task(retriever, asked, retriever.questions([one.text for one in asked]), supporting)


def line(task: Task, ranking: str, ranker: rank.Ranker) -> dict:
    """What is printed of a ranking."""
    start = time.process_time()
    found = list(task.retriever.best_documents(ranker, task.questions, 5))
    spent = (time.process_time() - start) / len(found)
    documents = [[each.document for each in ranked] for ranked in found]
    measured = scores(task.asked, documents, task.retriever.texts)
    return {'ranking': ranking, **measured, 'cpu_ms_per_question': round(spent * 1e3, 1)}


def rounded(weights: rank.Weights) -> dict:
    """Weights as they are printed."""
    two = lambda values: {name: round(float(value), 2) for name, value in values.items()}
    first, after = two(weights.first), two(weights.next)
    return {'first': first, 'next': after, 'begin': round(weights.begin, 2)}


# ---- Weights ----


def fit(tasks: list[Task]) -> rank.Weights:
    """Weights under which supporting passages, and chains of two, are likely to come first."""
    first = solve([list(first_steps(task)) for task in tasks], len(view.FIRST))
    weights = rank.Weights(dict(zip(view.FIRST, first)), rank.WEIGHTS.next, 1.0)
    steps = [list(chains(task.ranker(weights), task)) for task in tasks]
    begin, *after = solve(steps, 1 + len(view.NEXT))
    return rank.Weights(weights.first, dict(zip(view.NEXT, after)), float(begin))


def first_steps(task: Task):
    """For each question, the quantities of all first passages and the right ones."""
    ranker = rank.Ranker(task.retriever.index)
    for seen, needed in zip(ranker.views(task.questions), task.supporting):
        yield seen.first.astype(np.float32), np.array(needed)


def chains(ranker: rank.Ranker, task: Task):
    """Of each question features of its chains of two passages [n, 1 + NEXT], and the right rows."""
    for seen, needed in zip(ranker.views(task.questions), task.supporting):
        chance = np.log(seen.probabilities[seen.roots] + 1e-300)
        found = ranker.candidates(seen, seen.roots[:, None], chance)
        roots = seen.roots[found.chains[found.pair]]
        right = np.flatnonzero(np.isin(found.passages[found.pair], needed) & np.isin(roots, needed))
        begin = np.log(seen.probabilities[roots] + 1e-12)
        if right.size:
            yield np.concatenate([begin[:, None], found.quantities()], 1, dtype=np.float32), right


def solve(sets: list[list[tuple]], width: int) -> np.ndarray:
    """The weights that maximise the mean over sets of the log-probability of what is right."""
    spread = np.mean([np.mean([x.std(0) for x, _ in examples], 0) for examples in sets], 0) + 1e-3
    examples = [
        (x / spread, right, 1 / len(sets) / len(examples))
        for examples in sets
        for x, right in examples
    ]

    def loss(weights):
        value, gradient = DECAY * weights @ weights, 2 * DECAY * weights
        for x, right, share in examples:
            logits = x @ weights
            p = np.exp(logits - logits.max())
            p /= p.sum()
            mass = p[right].sum() + 1e-12
            value -= share * np.log(mass)
            gradient -= share * (p[right] @ x[right] / mass - p @ x)
        return value, gradient

    return scipy.optimize.minimize(loss, np.zeros(width), jac=True, method='L-BFGS-B').x / spread


if __name__ == '__main__':
    main()
