"""Whether the probabilities of answers over plain text come true.

Also fits the weights in `opql_jax/kb/calibration.py`.

python benchmarks/calibration_sets.py --out sets --data ../shared/data
python benchmarks/calibration.py --sets sets --json

To the questions of each knowledge base belong some about its names that no text answers, such as
for a shoe size. Questions that compare or are out of reach are left out: they have no score of
their own.

Lines `set` have, for each set, the weights being fitted to the others: the share of right first
answers and of right ones among five; the expected calibration error (10 bins) of first answers to
all questions, `ece_of_all`, as those without an answer have none that is right; how many are sure
and right; and of the questions without an answer how many have a sure one. Sets of the same text,
`KIN`, are left out together. The last lines, `weights`, have those that all sets give. Lines `used`
have the scores of each set with the weights that are in use. With `--reader` its part is looked at,
too, which takes several times as long.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from timing import run

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb import calibration
from opql_jax.kb.text import comparison, question_plans
from opql_jax.kb.text.candidates import features
from opql_jax.kb.text.stated import left
from opql_jax.kb.text.text_kb import LOOKED_AT

BINS, TOGETHER = 10, 8
# L2 penalty on the weights of standardised features, bias excepted.
DECAY = 1e-3
# Sets that have text of another, or such as it has.
KIN = {'articles': 'squad', 'pools': 'hotpotqa', 'linked': 'written'}
UNANSWERED = (
    'What is the shoe size of {}?',
    'Which football club does {} support?',
    'What is the favourite colour of {}?',
    'Who taught {} to swim?',
    'When did {} join the chess club?',
    'Who is the dentist of {}?',
    'Where did {} buy a bicycle?',
    'Who painted the kitchen of {}?',
    'Which hotel does {} own in Lisbon?',
    'Who inherited the piano of {}?',
)


class Asked(NamedTuple):
    """A question's candidates [n]: features, whether each is right, and what `left` keeps of it."""

    features: np.ndarray
    right: np.ndarray
    answerable: bool
    left: np.ndarray


Sets = Mapping[str, Sequence[Asked]]


def measure(options: argparse.Namespace) -> Iterator[dict]:
    """The lines without the reader, and with it if that is wanted."""
    folders = sorted(path for path in options.sets.iterdir() if path.is_dir())
    answered = {
        folder.name: [
            one for kb in sorted(folder.glob('*.kb')) for one in asked_of_kb(kb, options.reader)
        ]
        for folder in folders
    }
    for has_reader in (True, False) if options.reader else (False,):
        sets = {name: [one[has_reader] for one in of] for name, of in answered.items()}
        chances = calibration.read_probabilities if has_reader else calibration.probabilities
        used = calibration.READ if has_reader else calibration.FOLLOWED
        text = lambda name: KIN.get(name, name)
        for name, asked in sets.items():
            others = {other: of for other, of in sets.items() if text(other) != text(name)}
            for of, weights in (('set', fit_to(others or sets, has_reader)), ('used', used)):
                found = [one.left * chances(one.features, weights) for one in asked]
                yield {'measure': of, 'set': name, 'reader': has_reader} | scores(asked, found)
        told = {of: round(weight, 3) for of, weight in fit_to(sets, has_reader).items()}
        yield {'measure': 'weights', 'reader': has_reader} | told


