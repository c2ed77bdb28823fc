"""Whether the probabilities of answers over plain text come true, and the fit of the weights that `opql_jax/kb/calibration.py` has.

python benchmarks/calibration_sets.py sets --data ../shared/data
python benchmarks/calibration.py sets --json

To the questions of each knowledge base belong some about its names that no text answers, such as for a shoe size. Questions that compare
or are out of reach are left out: they have no score of their own.

Lines `set` have, for each set, the weights being fitted to the others: the share of right first answers and of right ones among five; the
expected calibration error (10 bins) of first answers; how many of those that are sure are right, and of the right ones how many are
sure; and of the questions without an answer how many have a sure one. Sets of the same text, `KIN`, are left out together. The
last lines, `weights`, have those that all sets give. `reader` says whether the reader's part is looked at.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from command_line import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb import calibration
from opql_jax.kb.text import comparison, question_plans
from opql_jax.kb.text.candidates import features

BINS, TOGETHER = 10, 8
# Sets that have text of another.
KIN = {'articles': 'squad', 'pools': 'hotpotqa'}
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
    """What answers a question: features of the candidates [n, features], whether each is right, and whether the question has an answer."""

    features: np.ndarray
    right: np.ndarray
    answerable: bool


Sets = Mapping[str, Sequence[Asked]]


def main() -> None:
    """Prints the lines."""
    parser = make_parser(__doc__)
    parser.add_argument('sets', type=pathlib.Path, help='what calibration_sets.py wrote')
    options = parser.parse_args()
    with_reader: dict[str, list[Asked]] = {}
    without: dict[str, list[Asked]] = {}
    for folder in sorted(path for path in options.sets.iterdir() if path.is_dir()):
        pairs = [pair for kb in sorted(folder.glob('*.kb')) for pair in asked_of_kb(kb)]
        with_reader[folder.name], without[folder.name] = map(list, zip(*pairs))
    for has_reader, sets in ((True, with_reader), (False, without)):
        chances = calibration.read_probabilities if has_reader else calibration.probabilities
        for name, asked in sets.items():
            others = {other: of for other, of in sets.items() if KIN.get(other, other) != KIN.get(name, name)}
            weights = fit_to(others or sets, has_reader)
            measured = scores(asked, [chances(one.features, weights) for one in asked])
            show({'measure': 'set', 'set': name, 'reader': has_reader} | measured, options.json)
        weights = {feature: round(weight, 3) for feature, weight in fit_to(sets, has_reader).items()}
        show({'measure': 'weights', 'reader': has_reader} | weights, options.json)


def asked_of_kb(folder: pathlib.Path) -> Iterator[tuple[Asked, Asked]]:
    """What answers the questions of a knowledge base, with the reader and without."""
    records = [json.loads(line) for line in folder.with_suffix('.jsonl').read_text(encoding='utf-8').splitlines()]
    with opql_jax.open(folder) as kb:
        kinds = kb.vocab.kinds
        known = [row for row, kind in enumerate(kinds) if kind in ('person', 'organisation', 'place')]
        rng = np.random.default_rng(0)
        named = [kb.vocab.names[known[i]] for i in rng.permutation(len(known))[: 1 + len(records) // 10]]
        rights = [frozenset(map(fold, record['answers'])) for record in records] + [frozenset[str]()] * len(named)
        texts = [record['question'] for record in records]
        texts += [UNANSWERED[number % len(UNANSWERED)].format(name) for number, name in enumerate(named, len(records))]
        for start in range(0, len(texts), TOGETHER):
            yield from asked_together(kb, texts[start : start + TOGETHER], rights[start : start + TOGETHER])


def asked_together(kb, texts: list[str], rights: list[frozenset[str]]) -> Iterator[tuple[Asked, Asked]]:
    """What answers some questions, of which the folded names of right answers are known."""
    block = []
    for text, right in zip(texts, rights):
        try:
            question = kb.question(text)
        except InputError:  # it names nothing of the text
            nothing = Asked(np.zeros((0, len(calibration.FEATURES))), np.zeros(0, bool), bool(right))
            yield nothing, nothing
        else:
            if not (comparison.parse_question(question, kb.vocab.kinds) or question_plans.out_of_reach(text)):
                block.append((question, right))
    questions, answerer = [question for question, _ in block], kb.text_answerer
    found = zip(block, answerer.follow(questions), kb.evidence_finder.find(questions))
    for (question, right), followed, evidence in found:
        is_right = lambda names: np.array([not right.isdisjoint(map(fold, of)) for of in names], bool)
        entities = [[kb.vocab.names[entity]] for entity in followed.answer.entities.tolist()]
        candidates = answerer.candidates(followed.answer, question_plans.wanted(question.text), evidence)
        names = [[one.text] + ([kb.vocab.names[one.entity]] if one.entity >= 0 else []) for one in candidates]
        yield (
            Asked(features(candidates, evidence, followed.path), is_right(names), bool(right)),
            Asked(answerer.followed_features(question, followed), is_right(entities), bool(right)),
        )


def fit_to(sets: Sets, has_reader: bool) -> dict[str, float]:
    """The weights that the answers to questions of sets give, each set counting alike.

    Without the reader they are fitted to first answers, and the weights of the share and the fit are given: they are of a large sample.
    """
    known = calibration.READ if has_reader else calibration.FOLLOWED
    fixed = {} if has_reader else {name: known[name] for name in ('share', 'fit')}
    most = None if has_reader else 1
    rows = [one.features[:most] for asked in sets.values() for one in asked]
    right = [one.right[:most] for asked in sets.values() for one in asked]
    groups = [
        np.full(len(of), number) for number, asked in enumerate(sets.values()) for of in (one.right[:most] for one in asked)
    ]
    names = [name for name in known if name not in ('bias', *fixed)]
    return calibration.fit(np.concatenate(rows), np.concatenate(right), names, np.concatenate(groups), fixed)


def scores(asked: Sequence[Asked], chances: Sequence[np.ndarray]) -> dict[str, float]:
    """The scores of a set by the probabilities of the candidates of its questions."""
    first, best_chances, five, unstated = [], [], [], []
    for one, chance in zip(asked, chances):
        order = np.argsort(-chance, kind='stable')
        best = float(chance[order[0]]) if len(order) else 0.0
        if one.answerable:
            first.append(bool(len(order) and one.right[order[0]]))
            five.append(bool(one.right[order[:5]].any()))
            best_chances.append(best)
        else:
            unstated.append(best >= calibration.SURE)
    is_right, probability = np.array(first), np.array(best_chances)
    sure = probability >= calibration.SURE
    measured = {
        'hits@1': is_right.mean(),
        'hits@5': np.mean(five),
        'ece': calibration_error(probability, is_right),
        'sure': sure.mean(),
        'sure_right': is_right[sure].mean() if sure.any() else np.nan,
        'right_sure': sure[is_right].mean() if is_right.any() else np.nan,
        'unanswerable_sure': np.mean(unstated) if unstated else np.nan,
    }
    return {'questions': len(first), **{name: round(float(value), 3) for name, value in measured.items() if np.isfinite(value)}}


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: how far the share of right answers is from their mean probability, on average over equal bins."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == number] - probabilities[bins == number]).sum()) for number in range(BINS)]
    return float(sum(gaps)) / len(right)


if __name__ == '__main__':
    main()
