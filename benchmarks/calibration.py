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
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from command_line import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.questions import Question
from opql_jax.kb import calibration
from opql_jax.kb.answers import Answer
from opql_jax.kb.text import comparison, question_plans
from opql_jax.kb.text.candidates import features
from opql_jax.kb.text.stated import left

BINS, TOGETHER, LOOKED_AT = 10, 8, 5
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
    """The candidates of a question: features [n, features], and which are right.

    Also whether the question has an answer, and [n] what is left of the candidates' probabilities
    where no sentence states them, see `kb.text.stated`.
    """

    features: np.ndarray
    right: np.ndarray
    answerable: bool
    left: np.ndarray


Sets = Mapping[str, Sequence[Asked]]


def main() -> None:
    """Prints the lines."""
    parser = make_parser(__doc__)
    parser.add_argument('sets', type=pathlib.Path, help='what calibration_sets.py wrote')
    parser.add_argument('--reader', action='store_true', help='look at the part of the reader, too')
    options = parser.parse_args()
    with_reader = (True, False) if options.reader else (False,)
    of_reader: dict[bool, dict[str, list[Asked]]] = {has_reader: {} for has_reader in with_reader}
    for folder in sorted(path for path in options.sets.iterdir() if path.is_dir()):
        found = [
            one for kb in sorted(folder.glob('*.kb')) for one in asked_of_kb(kb, options.reader)
        ]
        for has_reader, sets in of_reader.items():
            sets[folder.name] = [one[has_reader] for one in found]
    for has_reader, sets in of_reader.items():
        chances = calibration.read_probabilities if has_reader else calibration.probabilities
        used = calibration.READ if has_reader else calibration.FOLLOWED
        for name, asked in sets.items():
            others = {
                other: of
                for other, of in sets.items()
                if KIN.get(other, other) != KIN.get(name, name)
            }
            weights = fit_to(others or sets, has_reader)
            measured = scores(asked, [one.left * chances(one.features, weights) for one in asked])
            show({'measure': 'set', 'set': name, 'reader': has_reader} | measured, options.json)
            measured = scores(asked, [one.left * chances(one.features, used) for one in asked])
            show({'measure': 'used', 'set': name, 'reader': has_reader} | measured, options.json)
        weights = {
            feature: round(weight, 3) for feature, weight in fit_to(sets, has_reader).items()
        }
        show({'measure': 'weights', 'reader': has_reader} | weights, options.json)


