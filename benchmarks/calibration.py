"""Whether the probabilities of answers over plain text come true.

Also fits the weights in `opql_jax/kb/calibration.py`.

python benchmarks/calibration_sets.py sets --data ../shared/data
python benchmarks/calibration.py sets --json

To the questions of each knowledge base belong some about its names that no text answers, such as
for a shoe size. Questions that compare or are out of reach are left out: they have no score of
their own.

Lines `set` have, for each set, the weights being fitted to the others: the share of right first
answers and of right ones among five; the expected calibration error (10 bins) of first answers,
`ece`, and that of all questions, `ece_of_all`, as those without an answer have none that is right;
how many of those that are sure are right, and of the right ones how many are sure; and of the
questions without an answer how many have a sure one. Sets of the same text, `KIN`, are left out
together. The last lines, `weights`, have those that all sets give. Lines `used` have the scores of
each set with the weights that are in use. `reader` says whether the reader's part is looked at,
which takes several times as long and is left out without `--reader`.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
from timing import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.questions import Question
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
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


def main() -> None:
    """Prints the lines."""
    parser = make_parser(__doc__, reader=(False, 'look at the part of the reader, too'))
    parser.add_argument('sets', type=pathlib.Path, help='what calibration_sets.py wrote')
    options = parser.parse_args()
    with_reader = (True, False) if options.reader else (False,)
    of_reader: dict[bool, dict[str, list[Asked]]] = {has_reader: {} for has_reader in with_reader}
    for folder in sorted(path for path in options.sets.iterdir() if path.is_dir()):
        kbs = sorted(folder.glob('*.kb'))
        found = [one for kb in kbs for one in asked_of_kb(kb, options.reader)]
        for has_reader, sets in of_reader.items():
            sets[folder.name] = [one[has_reader] for one in found]
    for has_reader, sets in of_reader.items():
        chances = calibration.read_probabilities if has_reader else calibration.probabilities
        used = calibration.READ if has_reader else calibration.FOLLOWED
        for name, asked in sets.items():
            text = lambda name: KIN.get(name, name)
            others = {other: of for other, of in sets.items() if text(other) != text(name)}
            fitted = fit_to(others or sets, has_reader)
            for measure, weights in (('set', fitted), ('used', used)):
                of = [one.left * chances(one.features, weights) for one in asked]
                line = {'measure': measure, 'set': name, 'reader': has_reader}
                show(line | scores(asked, of), options.json)
        told = {of: round(weight, 3) for of, weight in fit_to(sets, has_reader).items()}
        show({'measure': 'weights', 'reader': has_reader} | told, options.json)


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
            of = left_of(kb, question, answer, ids)
            return Asked(rows, np.array(is_right, bool), bool(right), of)

        entities = followed.answer.entities.tolist()
        rows = answerer.followed_features(question, followed)
        names = [[kb.vocab.names[entity]] for entity in entities]
        asked_of = {False: ask(rows, names, followed.answer, entities)}
        if read is not None:
            candidates = answerer.candidates(question, followed, read)
            answer = answerer.score(question, followed, read)
            names, ids = [], []
            for one in candidates:
                is_entity = one.entity >= 0
                names.append([one.text, *([kb.vocab.names[one.entity]] if is_entity else [])])
                ids.append(one.entity if is_entity else -1 - answer.phrases.index(one.text))
            rows = features(candidates, read, followed.path)
            asked_of[True] = ask(rows, names, answer, ids)
        yield asked_of


def left_of(kb, question: Question, answer: Answer, ids: Sequence[int]) -> np.ndarray:
    """What is left of the probabilities of an answer's entities, of which some are looked at."""
    answer = dataclasses.replace(answer, store=kb.store, question=question)
    best = answer.entities[:LOOKED_AT].tolist()
    return np.array([left(answer, one) if one in best else 1.0 for one in ids])


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
    share = lambda of: of.mean() if of.size else np.nan
    measured = {
        'hits@1': share(first[known]),
        'hits@5': share(five[known]),
        'ece': calibration_error(best[known], first[known]),
        'ece_of_all': calibration_error(best, first),  # nothing unanswerable is right
        'sure': share(sure[known]),
        'sure_right': share(first[known & sure]),
        'right_sure': share(sure[known & first]),
        'unanswerable_sure': share(sure[~known]),
    }
    told = {name: round(float(value), 3) for name, value in measured.items() if np.isfinite(value)}
    return {'questions': int(known.sum()), **told}


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: mean gap between probability and share of right, in bins."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((right - probabilities)[bins == number].sum()) for number in range(BINS)]
    return float(sum(gaps)) / len(right)


if __name__ == '__main__':
    main()
