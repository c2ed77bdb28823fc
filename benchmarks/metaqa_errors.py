"""Why answers to MetaQA's questions are wrong, and how many the text states at all.

python -m opql_jax.recipes run metaqa/opql
python benchmarks/metaqa_errors.py --kb runs/metaqa --row opql --json

`any_path` is the ceiling of RESULTS.md: entries lead from the topic to an answer, whatever they say. `stated` asks more: at each hop the
knowledge base gives the pair of the entry the relation that is asked for. What the text says and the knowledge base does not is
not counted there, so a few right answers are not `stated`. Of each wrong answer the first cause that holds is counted:

    no path         no entries lead to an answer
    not stated      entries do, but not by the relations asked for
    tags            tags are asked for, or the films of one: of many names and words the knowledge base has chosen a few
    shared title    several films have the title that is asked about, and the question is about one
    genre           the text may name several, and the knowledge base only some of them
    other           the rest
"""

import collections
import pathlib
from collections.abc import Iterator, Mapping

from command_line import make_parser, show

from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.triples import read_triples

# The relation of the triple that a type of question names by what it leads from a film to, or from there to a film.
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


def main() -> None:
    """Prints a line for each number of hops."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', type=pathlib.Path, default='runs/metaqa', help='the folder of the recipe')
    parser.add_argument('--row', default='opql', help='whose answers are read')
    parser.add_argument('--data', type=pathlib.Path, default='../shared/data/metaqa', help='kb.txt')
    options = parser.parse_args()
    prepared = Prepared(options.kb / 'text')
    # A film is a document, and may be cut into several passages.
    titles = dict(zip(*(prepared.passages[column].to_pylist() for column in ('doc_id', 'title_entity'))))
    films = collections.Counter(titles.values())
    targets, facts = _targets(prepared), _facts(prepared, options.data / 'kb.txt')
    for hops in (1, 2, 3):
        questions = prepared.questions(f'{hops}-hop/dev')
        answers = _best_answers(prepared, options.kb / 'results' / options.row / f'{hops}-hop/dev.predictions.jsonl')
        rows = [(q, answers[q.id] in q.answers, *_leads(q, targets, facts)) for q in questions]
        stated = [right for _, right, _, stated in rows if stated]
        causes = collections.Counter(_cause(q, any_path, stated, films) for q, right, any_path, stated in rows if not right)
        line = {
            'hops': hops,
            'questions': len(rows),
            'any_path': sum(any_path for *_, any_path, _ in rows) / len(rows),
            'stated': len(stated) / len(rows),
            'right': sum(right for _, right, *_ in rows) / len(rows),
            'right_of_stated': sum(stated) / len(stated) if stated else None,
            'wrong': dict(causes.most_common()),
        }
        show(line, options.json)


def _targets(prepared: Prepared) -> Mapping[int, set[int]]:
    """Where the entries of the memory lead from each topic."""
    targets: dict[int, set[int]] = collections.defaultdict(set)
    rows = prepared.pair_rows('title')
    for topic, target in zip(prepared.pairs['topic'][rows].tolist(), prepared.pairs['target'][rows].tolist()):
        targets[topic].add(target)
    return targets


def _facts(prepared: Prepared, path: pathlib.Path) -> Mapping[tuple[int, str, bool], set[int]]:
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


def _leads(question: Question, targets, facts) -> tuple[bool, bool]:
    """Whether entries lead to an answer, and whether they do by the relations that are asked for."""
    reached, stated = {question.topic_entity}, {question.topic_entity}
    for start, end in _steps(question):
        relation = RELATIONS[start if end == 'movie' else end]
        reached = set().union(*(targets.get(entity, ()) for entity in reached))
        stated = {
            entity
            for topic in stated
            for entity in facts.get((topic, relation, start == 'movie'), set()) & targets.get(topic, set())
        }
    return not reached.isdisjoint(question.answers), not stated.isdisjoint(question.answers)


def _steps(question: Question) -> Iterator[list[str]]:
    return (relation.split('_to_') for relation in question.relations)


def _cause(question: Question, any_path: bool, stated: bool, films: Mapping[int, int]) -> str:
    if not any_path:
        return 'no path'
    if not stated:
        return 'not stated'
    kinds = {kind for step in _steps(question) for kind in step}
    if kinds & {'tag', 'tags'}:
        return 'tags'
    if question.relations[0].startswith('movie_') and films[question.topic_entity] > 1:
        return 'shared title'
    return 'genre' if 'genre' in kinds else 'other'


if __name__ == '__main__':
    main()
