"""What the weights of sets are best made of: the heaviest entry or the sum of them, and what &, | and - do with two weights.

opql index ../shared/data/metaqa/passages.jsonl --out films.kb
python benchmarks/set_algebra.py --kb films.kb --json

Queries are pairs of an actor and a director of MetaQA's questions for training and development, who made a film together: the films of both, of
either, and of the actor without the director. A line is the mean average precision of one way over these queries.
"""

import collections
import pathlib
import re

import numpy as np
from command_line import make_parser, show

import opql_jax
from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.question_plans import Step
from opql_jax.kb.set_evaluation import KEPT
from opql_jax.kb.text_answerer import SCALE

RELATIONS = {'actor_to_movie': 'starred in', 'director_to_movie': 'directed'}
OPERATORS = {
    '& smaller': lambda a, b: np.minimum(a, b),
    '& product': lambda a, b: a * b,
    '| larger': lambda a, b: np.maximum(a, b),
    '| noisy-or': lambda a, b: a + b - a * b,
    '- difference': lambda a, b: a - b,
    '- product': lambda a, b: a * (1 - b),
}
COMBINED = {'&': set.intersection, '|': set.union, '-': set.difference}


def main() -> None:
    """Prints a line for each way."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', required=True, help='of the passages of MetaQA')
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/metaqa', help='1-hop/train.txt, 1-hop/dev.txt')
    parser.add_argument('--pairs', type=int, default=80, help='drawn by chance, with seed 0')
    options = parser.parse_args()
    kb = opql_jax.open(options.kb)
    films = read_films(options.data)
    pairs = pairs_of(*(films[kind] for kind in RELATIONS))
    scores = collections.defaultdict(list)
    for number in np.random.default_rng(0).permutation(len(pairs))[: options.pairs]:
        gold = [films[kind][name] for kind, name in zip(RELATIONS, pairs[number])]
        found = [entries_of(kb, name, relation) for name, relation in zip(pairs[number], RELATIONS.values())]
        if not all(found):
            continue
        for way, combine in (('heaviest', max), ('sum', sum)):
            left, right = (weigh(entries, combine) for entries in found)
            names = list(left | right)
            a, b = (np.array([weights.get(name, 0.0) for name in names]) for weights in (left, right))
            for operator, function in OPERATORS.items():
                wanted = COMBINED[operator[0]](*gold)
                scores[operator, way].append(average_precision(names, function(a, b), wanted))
    for (operator, way), values in scores.items():
        show(
            {
                'operator': operator,
                'entries': way,
                'average_precision': round(float(np.mean(values)), 3),
                'queries': len(values),
            },
            options.json,
        )


def read_films(data: pathlib.Path) -> dict[str, dict[str, set[str]]]:
    """By type of question, the films of each person."""
    films = {kind: {} for kind in RELATIONS}
    for split in ('dev', 'train'):
        for line in (data / f'1-hop/{split}.txt').read_text(encoding='utf-8').splitlines():
            question, answers, kind, *_ = line.split('\t')
            if kind in films:
                films[kind].setdefault(re.findall(r'\[(.*)\]', question)[0], set(map(fold, answers.split('|'))))
    return films


def pairs_of(of_actor: dict[str, set[str]], of_director: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Actors and directors who made a film together, where the actor made at least two without the director."""
    directors = collections.defaultdict(set)
    for director, films in of_director.items():
        for film in films:
            directors[film].add(director)
    pairs = {(actor, director) for actor, films in of_actor.items() for film in films for director in directors[film]}
    return sorted((actor, director) for actor, director in pairs if len(of_actor[actor] - of_director[director]) > 1)


def entries_of(kb, name: str, relation: str) -> dict[str, list[float]]:
    """The masses of the entries that lead to each entity by a relation."""
    masses = collections.defaultdict(list)
    for entity in kb.linker.meanings(name)[:1]:
        rows = np.arange(*kb.memory.offsets[entity : entity + 2])
        if len(rows):
            rows, scores = kb.text_answerer.best_entries(Step(f'it {relation}', (0, 2)), rows, np.zeros(len(rows)), KEPT)
            for target, score in zip(kb.memory.target[rows], scores):
                masses[fold(kb.vocab.names[target])].append(float(np.exp(SCALE * (score - scores[0]))))
    return masses


def weigh(entries: dict[str, list[float]], combine) -> dict[str, float]:
    """The weight of each entity, 1 for the best."""
    weights = {name: combine(masses) for name, masses in entries.items()}
    best = max(weights.values())
    return {name: weight / best for name, weight in weights.items()}


def average_precision(names: list[str], weights: np.ndarray, wanted: set[str]) -> float:
    """Of the entities with a weight above 0, best first."""
    order = [names[i] for i in np.argsort(-weights, kind='stable') if weights[i] > 0]
    right = [rank for rank, name in enumerate(order, 1) if name in wanted]
    return sum(number / rank for number, rank in enumerate(right, 1)) / len(wanted)


if __name__ == '__main__':
    main()
