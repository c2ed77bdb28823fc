"""Whether the probabilities of answers over plain text are right, and the fit of the numbers that `opql_jax/kb/calibration.py` has.

opql index ../shared/data/metaqa/passages.jsonl --out films.kb
python benchmarks/calibration.py --kb films.kb --json
python benchmarks/calibration.py --kb musique.kb --questions ../shared/data/multihop/musique_questions.jsonl --json

Questions are drawn by chance of MetaQA's development questions of one and two hops, without brackets, or are those of a file
`{"question", "answer", "aliases"}`, or `{"question", "answers"}`, a line. Only those that mention a name of the text are answered at all.

The line `fit` has the numbers that all of these questions give. The lines `calibration` have the expected calibration error (10 bins) of the
best answer's share of the weight, of its probability, of one that is fitted to the other half of the questions, and, as `of chance`, the error
that questions have on average which come true with just these probabilities.

The line `unsure` asks questions again while every passage is left out that says a right answer of what leads there, and asks of people in the
questions what texts on films do not say. Rejected are answers that are not `is_sure`: of right ones and of those of left-out passages.
"""

import argparse
import collections
import contextlib
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from unittest import mock

import numpy as np
import scipy.optimize
from command_line import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.questions import Question
from opql_jax.kb import calibration
from opql_jax.kb.text_answerer import TOPICS, Path

# Of the coefficients, but for the bias: standardised, a penalty on their squares.
DECAY = 1e-3
BINS = 10
TOGETHER = 64
UNSTATED = (
    'When did {} die?',
    'Who did {} marry?',
    'Where did {} study?',
    'Which football club does {} support?',
    'What is the shoe size of {}?',
)


class Asked(NamedTuple):
    """A question that names something of the text, the names of its right answers, folded, and its number of hops, 0 if not known."""

    question: Question
    right: frozenset[str]
    hops: int


class Best(NamedTuple):
    """The best answer to a question: its share of the weight, how well the facts fit, its probability, and whether it is right."""

    share: float
    fit: float
    probability: float
    is_right: bool


