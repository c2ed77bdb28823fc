"""Whether the probabilities of answers over plain text come true, and the fit of the weights that `opql_jax/kb/calibration.py` has.

opql index ../shared/data/multihop/musique_corpus.jsonl --out musique.kb
python benchmarks/calibration.py --set musique musique.kb ../shared/data/multihop/musique_questions.jsonl --set ... --json

A set is a name, a knowledge base, and a file of questions {"id", "question", "answer", "aliases"} or {"id", "question", "answers"}, a line.
Questions of the file that the reader was trained with are left out by `--left-out` (`recipes.reader.is_left_out`). To each set belong questions
about its names that its text does not answer, such as for a shoe size; these have no right answer.

Lines `set` have, for each set, the weights being fitted to the others: the share of right first answers and of right ones among five; the
expected calibration error (10 bins) of first answers; of those that are sure how many are right, and of the right ones how many are
sure; and of the unanswerable questions how many have a sure answer. The line `weights` has those that all sets give.
"""

import argparse
import json
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from command_line import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb import calibration, question_plans
from opql_jax.kb.candidates import features
from opql_jax.recipes.reader import is_left_out

BINS, TOGETHER = 10, 16
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


def main() -> None:
    """Prints the lines."""
    parser = make_parser(__doc__)
    parser.add_argument('--set', nargs=3, action='append', required=True, metavar=('NAME', 'KB', 'QUESTIONS'))
    parser.add_argument('--left-out', nargs='*', default=['musique', 'hotpotqa'], help='sets that the reader was trained with')
    parser.add_argument(
        '--count', type=int, default=500, help='questions of each set, at most, and a fifth as many without an answer'
    )
    parser.add_argument('--no-reader', action='store_true')
    options = parser.parse_args()
    sets = {name: list(read_set(name, kb, questions, options)) for name, kb, questions in options.set}
    for name, asked in sets.items():
        others = [one for other, of in sets.items() for one in of if other != name] or asked
        show({'measure': 'set', 'set': name} | scores(asked, fit({'others': others})), options.json)
    weights = fit(sets)
    show({'measure': 'weights'} | {feature: round(weight, 3) for feature, weight in weights.items()}, options.json)


def read_set(name: str, folder: str, questions: str, options: argparse.Namespace) -> Iterator[Asked]:
    """The questions of a set, those that it refuses without any candidate, and then those without an answer."""
    kb = opql_jax.open(folder, reader=not options.no_reader)
    records = [json.loads(line) for line in pathlib.Path(questions).read_text(encoding='utf-8').splitlines()]
    records = [record for record in records if name not in options.left_out or is_left_out(record['id'])]
    rng = np.random.default_rng(0)
    chosen = [records[i] for i in rng.permutation(len(records))[: options.count]]
    rights = [
        frozenset(map(fold, record.get('answers') or [record['answer'], *record.get('aliases', ())])) for record in chosen
    ]
    yield from asked_of(kb, [record['question'] for record in chosen], rights)
    people = [row for row, kind in enumerate(kb.vocab.kinds) if kind in ('person', 'organisation', 'place')]
    named = [kb.vocab.names[people[i]] for i in rng.permutation(len(people))[: len(chosen) // 5]]
    texts = [UNANSWERED[number % len(UNANSWERED)].format(each) for number, each in enumerate(named)]
    yield from asked_of(kb, texts, [frozenset()] * len(texts))


def asked_of(kb, texts: list[str], rights: list[frozenset[str]]) -> Iterator[Asked]:
    """What answers questions, of which the folded names of right answers are known."""
    for start in range(0, len(texts), TOGETHER):
        block = []
        for text, right in zip(texts[start : start + TOGETHER], rights[start:]):
            try:
                block.append((kb.question(text), right))
            except InputError:  # it names nothing of the text
                yield Asked(np.zeros((0, len(calibration.FEATURES))), np.zeros(0, bool), bool(right))
        questions, answerer = [question for question, _ in block], kb.text_answerer
        evidence = kb.evidence_finder.find(questions)
        for (question, right), paths, seen in zip(block, answerer.paths(questions), evidence):
            followed, wanted = answerer.combine(question, paths), question_plans.wanted(question.text)
            found = answerer.candidates(followed, wanted, seen)
            names = [{one.text} | ({kb.vocab.names[one.entity]} if one.entity >= 0 else set()) for one in found]
            is_right = [not right.isdisjoint(map(fold, spellings)) for spellings in names]
            yield Asked(features(found, seen, answerer.fit(paths)), np.array(is_right, bool), bool(right))


def fit(sets) -> dict[str, float]:
    """The weights that the candidates of all sets give, each set counting alike."""
    rows = [one.features for asked in sets.values() for one in asked]
    right = [one.right for asked in sets.values() for one in asked]
    groups = [np.full(len(one.right), number) for number, asked in enumerate(sets.values()) for one in asked]
    return calibration.fit(np.concatenate(rows), np.concatenate(right), groups=np.concatenate(groups))


def scores(asked: list[Asked], weights: dict[str, float]) -> dict[str, float]:
    """The scores of a set by some weights."""
    first, chances, five, unstated = [], [], [], []
    for one in asked:
        chance = calibration.probabilities(one.features, weights)
        order = np.argsort(-chance, kind='stable')
        best = float(chance[order[0]]) if len(order) else 0.0
        if one.answerable:
            first.append(bool(len(order) and one.right[order[0]]))
            five.append(bool(one.right[order[:5]].any()))
            chances.append(best)
        else:
            unstated.append(best >= calibration.SURE)
    is_right, probability = np.array(first), np.array(chances)
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
