"""Fits the weights by which passages are ranked, and the probability that one is evidence.

python benchmarks/retrieval.py rank --json
python benchmarks/retrieval.py evidence --kb KB --questions FILE --json

rank      The weights of `opql_jax.retrieval.rank.WEIGHTS`, fitted to the questions of all sets of
          the recipe `retrieval`, whose steps are run as far as they are needed; each set counts
          alike. Before that they are fitted to each half of the questions, and score the other.
evidence  Questions are JSON Lines `{"question", "supporting": [ids of documents]}`; some should
          have no supporting document in the knowledge base, as users ask about what a text does not
          say. It prints the weights of `opql_jax.retrieval.evidence.FITTED` anew, and of each half
          of the questions, fitted to the other one, the Brier score of the best passages beside
          that of their ranking scores, and how often a passage that counts as evidence (a
          probability of 0.5 or a score of 0.5) comes first for a question that has none.
"""

import argparse
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
from calibration import logistic
from timing import DATA, make_parser, show

from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.kb.trained.evaluate_retrieval import Asked, read_questions, scores
from opql_jax.recipes.recipe import run
from opql_jax.recipes.retrieval import SETS, steps_of
from opql_jax.recipes.step import Options
from opql_jax.retrieval import evidence, rank, view

# The penalty on standardised weights of ranking.
DECAY = 3e-3
# Passages of each question that may be evidence, and the penalty on those weights.
K, EVIDENCE_DECAY = 10, 1e-2


def main() -> None:
    """Prints the lines of a subject."""
    parser = make_parser(
        __doc__,
        data=DATA,
        out=(pathlib.Path('runs/retrieval'), 'the folder of the recipe'),
        percent=(100.0, 'of questions and passages'),
    )
    parser.add_argument('subject', choices=SUBJECTS)
    parser.add_argument('--kb', help='whose passages may be evidence')
    parser.add_argument('--questions', help='a file')
    options = parser.parse_args()
    if options.subject == 'evidence' and not (options.kb and options.questions):
        parser.error('evidence needs --kb and --questions')
    for line in SUBJECTS[options.subject](options):
        show(line, options.json)


# ---- The weights of ranking ----


class Task(NamedTuple):
    """A knowledge base, questions, their ranked form, and the rows of supporting passages."""

    retriever: Retriever
    asked: list[Asked]
    questions: list[view.Question]
    supporting: list[list[int]]

    def half(self, start: int) -> 'Task':
        """Every second question."""
        lists = self.asked[start::2], self.questions[start::2], self.supporting[start::2]
        return Task(self.retriever, *lists)

    def ranker(self, weights: rank.Weights) -> rank.Ranker:
        """What ranks with other weights."""
        relations = self.retriever.relations
        return rank.Ranker(self.retriever.index, weights, relations=relations)

    def scores(self, weights: rank.Weights) -> dict:
        """What is printed of a ranking."""
        ranked = self.retriever.best_documents(self.ranker(weights), self.questions, 5)
        documents = [[each.document for each in found] for found in ranked]
        return scores(self.asked, documents, self.retriever.texts)


def fit_ranking(options: argparse.Namespace) -> Iterator[dict]:
    """Lines of each half of each set, and the weights that all questions give."""
    tasks = {row: load(options, row) for row in SETS}
    for half in (0, 1):
        weights = fit([task.half(1 - half) for task in tasks.values()])
        for row, task in tasks.items():
            yield {'row': row, 'half': half} | task.half(half).scores(weights)
    weights = fit(list(tasks.values()))
    for row, task in tasks.items():
        yield {'row': row, 'half': 'both'} | task.scores(weights)
    two = lambda values: {name: round(float(value), 2) for name, value in values.items()}
    yield {'first': two(weights.first), 'next': two(weights.next), 'begin': round(weights.begin, 2)}


def load(options: argparse.Namespace, row: str) -> Task:
    """Runs the steps of the recipe that a row needs; all passages of a document support."""
    recipe = Options(options.out, options.data, percent=options.percent)
    run([step for step in steps_of(recipe, row) if not step.name.startswith('results')], recipe)
    retriever = open_kb(options.out / f'kb-{row}').retriever
    asked = read_questions(options.out / f'text-{row}/questions.jsonl')
    rows: dict[str, list[int]] = {}
    for number, document in enumerate(retriever.documents):
        rows.setdefault(document, []).append(number)
    supporting = [sorted(row for name in one.supporting for row in rows[name]) for one in asked]
    return Task(retriever, asked, retriever.questions([one.text for one in asked]), supporting)


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


# ---- The probability of evidence ----


class Ranked(NamedTuple):
    """A question's best passages: quantities [K, 5], ranking scores [K], whether evidence [K]."""

    quantities: np.ndarray
    scores: np.ndarray
    right: np.ndarray


def fit_evidence(options: argparse.Namespace) -> Iterator[dict]:
    """A line of each half of the questions, and the weights that all give."""
    with open_kb(options.kb) as kb:
        ranked = list(ranked_passages(kb.retriever, options.questions))
    halves = ranked[::2], ranked[1::2]
    for half, other in (halves, halves[::-1]):
        yield measure(half, weights_of_evidence(other))
    yield {'weights': weights_of_evidence(ranked)._asdict()}


def ranked_passages(retriever: Retriever, path: str) -> Iterator[Ranked]:
    """What is known of the questions of a file."""
    ranker = rank.Ranker(retriever.index, relations=retriever.relations)
    for _, record in read_json_lines(path):
        (question,) = retriever.questions([record['question']])
        (seen,) = ranker.views([question])
        best = ranker.rank(question, K)
        passages = np.array([one.passage for one in best])
        values = np.array([one.score for one in best])
        right = np.array([retriever.documents[row] in record['supporting'] for row in passages])
        yield Ranked(evidence.quantities(seen, passages, values), values, right)


def weights_of_evidence(ranked: Sequence[Ranked]) -> evidence.Weights:
    """The weights under which what is evidence is most probable."""
    found = np.concatenate([one.quantities for one in ranked])
    right = np.concatenate([one.right for one in ranked])
    share = np.full(len(found), 1 / len(found))
    bias, weights = logistic(found, right, EVIDENCE_DECAY, share, 0.0)
    return evidence.Weights(*np.round([bias, *weights], 3).tolist())


def measure(ranked: Sequence[Ranked], weights: evidence.Weights) -> dict[str, float]:
    """Brier scores of best passages, and shares of false evidence where a question has none."""
    first = np.array([evidence.probabilities(one.quantities, weights)[0] for one in ranked])
    score = np.array([one.scores[0] for one in ranked])
    right = np.array([one.right[0] for one in ranked])
    none = np.array([not one.right.any() for one in ranked])
    told = {}
    for name, best in (('', first), ('_of_scores', score)):
        told[f'brier{name}'] = round(float(np.mean((best - right) ** 2)), 3)
        told[f'false_evidence{name}'] = round(float(np.mean(best[none] >= 0.5)), 3)
    return told | {'questions': len(ranked), 'without_evidence': int(none.sum())}


SUBJECTS = {'rank': fit_ranking, 'evidence': fit_evidence}

if __name__ == '__main__':
    main()