def main() -> None:
    """Prints the lines."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', required=True, help='a knowledge base of plain text')
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/metaqa', help='1-hop/dev.txt, 2-hop/dev.txt')
    parser.add_argument('--questions', type=pathlib.Path, help='JSON Lines; MetaQA if not given')
    parser.add_argument('--count', type=int, default=1000, help='questions, at most, of each number of hops')
    parser.add_argument(
        '--removed', type=int, default=300, help='questions, at most, that are asked again, and of unstated ones'
    )
    options = parser.parse_args()
    kb = opql_jax.open(options.kb)
    asked = list(read_asked(kb, options))
    found = [best(kb, one, paths) for one, paths in zip(asked, paths_of(kb, asked))]
    answered = [(one, answer) for one, answer in zip(asked, found) if answer]
    answers = [answer for _, answer in answered]
    coefficients = {name: round(value, 3) for name, value in fit(answers)._asdict().items()}
    show({'measure': 'fit', 'questions': len(answers), **coefficients}, options.json)
    half = len(answers) // 2
    refitted = np.concatenate([refit(answers[half:], answers[:half]), refit(answers[:half], answers[half:])])
    for hops in (*sorted({one.hops for one, _ in answered} - {0}), None):
        group = [number for number, (one, _) in enumerate(answered) if hops in (one.hops, None)]
        measured = errors([answers[number] for number in group], refitted[group])
        show({'measure': 'calibration', 'hops': hops or 'all', **measured}, options.json)
    rejected = lambda answers: [answer is None or answer.probability < calibration.SURE for answer in answers]
    sets = {
        'right': [answer for answer in answers if answer.is_right],
        'wrong': [answer for answer in answers if not answer.is_right],
        'removed': list(without_passages(kb, asked[: options.removed])),
        'unstated': list(unstated(kb, asked, options.removed)),
    }
    counts = {name: len(answers) for name, answers in sets.items()}
    shares = {f'{name}_rejected': round(float(np.mean(rejected(answers))), 3) for name, answers in sets.items() if answers}
    show({'measure': 'unsure', 'threshold': calibration.SURE, **counts, **shares}, options.json)


def read_asked(kb, options: argparse.Namespace) -> Iterator[Asked]:
    """The questions that mention a name of the text, in an order that is drawn by chance."""
    records = []
    if options.questions:
        for line in options.questions.read_text(encoding='utf-8').splitlines():
            record = json.loads(line)
            records.append((record['question'], record.get('answers') or [record['answer'], *record.get('aliases', ())], 0))
    else:
        for hops in (1, 2):
            lines = (options.data / f'{hops}-hop/dev.txt').read_text(encoding='utf-8').splitlines()
            for number in np.random.default_rng(0).permutation(len(lines))[: options.count]:
                text, answers, *_ = lines[number].split('\t')
                records.append((text.replace('[', '').replace(']', ''), answers.split('|'), hops))
    for number in np.random.default_rng(0).permutation(len(records)):
        text, answers, hops = records[number]
        with contextlib.suppress(InputError):  # it mentions none
            yield Asked(kb.question(text), frozenset(map(fold, answers)), hops)


def paths_of(kb, asked: Sequence[Asked]) -> Iterator[list[list[Path]]]:
    """What the plans of each question find."""
    for start in range(0, len(asked), TOGETHER):
        yield from kb.text_answerer.paths([one.question for one in asked[start : start + TOGETHER]])


def best(kb, asked: Asked, paths: list[list[Path]]) -> Best | None:
    """The best answer that paths give, None if they give none."""
    answer = kb.text_answerer.combine(asked.question, paths)
    if not len(answer.entities):
        return None
    is_right = fold(kb.vocab.names[answer.entities[0]]) in asked.right
    return Best(float(answer.weights[0]), kb.text_answerer.fit(paths), float(answer.probabilities[0]), is_right)


def fit(answers: Sequence[Best]) -> calibration.Coefficients:
    """The coefficients that maximise the mean log-probability of what is right and what is not, less a small penalty."""
    features = np.array([[calibration.log_odds(np.array(answer.share)), answer.fit] for answer in answers])
    mean, spread = features.mean(0), features.std(0) + 1e-6
    x = np.column_stack([np.ones(len(features)), (features - mean) / spread])
    sign = np.where([answer.is_right for answer in answers], 1, -1)

    def loss(weights):
        missed = sign / (1 + np.exp(sign * (x @ weights)))
        penalty = DECAY * np.concatenate([[0], weights[1:]])
        return np.mean(np.logaddexp(0, -sign * (x @ weights))) + penalty @ weights, 2 * penalty - missed @ x / len(x)

    bias, *weights = scipy.optimize.minimize(loss, np.zeros(x.shape[1]), jac=True, method='L-BFGS-B').x
    weights = weights / spread
    return calibration.Coefficients(float(bias - weights @ mean), *map(float, weights))


def refit(learnt_from: Sequence[Best], answers: Sequence[Best]) -> np.ndarray:
    """The probabilities of answers by a fit to others."""
    fitted = fit(learnt_from)
    return np.array([calibration.probabilities(np.array([answer.share]), answer.fit, fitted)[0] for answer in answers])


def errors(answers: Sequence[Best], refitted: np.ndarray) -> dict:
    """The calibration errors over the answers to some questions: of shares, probabilities and those of another fit."""
    right = np.array([answer.is_right for answer in answers])
    shares, probabilities = (np.array([getattr(answer, name) for answer in answers]) for name in ('share', 'probability'))
    rng = np.random.default_rng(0)
    chance = [calibration_error(probabilities, rng.random(len(right)) < probabilities) for _ in range(100)]
    measured = {
        'hits@1': right.mean(),
        'ece_of_shares': calibration_error(shares, right),
        'ece': calibration_error(probabilities, right),
        'ece_of_refit': calibration_error(refitted, right),
        'ece_of_chance': np.mean(chance),
    }
    return {'questions': len(answers), **{name: round(float(value), 4) for name, value in measured.items()}}


def calibration_error(probabilities: np.ndarray, right: np.ndarray) -> float:
    """The expected calibration error: how far the share of right answers is from their mean probability, on average over equal bins."""
    bins = np.minimum((probabilities * BINS).astype(int), BINS - 1)
    gaps = [abs((right[bins == number] - probabilities[bins == number]).sum()) for number in range(BINS)]
    return float(sum(gaps)) / len(right)


class Part:
    """A memory without the entries that were read in some passages, as far as `TextAnswerer` looks at it."""

    def __init__(self, memory, passages: np.ndarray, without: np.ndarray):
        self._memory, self._kept = memory, np.flatnonzero(~np.isin(passages, without))
        self.offsets = np.searchsorted(self._kept, memory.offsets)
        self.topic, self.target, self.ids = (column[self._kept] for column in (memory.topic, memory.target, memory.ids))

    def relations(self, rows: np.ndarray) -> np.ndarray:
        return self._memory.relations(self._kept[rows])

    def mentions(self, rows: np.ndarray) -> dict:
        return self._memory.mentions(self._kept[rows])


def without_passages(kb, asked: Sequence[Asked]) -> Iterator[Best | None]:
    """The best answers to questions while no passage is there that says a right answer of a topic, or of what is found on the way."""
    entities = collections.defaultdict(list)
    for entity, (name, aliases) in enumerate(zip(kb.vocab.names, kb.vocab.aliases)):
        for spelling in {fold(spelling) for spelling in (name, *aliases)}:
            entities[spelling].append(entity)
    memory = kb.memory
    passages = memory.mentions(np.arange(len(memory)))['passage']
    for one, paths in zip(asked, paths_of(kb, asked)):
        right = [entity for name in one.right for entity in entities[name]]
        hops = [hop for of_topic in paths for path in of_topic for hop in path.hops[:-1]]
        lead = np.unique(np.concatenate([one.question.entities, *(hop.entities[:TOPICS] for hop in hops)])).astype(np.int64)
        rows = np.concatenate([np.arange(*memory.offsets[entity : entity + 2]) for entity in lead if entity >= 0])
        rows = rows[np.isin(memory.target[rows], right)]
        if len(rows):
            with mock.patch.object(kb.text_answerer, '_memory', Part(memory, passages, passages[rows])):
                (paths,) = paths_of(kb, [one])
                yield best(kb, one, paths)


def unstated(kb, asked: Sequence[Asked], most: int) -> Iterator[Best | None]:
    """The best answers to questions on people that texts on films do not answer."""
    people = {entity for one in asked for entity in one.question.entities if kb.vocab.kinds[entity] == 'person'}
    for number, entity in enumerate(sorted(people)[:most]):
        template, name = UNSTATED[number % len(UNSTATED)], kb.vocab.names[entity]
        start = template.index('{}')
        one = Asked(Question('', template.format(name), ((start, start + len(name)),), (entity,)), frozenset(), 0)
        (paths,) = paths_of(kb, [one])
        yield best(kb, one, paths)


if __name__ == '__main__':
    main()
