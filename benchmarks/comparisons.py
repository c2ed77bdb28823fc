"""Questions that take more than one fact, and some that no label answers.

They are of two hops, comparisons, comparisons over a bridge, and of yes or no.

python benchmarks/comparisons.py --data ../shared/data --write questions.jsonl --texts texts.jsonl
opql index texts.jsonl --out labelled.kb
python benchmarks/comparisons.py --questions questions.jsonl --kb labelled.kb --json

The questions are made of the labels of Re-DocRED and T-REx, in the wordings of comparisons.toml,
and asked of the documents that they need, as plain text. `right` is the share of first answers that
are right, `among_five` that of questions with a right one among the five best; `sure` counts the
answers that are said to be sure, `sure_right` the right ones of these.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from timing import DATA, make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.corpus.name_resolution import fold, without_brackets

# Questions of each kind, and the most that one document is asked about in each.
COUNT, OF_A_DOCUMENT = 100, 3
SEED = 0
BORN, DIED, FOUNDED, RELEASED, CITIZEN, COUNTRY = 'P569', 'P570', 'P571', 'P577', 'P27', 'P17'
WORDINGS = tomllib.loads(pathlib.Path(__file__).with_suffix('.toml').read_text(encoding='utf-8'))
NOUNS, OF_THINGS = WORDINGS['nouns'], WORDINGS['nouns_of_things']
COUNTRY_OF = {
    name: names.split(', ')[0]
    for names in re.split('; |\n', WORDINGS['countries'].strip())
    for name in names.split(', ')
}


class Entity(NamedTuple):
    """An entity of a labelled document: what it is asked for by, all of its names, and its type."""

    name: str
    names: frozenset[str]
    type: str


class Fact(NamedTuple):
    """A label: the document, the relation, and its entities."""

    document: str
    relation: str
    head: Entity
    tail: Entity


class Known(NamedTuple):
    """An entity, the document that tells of it, and the year or country that this gives it."""

    entity: Entity
    document: str
    value: int | str


class Made(NamedTuple):
    """A question that was made: its kind, the documents that state it, and its right answers."""

    kind: str
    question: str
    answers: tuple[str, ...]
    documents: tuple[str, ...]


# With the wording of each.
Questions = Iterator[tuple[str, Made]]


def main() -> None:
    """Makes questions, or asks them and prints a line for each kind."""
    parser = make_parser(__doc__, data=DATA)
    parser.add_argument('--write', type=pathlib.Path, help='the questions that are made')
    parser.add_argument('--texts', type=pathlib.Path, help='the documents that they need')
    parser.add_argument('--questions', type=pathlib.Path, help='those that are asked')
    parser.add_argument('--kb', help='what is asked')
    options = parser.parse_args()
    if options.write:
        texts, made = make(options.data)
        write_json_lines(options.write, (one._asdict() for one in made))
        needed = {name for one in made for name in one.documents}
        write_json_lines(options.texts, (texts[name] for name in sorted(needed)))
        counts = {'questions': len(made), 'documents': len(needed)}
        show(counts | collections.Counter(one.kind for one in made), options.json)
    else:
        ask(options)


def ask(options: argparse.Namespace) -> None:
    """Asks the questions of a file, and prints what came out."""
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with opql_jax.open(options.kb) as kb:
        for _, asked in read_json_lines(options.questions):
            counts, right = kinds[asked['kind']], set(map(fold, asked['answers']))
            counts['questions'] += 1
            names, sure = [], False
            try:
                answer = kb.ask(asked['question'])
            except InputError:
                counts['refused'] += 1
            else:
                five = itertools.islice(answer, 5)
                names = [member.name for member in five if member.probability is not None]
                sure = bool(answer.is_sure)
            is_right = [_is_right(name, right) for name in names]
            counts['answered'] += bool(names)
            counts['right'] += any(is_right[:1])
            counts['among_five'] += any(is_right)
            counts['sure'] += sure
            counts['sure_right'] += sure and any(is_right[:1])
    for kind, counts in sorted(kinds.items()):
        share = lambda name, of: round(counts[name] / max(counts[of], 1), 3)
        line = {'kind': kind, **counts, 'right': share('right', 'questions')}
        line['among_five'] = share('among_five', 'questions')
        show(line | {'sure_are_right': share('sure_right', 'sure')}, options.json)


def _is_right(name: str, right: set[str]) -> bool:
    folded, years_of = fold(without_brackets(name)), lambda text: set(re.findall(r'\d{4}', text))
    # A date is right by its year, as texts have it in several places, with and without the day.
    years = years_of(folded)
    return folded in right or bool(years) and any(years == years_of(one) for one in right)


def make(data: pathlib.Path) -> tuple[dict[str, dict], list[Made]]:
    """The documents by id, and the questions, the same at each call."""
    texts: dict[str, dict] = {}
    facts: list[Fact] = []
    for found, labels in itertools.chain(
        _redocred(data / 'redocred/documents.json'), _trex(data / 'trex/documents.jsonl')
    ):
        texts[found['id']] = found
        facts += labels
    chance, made = random.Random(SEED), []
    for questions in (two_hops, comparisons, bridges, yes_or_no, unstated):
        used: collections.Counter[str] = collections.Counter()
        chosen: list[Made] = []
        candidates = list(questions(facts, chance))
        chance.shuffle(candidates)
        # Wordings in turn, so that the frequent relations do not have all of the questions.
        by_wording: dict[str, list[Made]] = collections.defaultdict(list)
        for wording, one in candidates:
            by_wording[wording].append(one)
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*by_wording.values()))
        for one in filter(None, in_turn):
            if len(chosen) < COUNT and all(used[name] < OF_A_DOCUMENT for name in one.documents):
                used.update(set(one.documents))
                chosen.append(one)
        made += chosen
    return texts, made


def two_hops(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions of two hops, of facts of one document."""
    nouns = NOUNS | OF_THINGS
    for first, seconds in _chains(facts, nouns, WORDINGS['second_hops']):
        noun, head, relation = nouns[first.relation], first.head.name, seconds[0].relation
        x = chance.choice((f'the {noun} of {head}', f"{head}'s {noun}"))
        answers = tuple(sorted({name for fact in seconds for name in fact.tail.names}))
        wording = chance.choice(WORDINGS['second_hops'][relation])
        is_odd = first.relation in OF_THINGS and relation not in (COUNTRY, FOUNDED)
        if not is_odd and fold(head) not in map(fold, answers):
            yield wording, Made('two hops', wording.format(x=x), answers, (first.document,))


