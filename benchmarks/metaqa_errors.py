"""Why answers to MetaQA's questions are wrong, and how many the text states at all.

python -m opql_jax.recipes run metaqa/opql
python benchmarks/metaqa_errors.py --kb runs/metaqa --row opql --json

`any_path` is the ceiling of RESULTS.md: entries lead from the topic to an answer, whatever they say. `stated` asks more: at each hop the
knowledge base gives the pair of the entry the relation that is asked for, and no hop leads back to the topic, as no path of the model does. Its
share of right answers is `right_of_stated`; answers that are right without, mostly a language that many films share, are
`right_unstated`. The wrong answers are counted by the first of these that holds:

    no path         no entries lead to an answer
    not stated      entries do, but not by the relations asked for
    tags            tags are asked for, or the films of one: of many names and words the knowledge base has chosen a few
    shared title    the knowledge base gives the answer the relation asked for, but to another film of the same title
    genre           genres are asked for: the text may name several, and the knowledge base only some of them
    other           the rest
"""

import collections
import pathlib
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from command_line import make_parser, show

from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.triples import read_triples

# The knowledge base's relation between a film and what MetaQA's types of questions call by this name.
RELATIONS = {
    'actor': 'starred actors',
    'director': 'directed by',
    'writer': 'written by',
    'year': 'release year',
    'genre': 'has genre',
    'language': 'in language',
    'tags': 'has tags',
    'tag': 'has tags',
    'imdbrating': 'has imdb rating',
    'imdbvotes': 'has imdb votes',
}


Targets: TypeAlias = Mapping[int, set[int]]
Facts: TypeAlias = Mapping[tuple[int, str, bool], set[int]]


class Outcome(NamedTuple):
    """What became of a question.

    Attributes:
        group: 'right', or the group of its wrong answer.
        stated: whether entries with the relations asked for lead to an answer.
    """

    group: str
    stated: bool


def main() -> None:
    """Prints a line for each number of hops."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', type=pathlib.Path, default='runs/metaqa', help='the folder of the recipe')
    parser.add_argument('--row', default='opql', help='whose answers are read')
    parser.add_argument('--text', default='text', help='what its memory was built from: for fae-kb text-fae-kb')
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/metaqa', help='kb.txt')
    options = parser.parse_args()
    prepared = Prepared(options.kb / options.text)
    targets, facts = _targets(prepared), _facts(prepared, options.data / 'kb.txt')
    for hops in (1, 2, 3):
        questions = prepared.questions(f'{hops}-hop/dev')
        best = _best_answers(prepared, options.kb / 'results' / options.row / f'{hops}-hop/dev.predictions.jsonl')
        outcomes = [_outcome(question, best[question.id], targets, facts) for question in questions]
        groups = collections.Counter(outcome.group for outcome in outcomes)
        stated = collections.Counter(outcome.group for outcome in outcomes if outcome.stated)
        line = {
            'hops': hops,
            'questions': len(questions),
            'any_path': 1 - groups['no path'] / len(questions),
            'stated': stated.total() / len(questions),
            'right': groups['right'] / len(questions),
            'right_of_stated': stated['right'] / stated.total() if stated else None,
            'right_unstated': groups['right'] - stated['right'],
            'wrong': {group: count for group, count in groups.most_common() if group != 'right'},
        }
        show(line, options.json)


def _targets(prepared: Prepared) -> Targets:
    """Where the entries of the memory lead from each topic."""
    targets: dict[int, set[int]] = collections.defaultdict(set)
    rows = prepared.pair_rows('title')
    for topic, target in zip(prepared.pairs['topic'][rows].tolist(), prepared.pairs['target'][rows].tolist()):
        targets[topic].add(target)
    return targets


def _facts(prepared: Prepared, path: pathlib.Path) -> Facts:
    """The other side of the triples of an entity and a relation; True where the entity is the head, a film."""
    facts: dict[tuple[int, str, bool], set[int]] = collections.defaultdict(set)
    for head, relation, tail in read_triples(path, prepared.vocab):
        facts[head, relation, True].add(tail)
        facts[tail, relation, False].add(head)
    return facts


def _best_answers(prepared: Prepared, path: pathlib.Path) -> dict[str, int | None]:
    """The id of the first answer to each question, None if there is none."""
    records = [record for _, record in read_json_lines(path)]
    return {r['id']: prepared.vocab.get(r['answers'][0]['key']) if r['answers'] else None for r in records}


def _outcome(question: Question, best: int | None, targets: Targets, facts: Facts) -> Outcome:
    """What became of a question whose first answer is `best`."""
    topic = question.topic_entity
    reached, stated, right = {topic}, {topic}, set(question.answers)
    for start, end in _steps(question):
        relation = RELATIONS[start if end == 'movie' else end]
        reached = set().union(*(targets.get(entity, ()) for entity in reached))
        related = lambda entity: facts.get((entity, relation, start == 'movie'), set()) & targets.get(entity, set())
        stated = set().union(*map(related, stated)) - {topic}
    is_stated = not stated.isdisjoint(right)
    if best in right:
        return Outcome('right', is_stated)
    if not is_stated:
        return Outcome('no path' if reached.isdisjoint(right) else 'not stated', False)
    kinds = {kind for step in _steps(question) for kind in step}
    if kinds & {'tag', 'tags'}:
        return Outcome('tags', True)
    if best in stated:
        return Outcome('shared title', True)
    return Outcome('genre' if 'genre' in kinds else 'other', True)


def _steps(question: Question) -> list[list[str]]:
    return [relation.split('_to_') for relation in question.relations]


if __name__ == '__main__':
    main()