def asked_of_kb(folder: pathlib.Path, has_reader: bool) -> Iterator[dict[bool, Asked]]:
    """Answers the questions of a knowledge base, without the reader and, if wanted, with it."""
    records = [record for _, record in read_json_lines(folder.with_suffix('.jsonl'))]
    asked = [(one['question'], frozenset(map(fold, one['answers']))) for one in records]
    with opql_jax.open(folder) as kb:
        kinds = enumerate(kb.vocab.kinds)
        known = [row for row, kind in kinds if kind in ('person', 'organisation', 'place')]
        order = np.random.default_rng(0).permutation(len(known))
        for number, i in enumerate(order[: 1 + len(records) // 10], len(records)):
            unanswered = UNANSWERED[number % len(UNANSWERED)]
            asked.append((unanswered.format(kb.vocab.names[known[i]]), frozenset()))
        for start in range(0, len(asked), TOGETHER):
            yield from asked_together(kb, asked[start : start + TOGETHER], has_reader)


def asked_together(
    kb, asked: Sequence[tuple[str, frozenset[str]]], has_reader: bool
) -> Iterator[dict[bool, Asked]]:
    """What answers some questions, of which the folded names of right answers are known."""
    block = []
    for text, right in asked:
        try:
            question = kb.question(text)
        except InputError:  # it names nothing of the text
            nothing = np.zeros((0, len(calibration.FEATURES))), np.zeros(0, bool)
            yield dict.fromkeys((False, True), Asked(*nothing, bool(right), np.ones(0)))
        else:
            compares = comparison.parse_question(question, kb.vocab.kinds)
            if not (compares or question_plans.out_of_reach(text)):
                block.append((question, right))
    questions, answerer = [question for question, _ in block], kb.text_answerer
    found = answerer.follow(questions)
    evidence = answerer.read(questions, found, kb.read) if has_reader else [None] * len(questions)
    for (question, right), followed, read in zip(block, found, evidence):

        def ask(rows, names, answer, ids):
            is_right = [not right.isdisjoint(map(fold, of)) for of in names]
            # Of the probabilities of those looked at some is left.
            whole = dataclasses.replace(answer, store=kb.store, question=question)
            best = answer.entities[:LOOKED_AT].tolist()
            kept = np.array([left(whole, one) if one in best else 1.0 for one in ids])
            return Asked(rows, np.array(is_right, bool), bool(right), kept)

        entities = followed.answer.entities.tolist()
        rows = answerer.followed_features(question, followed)
        name_of = kb.vocab.names
        asked_of = {False: ask(rows, [[name_of[i]] for i in entities], followed.answer, entities)}
        if read is not None:
            candidates = answerer.candidates(question, followed, read)
            answer = answerer.score(question, followed, read)
            ids = [
                one.entity if one.entity >= 0 else -1 - answer.phrases.index(one.text)
                for one in candidates
            ]
            names = [
                [one.text, *([name_of[i]] if i >= 0 else [])] for one, i in zip(candidates, ids)
            ]
            rows = features(candidates, read, followed.path)
            asked_of[True] = ask(rows, names, answer, ids)
        yield asked_of


def fit_to(sets: Sets, has_reader: bool) -> dict[str, float]:
    """The weights fitted to the answers of all sets, each of which counts alike.

    Without the reader they are fitted to first answers, and those of `share` and `fit` are kept.
    """
    known = calibration.READ if has_reader else calibration.FOLLOWED
    fixed = {} if has_reader else {name: known[name] for name in ('share', 'fit')}
    most = None if has_reader else 1
    shown = [(number, one) for number, of in enumerate(sets.values()) for one in of]
    rows = np.concatenate([one.features[:most] for _, one in shown])
    right = np.concatenate([one.right[:most] for _, one in shown])
    groups = np.concatenate([np.full(len(one.right[:most]), number) for number, one in shown])
    names = [name for name in known if name not in ('bias', *fixed)]
    return fit(rows, right, groups, names, fixed)


def fit(
    features: np.ndarray,
    right: np.ndarray,
    groups: np.ndarray,
    names: Sequence[str],
    fixed: Mapping[str, float],
) -> dict[str, float]:
    """The weights of `names`, beside `fixed` ones, that fit `right` [n] best, less an L2 penalty.

    Each set of `groups` [n] counts alike, whatever its size.
    """
    chosen = [calibration.FEATURES.index(name) for name in names]
    offset = features @ np.array([fixed.get(name, 0.0) for name in calibration.FEATURES])
    _, group, counts = np.unique(groups, return_inverse=True, return_counts=True)
    share = 1 / counts[group] / len(counts)
    bias, weights = logistic(features[:, chosen], right, DECAY, share, offset)
    return {'bias': bias, **fixed, **dict(zip(names, weights))}


def logistic(
    rows: np.ndarray, right: np.ndarray, decay: float, share: np.ndarray, offset: float | np.ndarray
) -> tuple[float, list[float]]:
    """Bias and weights of a logistic regression of `right` [n] on rows [n, f].

    `share` [n] is how much each row counts; `offset` is added to the log-odds.
    """
    mean, spread = rows.mean(0), rows.std(0) + 1e-6
    x = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    sign = np.where(right, 1, -1)

    def loss(weights):
        odds = sign * (x @ weights + offset)
        penalty = decay * np.concatenate([[0], weights[1:]])
        return share @ np.logaddexp(0, -odds) + penalty @ weights, 2 * penalty - (
            share * sign * scipy.special.expit(-odds)
        ) @ x

    start = np.zeros(x.shape[1])
    bias, *weights = scipy.optimize.minimize(loss, start, jac=True, method='L-BFGS-B').x
    weights = weights / spread
    return float(bias - weights @ mean), weights.tolist()


def scores(asked: Sequence[Asked], chances: Sequence[np.ndarray]) -> dict[str, float]:
    """The scores of a set by the probabilities of the candidates of its questions."""
    ranked = [
        (chance[order], one.right[order])
        for one, chance in zip(asked, chances)
        for order in [np.argsort(-chance, kind='stable')]
    ]
    best = np.array([chance[0] if len(chance) else 0.0 for chance, _ in ranked])
    first, five = (np.array([right[:k].any() for _, right in ranked], bool) for k in (1, 5))
    known, sure = np.array([one.answerable for one in asked], bool), best >= calibration.SURE
    measured = {
        'hits@1': first[known],
        'hits@5': five[known],
        'sure': sure[known],
        'sure_right': first[known & sure],
        'unanswerable_sure': sure[~known],
    }
    told = {name: round(float(of.mean()), 3) for name, of in measured.items() if of.size}
    # Nothing that is unanswerable is right.
    error = round(calibration_error(best, first), 3)
    return {'questions': int(known.sum()), **told, 'ece_of_all': error}


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: mean gap between probability and share of right, in bins."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((right - probabilities)[bins == number].sum()) for number in range(BINS)]
    return float(sum(gaps)) / len(right)


if __name__ == '__main__':
    run(
        __doc__,
        measure,
        sets=(pathlib.Path('sets'), 'what calibration_sets.py wrote'),
        reader=(False, 'look at the part of the reader, too'),
    )