def asked_of_kb(folder: pathlib.Path, has_reader: bool) -> Iterator[dict[bool, Asked]]:
    """Answers the questions of a knowledge base, without the reader and, if wanted, with it."""
    records = [
        json.loads(line)
        for line in folder.with_suffix('.jsonl').read_text(encoding='utf-8').splitlines()
    ]
    with opql_jax.open(folder) as kb:
        kinds = kb.vocab.kinds
        known = [
            row for row, kind in enumerate(kinds) if kind in ('person', 'organisation', 'place')
        ]
        rng = np.random.default_rng(0)
        named = [
            kb.vocab.names[known[i]] for i in rng.permutation(len(known))[: 1 + len(records) // 10]
        ]
        rights = [frozenset(map(fold, record['answers'])) for record in records] + [
            frozenset[str]()
        ] * len(named)
        texts = [record['question'] for record in records]
        texts += [
            UNANSWERED[number % len(UNANSWERED)].format(name)
            for number, name in enumerate(named, len(records))
        ]
        for start in range(0, len(texts), TOGETHER):
            yield from asked_together(
                kb, texts[start : start + TOGETHER], rights[start : start + TOGETHER], has_reader
            )


def asked_together(
    kb, texts: list[str], rights: list[frozenset[str]], has_reader: bool
) -> Iterator[dict[bool, Asked]]:
    """What answers some questions, of which the folded names of right answers are known."""
    block = []
    for text, right in zip(texts, rights):
        try:
            question = kb.question(text)
        except InputError:  # it names nothing of the text
            nothing = Asked(
                np.zeros((0, len(calibration.FEATURES))), np.zeros(0, bool), bool(right), np.ones(0)
            )
            yield {False: nothing, True: nothing}
        else:
            if not (
                comparison.parse_question(question, kb.vocab.kinds)
                or question_plans.out_of_reach(text)
            ):
                block.append((question, right))
    questions, answerer = [question for question, _ in block], kb.text_answerer
    is_right = lambda right, names: np.array(
        [not right.isdisjoint(map(fold, of)) for of in names], bool
    )
    found = answerer.follow(questions)
    evidence = answerer.read(questions, found, kb.read) if has_reader else [None] * len(questions)
    for (question, right), followed, read in zip(block, found, evidence):
        entities = [[kb.vocab.names[entity]] for entity in followed.answer.entities.tolist()]
        rows = answerer.followed_features(question, followed)
        of_followed = left_of(kb, question, followed.answer, followed.answer.entities.tolist())
        asked = {False: Asked(rows, is_right(right, entities), bool(right), of_followed)}
        if read is not None:
            candidates = answerer.candidates(question, followed, read)
            names = [
                [one.text] + ([kb.vocab.names[one.entity]] if one.entity >= 0 else [])
                for one in candidates
            ]
            answer = answerer.score(question, followed, read)
            ids = [
                one.entity if one.entity >= 0 else -1 - answer.phrases.index(one.text)
                for one in candidates
            ]
            asked[True] = Asked(
                features(candidates, read, followed.path),
                is_right(right, names),
                bool(right),
                left_of(kb, question, answer, ids),
            )
        yield asked


def left_of(kb, question: Question, answer: Answer, ids: Sequence[int]) -> np.ndarray:
    """What is left of the probabilities of an answer's entities, of which some are looked at."""
    answer = dataclasses.replace(answer, store=kb.store, question=question)
    best = answer.entities[:LOOKED_AT].tolist()
    return np.array([left(answer, one) if one in best else 1.0 for one in ids])


def fit_to(sets: Sets, has_reader: bool) -> dict[str, float]:
    """The weights that the answers to questions of sets give, each set counting alike.

    Without the reader they are fitted to first answers, and the weights of the share and the fit
    are those in use.
    """
    known = calibration.READ if has_reader else calibration.FOLLOWED
    fixed = {} if has_reader else {name: known[name] for name in ('share', 'fit')}
    most = None if has_reader else 1
    rows = [one.features[:most] for asked in sets.values() for one in asked]
    right = [one.right[:most] for asked in sets.values() for one in asked]
    groups = [
        np.full(len(of), number)
        for number, asked in enumerate(sets.values())
        for of in (one.right[:most] for one in asked)
    ]
    names = [name for name in known if name not in ('bias', *fixed)]
    return calibration.fit(
        np.concatenate(rows), np.concatenate(right), names, np.concatenate(groups), fixed
    )


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
            unstated.append(best)
    is_right, probability = np.array(first), np.array(best_chances)
    sure = probability >= calibration.SURE
    measured = {
        'hits@1': is_right.mean(),
        'hits@5': np.mean(five),
        'ece': calibration_error(probability, is_right),
        'ece_of_all': calibration_error(
            np.append(probability, unstated), np.append(is_right, [False] * len(unstated))
        ),
        'sure': sure.mean(),
        'sure_right': is_right[sure].mean() if sure.any() else np.nan,
        'right_sure': sure[is_right].mean() if is_right.any() else np.nan,
        'unanswerable_sure': np.mean(np.array(unstated) >= calibration.SURE)
        if unstated
        else np.nan,
    }
    return {
        'questions': len(first),
        **{name: round(float(value), 3) for name, value in measured.items() if np.isfinite(value)},
    }


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error.

    How far the share of right answers is from their mean probability, on average over equal bins.
    """
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [
        abs((right[bins == number] - probabilities[bins == number]).sum()) for number in range(BINS)
    ]
    return float(sum(gaps)) / len(right)


if __name__ == '__main__':
    main()