def comparisons(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions that compare a date, or a country, of two."""
    by_head = _by_head(facts)
    for relation, wordings in WORDINGS['earlier'].items():
        yield from _earlier('comparison', _known(by_head, relation, _year), wordings, chance)
    for relation, same in WORDINGS['same'].items():
        yield from _same('comparison', _known(by_head, relation, _country), same, chance)


def bridges(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions that compare what one hop leads to from each of two."""
    # What two hops lead to, by where they begin.
    by_first = {
        (first.head, first.document, (first.relation, seconds[0].relation)): seconds
        for first, seconds in _chains(facts, NOUNS, (*WORDINGS['bridges'], CITIZEN))
    }
    for relation, noun in NOUNS.items():
        for last, wordings in WORDINGS['bridges'].items():
            dated = _known(by_first, (relation, last), _year)
            yield from _earlier('bridge comparison', dated, wordings, chance, noun)
        from_country = _known(by_first, (relation, CITIZEN), _country)
        yield from _same('bridge comparison', from_country, WORDINGS['bridges_same'], chance, noun)


def _earlier(kind: str, dated: list[Known], wordings, chance: random.Random, noun='') -> Questions:
    """Which of two is the earlier or the later: of one type, if it is they that are dated."""
    for one, other in _pairs(dated, chance):
        if one.value != other.value and (noun or one.entity.type == other.entity.type):
            wording, earlier = chance.choice(wordings)
            winner = (min if earlier else max)(one, other, key=lambda known: known.value)
            yield wording, _of_two(kind, wording, one, other, winner.entity.name, noun)


def _same(kind: str, known: list[Known], wordings, chance: random.Random, noun='') -> Questions:
    """Whether two are from one country."""
    for one, other in _pairs(known, chance, half_alike=True):
        wording, answer = chance.choice(wordings), 'yes' if one.value == other.value else 'no'
        yield wording, _of_two(kind, wording, one, other, answer, noun)


def _of_two(kind: str, wording: str, one: Known, other: Known, answer: str, noun: str) -> Made:
    text = wording.format(a=one.entity.name, b=other.entity.name, noun=noun)
    return Made(kind, text, (answer,), (one.document, other.document))


def yes_or_no(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions whether a fact holds: half of them name what another fact leads to."""
    by_head = _by_head(facts)
    for relation, wordings in WORDINGS['yes_or_no'].items():
        found = [
            known
            for (_, _, of), known in by_head.items()
            if of == relation and len({fact.tail for fact in known}) == 1
        ]
        years = [year for known in found if (year := _year(known))]
        for known in found:
            (fact, *_), wording, is_true = known, chance.choice(wordings), chance.random() < 0.5
            year, country = _year(known), _country(known)
            if year if '{year}' in wording else country or relation != COUNTRY:
                tail = fact.tail
                if '{year}' in wording and not is_true:
                    year = chance.choice([other for other in years if other != year])
                elif not is_true:
                    others = (other[0].tail for other in found)
                    tail = chance.choice(
                        [
                            other
                            for other in others
                            if not other.names & fact.tail.names
                            and (relation != COUNTRY or _country_of(other) not in (None, country))
                        ]
                    )
                # 'in Japan', not 'in Japanese'.
                name = str(_country_of(tail)).title() if relation == COUNTRY else tail.name
                text = wording.format(a=fact.head.name, b=name, year=year)
                answer = 'yes' if is_true else 'no'
                yield wording, Made('yes or no', text, (answer,), (fact.document,))


def unstated(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions about names of which no label states what is asked; they have no right answer."""
    labelled = (fact for fact in facts if fact.document.startswith('redocred'))
    heads = list(dict.fromkeys((fact.head, fact.document) for fact in labelled))
    stated = {(fact.head, fact.relation) for fact in facts}
    of_type = lambda kind: [one for one in heads if one[0].type == kind]
    wordings = {
        of: [text for text, _ in of_dates] for of, of_dates in WORDINGS['earlier'].items()
    } | WORDINGS['same']
    kinds = {BORN: 'PER', DIED: 'PER', CITIZEN: 'PER'}
    kinds |= {FOUNDED: 'ORG', RELEASED: 'MISC', COUNTRY: 'LOC'}
    for relation, kind in kinds.items():
        of_kind = of_type(kind)
        for one in (one for one in of_kind if (one[0], relation) not in stated):
            other, wording = chance.choice(of_kind), chance.choice(wordings[relation])
            if fold(other[0].name) != fold(one[0].name):
                first, second = chance.sample([one[0].name, other[0].name], 2)
                text = wording.format(a=first, b=second)
                yield wording, Made('unstated', text, (), (one[1], other[1]))
    for relation in ('P19', 'P57', 'P50', 'P22', 'P26'):
        named = [one.name for one, _ in of_type('LOC' if relation == 'P19' else 'PER')]
        for head, document in of_type('MISC' if relation in ('P57', 'P50') else 'PER'):
            if (head, relation) not in stated:
                wording = chance.choice(WORDINGS['yes_or_no'][relation])
                text = wording.format(a=head.name, b=chance.choice(named))
                yield wording, Made('unstated', text, (), (document,))


def _chains(facts: Sequence[Fact], firsts, seconds) -> Iterator[tuple[Fact, list[Fact]]]:
    """Facts that are alone with their head and relation, and those of one relation that follow."""
    by_head = _by_head(facts)
    for (_, document, relation), found in by_head.items():
        if relation in firsts and len({fact.tail for fact in found}) == 1:
            for last in seconds:
                if after := by_head.get((found[0].tail, document, last)):
                    yield found[0], after


def _by_head(facts: Sequence[Fact]) -> dict[tuple[Entity, str, str], list[Fact]]:
    by_head: dict[tuple[Entity, str, str], list[Fact]] = collections.defaultdict(list)
    for fact in facts:
        by_head[fact.head, fact.document, fact.relation].append(fact)
    return by_head


def _known(by_head: dict, relation, value_of) -> list[Known]:
    """What has a value by its facts of a relation; keys are entities, documents and relations."""
    return [
        Known(head, document, value)
        for (head, document, of), found in by_head.items()
        if of == relation and (value := value_of(found))
    ]


def _pairs(known: list[Known], chance: random.Random, half_alike: bool = False):
    """Pairs of different names, each with a random other; if wanted, half of them of one value."""
    folded = [fold(one.entity.name) for one in known]
    for place, one in enumerate(known):
        others = [other for other, name in zip(known, folded) if name != folded[place]]
        if half_alike and place % 2:
            others = [other for other in others if other.value == one.value]
        if others:
            yield one, chance.choice(others)


def _year(found: Sequence[Fact]) -> int | None:
    """The year that all facts give, if it is one."""
    names = ' '.join(name for fact in found for name in fact.tail.names)
    years = set(re.findall(r'\b[12]\d{3}\b', names))
    return int(years.pop()) if len(years) == 1 else None


def _country(found: Sequence[Fact]) -> str | None:
    countries = {_country_of(fact.tail) for fact in found}
    return countries.pop() if len(countries) == 1 else None


def _country_of(entity: Entity) -> str | None:
    folded = map(fold, sorted(entity.names))
    return next((COUNTRY_OF[name] for name in folded if name in COUNTRY_OF), None)


def _entity(names: Sequence[str], kind: str) -> Entity | None:
    """An entity of its mentions; None if none of these is a name that a question may have."""
    proper = [
        name for name in names if re.fullmatch(r"[^\W_a-z][\w .'’&:,-]*", name) and len(name) > 3
    ]
    if kind == 'PER':
        proper = [name for name in proper if ' ' in name]
    if kind in ('TIME', 'NUM'):
        proper = list(names)
    name = max(proper, key=len, default=None)
    return Entity(name, frozenset(names), kind) if name else None


_NO_SPACE_BEFORE = re.compile(r" (?=[,.;:!?)\]%’]|'s\b|n't\b)|(?<=[(\[$£]) ")


def _redocred(path: pathlib.Path) -> Iterator[tuple[dict, list[Fact]]]:
    for number, document in enumerate(json.loads(path.read_text())):
        joined = lambda tokens: _quoted(_NO_SPACE_BEFORE.sub('', ' '.join(tokens)))
        entities = []
        for mentions in document['vertexSet']:
            names = [_quoted(_NO_SPACE_BEFORE.sub('', mention['name'])) for mention in mentions]
            entities.append(_entity(names, mentions[0]['type']))
        name = f'redocred-{number}'
        facts = [
            Fact(name, label['r'], head, tail)
            for label in document['labels']
            if (head := entities[label['h']]) and (tail := entities[label['t']])
        ]
        text = ' '.join(map(joined, document['sents']))
        yield {'id': name, 'title': document['title'], 'text': text}, facts


def _quoted(text: str) -> str:
    return re.sub(r'" ([^"]*) "', r'"\1"', text)


def _trex(path: pathlib.Path) -> Iterator[tuple[dict, list[Fact]]]:
    for _, document in read_json_lines(path):
        names: dict[str, set[str]] = collections.defaultdict(set)
        for entity in document['entities']:
            names[entity['uri']].add(entity['surfaceform'])
        names[document['uri']] = {without_brackets(document['title'])}
        entities = {uri: _entity(sorted(found), 'THING') for uri, found in names.items()}
        name = f'trex-{document["docid"]}'
        facts = []
        for triple in document['triples']:
            head, tail = (entities.get(triple[role]['uri']) for role in ('subject', 'object'))
            if '^^' in triple['object']['uri']:
                time = triple['object']['surfaceform']
                tail = Entity(time, frozenset([time]), 'TIME')
            if head and tail:
                facts.append(Fact(name, triple['predicate']['uri'], head, tail))
        yield {'id': name, 'title': document['title'], 'text': document['text']}, facts


if __name__ == '__main__':
    main()
