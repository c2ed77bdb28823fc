"""Questions that take more than one fact, and some that no label answers.

They are of two hops, comparisons, comparisons over a bridge, and of yes or no.

python benchmarks/comparisons.py --data ../shared/data --write questions.jsonl --texts texts.jsonl
opql index texts.jsonl --out labelled.kb
python benchmarks/comparisons.py --questions questions.jsonl --kb labelled.kb --json

The questions are made of the labels of Re-DocRED and T-REx, in the wordings below, and asked over
the documents that they need, as plain text. `right` is the share of first answers that are right,
`among_five` that of questions with a right one among the five best; `sure` are the answers of which
that is said, `sure_right` those of them that are right. --show prints questions with what was
answered.
"""

import argparse
import collections
import itertools
import json
import pathlib
import random
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from command_line import make_parser, show

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.corpus.name_resolution import fold, without_brackets

# Questions of each kind, and the most that one document is asked about in each.
COUNT, OF_A_DOCUMENT = 100, 3
SEED = 0
NOUNS = {
    'P57': 'director',
    'P50': 'author',
    'P86': 'composer',
    'P175': 'performer',
    'P22': 'father',
    'P26': 'spouse',
}
OF_THINGS = {
    'P264': 'record label',
    'P127': 'owner',
    'P178': 'developer',
    'P176': 'manufacturer',
    'P749': 'parent organisation',
}
BORN, DIED, FOUNDED, RELEASED, CITIZEN, COUNTRY = 'P569', 'P570', 'P571', 'P577', 'P27', 'P17'
# Of two hops, where {x} stands for what the first finds.
SECOND_HOPS = {
    'P19': ('Where was {x} born?', 'What is the birthplace of {x}?'),
    BORN: ('When was {x} born?', 'What is the date of birth of {x}?'),
    DIED: ('When did {x} die?',),
    'P20': ('Where did {x} die?',),
    CITIZEN: ('What country is {x} from?', 'What is the nationality of {x}?'),
    COUNTRY: ('In which country is {x} located?',),
    FOUNDED: ('When was {x} founded?',),
    'P69': ('Where did {x} study?',),
    'P22': ('Who is the father of {x}?',),
    'P26': ('Who was {x} married to?',),
}
# Of two, by relation: wordings, and whether the earlier is asked for.
EARLIER = {
    BORN: (
        ('Who was born first, {a} or {b}?', True),
        ('Who is older, {a} or {b}?', True),
        ('Who was born later, {a} or {b}?', False),
        ('Which of the two is younger, {a} or {b}?', False),
        ('Was {a} or {b} born first?', True),
    ),
    DIED: (
        ('Who died first, {a} or {b}?', True),
        ('Did {a} or {b} die first?', True),
        ('Who died later, {a} or {b}?', False),
    ),
    FOUNDED: (
        ('Which was founded first, {a} or {b}?', True),
        ('Which is older, {a} or {b}?', True),
        ('Was {a} or {b} established earlier?', True),
    ),
    RELEASED: (
        ('Which came out first, {a} or {b}?', True),
        ('Which was released earlier, {a} or {b}?', True),
        ('Which was released more recently, {a} or {b}?', False),
    ),
}
SAME = {
    CITIZEN: (
        'Are {a} and {b} from the same country?',
        'Do {a} and {b} have the same nationality?',
    ),
    COUNTRY: (
        'Are {a} and {b} located in the same country?',
        'Are both {a} and {b} in the same country?',
    ),
}
BRIDGES = {
    BORN: (
        ('Which has the {noun} who was born earlier, {a} or {b}?', True),
        ("Whose {noun} was born first, {a}'s or {b}'s?", True),
        ('Which has the older {noun}, {a} or {b}?', True),
        ('Which has the {noun} born later, {a} or {b}?', False),
    ),
    DIED: (
        ('Which has the {noun} who died first, {a} or {b}?', True),
        ('Which has the {noun} who died later, {a} or {b}?', False),
    ),
}
BRIDGES_SAME = (
    'Do {a} and {b} have {noun}s from the same country?',
    'Are the {noun} of {a} and the {noun} of {b} from the same country?',
    'Do both {a} and {b} have {noun}s of the same nationality?',
)
YES_OR_NO = {
    'P19': ('Was {a} born in {b}?',),
    BORN: ('Was {a} born in {year}?',),
    DIED: ('Did {a} die in {year}?',),
    'P57': ('Was {a} directed by {b}?', 'Did {b} direct {a}?', 'Is {b} the director of {a}?'),
    'P50': ('Was {a} written by {b}?', 'Did {b} write {a}?', 'Is {b} the author of {a}?'),
    'P86': ('Did {b} compose {a}?',),
    'P22': ('Is {b} the father of {a}?',),
    'P26': ('Was {a} married to {b}?',),
    COUNTRY: ('Is {a} located in {b}?', 'Is {a} in {b}?'),
}
COUNTRIES = {
    'united states': 'us usa u s u s a america american united states of america',
    'united kingdom': 'uk u k britain british great britain',
    'england': 'english',
    'scotland': 'scottish',
    'france': 'french',
    'germany': 'german',
    'italy': 'italian',
    'spain': 'spanish',
    'canada': 'canadian',
    'australia': 'australian',
    'india': 'indian',
    'japan': 'japanese',
    'china': 'chinese',
    'russia': 'russian',
    'sweden': 'swedish',
    'norway': 'norwegian',
    'denmark': 'danish',
    'poland': 'polish',
    'ireland': 'irish',
    'israel': 'israeli',
    'brazil': 'brazilian',
    'mexico': 'mexican',
    'turkey': 'turkish',
    'austria': 'austrian',
    'finland': 'finnish',
    'netherlands': 'dutch',
    'hungary': 'hungarian',
    'greece': 'greek',
    'iran': 'iranian',
    'pakistan': 'pakistani',
    'south africa': 'south african',
    'new zealand': '',
    'philippines': 'filipino',
    'indonesia': 'indonesian',
    'switzerland': 'swiss',
    'belgium': 'belgian',
    'portugal': 'portuguese',
}
COUNTRY_OF = {
    name: country
    for country, names in COUNTRIES.items()
    for name in (country, *re.findall(r'[a-z]+', names))
} | {
    name: country
    for country in COUNTRIES
    for name in ('united states of america', 'great britain', 'south african', 'u s', 'u k')
    if name in COUNTRIES[country]
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


class Made(NamedTuple):
    """A question that was made: its kind, the documents that state it, and its right answers."""

    kind: str
    question: str
    answers: tuple[str, ...]
    documents: tuple[str, ...]


def main() -> None:
    """Makes questions, or asks them and prints a line for each kind."""
    parser = make_parser(__doc__)
    parser.add_argument(
        '--data',
        type=pathlib.Path,
        default='../shared/data',
        help='redocred/documents.json, trex/documents.jsonl',
    )
    parser.add_argument('--write', type=pathlib.Path, help='the questions that are made')
    parser.add_argument('--texts', type=pathlib.Path, help='the documents that they need')
    parser.add_argument('--questions', type=pathlib.Path, help='those that are asked')
    parser.add_argument('--kb', help='what is asked')
    parser.add_argument(
        '--show',
        type=int,
        default=0,
        help='questions of each kind that are printed with their answers',
    )
    options = parser.parse_args()
    if options.write:
        texts, made = make(options.data)
        write_json_lines(options.write, (one._asdict() for one in made))
        needed = {name for one in made for name in one.documents}
        write_json_lines(options.texts, (texts[name] for name in sorted(needed)))
        show(
            {
                'questions': len(made),
                'documents': len(needed),
                **collections.Counter(one.kind for one in made),
            },
            options.json,
        )
    else:
        ask(options)


def ask(options: argparse.Namespace) -> None:
    """Asks the questions of a file, and prints what came out."""
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    shown: collections.Counter[str] = collections.Counter()
    with opql_jax.open(options.kb) as kb:
        for _, asked in read_json_lines(options.questions):
            counts, right = kinds[asked['kind']], set(map(fold, asked['answers']))
            counts['questions'] += 1
            names, sure, probability = [], False, None
            try:
                answer = kb.ask(asked['question'])
            except InputError:
                counts['refused'] += 1
            else:
                best = [
                    member
                    for member in itertools.islice(answer, 5)
                    if member.probability is not None
                ]
                names, sure = [member.name for member in best], bool(answer.is_sure)
                probability = best[0].probability if best else None
            is_right = [_is_right(name, right) for name in names]
            counts['answered'] += bool(names)
            counts['right'] += any(is_right[:1])
            counts['among_five'] += any(is_right)
            counts['sure'] += sure
            counts['sure_right'] += sure and any(is_right[:1])
            if shown[asked['kind']] < options.show:
                shown[asked['kind']] += 1
                verdict = 'right' if any(is_right[:1]) else 'wrong'
                print(
                    f'{verdict}{" sure" if sure else ""} {probability}\t{asked["question"]}\n'
                    f'    {names}  expected {asked["answers"][:3]}'
                )
    for kind, counts in sorted(kinds.items()):
        count = counts['questions']
        shares = {name: round(counts[name] / count, 3) for name in ('right', 'among_five')}
        show(
            {
                'kind': kind,
                **counts,
                **shares,
                'sure_are_right': round(counts['sure_right'] / max(counts['sure'], 1), 3),
            },
            options.json,
        )


def _is_right(name: str, right: set[str]) -> bool:
    folded = fold(without_brackets(name))
    years = set(re.findall(r'\d{4}', folded))
    # A date is right by its year, as texts have it in several places, with and without the day.
    return (
        folded in right
        or bool(years)
        and any(years == set(re.findall(r'\d{4}', one)) for one in right)
    )


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
        for one in filter(
            None, itertools.chain.from_iterable(itertools.zip_longest(*by_wording.values()))
        ):
            if len(chosen) < COUNT and all(used[name] < OF_A_DOCUMENT for name in one.documents):
                used.update(set(one.documents))
                chosen.append(one)
        made += chosen
    return texts, made


def two_hops(facts: Sequence[Fact], chance: random.Random) -> Iterator[tuple[str, Made]]:
    """Questions of two hops, of facts of one document."""
    for first, seconds in _chains(facts, NOUNS | OF_THINGS, SECOND_HOPS):
        noun = (NOUNS | OF_THINGS)[first.relation]
        relation = seconds[0].relation
        x = chance.choice((f'the {noun} of {first.head.name}', f"{first.head.name}'s {noun}"))
        answers = tuple(sorted({name for fact in seconds for name in fact.tail.names}))
        wording = chance.choice(SECOND_HOPS[relation])
        if (
            first.relation in OF_THINGS
            and relation not in (COUNTRY, FOUNDED)
            or fold(first.head.name) in map(fold, answers)
        ):
            continue
        yield wording, Made('two hops', wording.format(x=x), answers, (first.document,))


def comparisons(facts: Sequence[Fact], chance: random.Random) -> Iterator[tuple[str, Made]]:
    """Questions that compare a date, or a country, of two."""
    by_head = _by_head(facts)
    for relation, wordings in EARLIER.items():
        dated = [
            (head, document, year)
            for (head, document, of), found in by_head.items()
            if of == relation and (year := _year(found))
        ]
        for one, other in _pairs(dated, chance):
            if one[2] != other[2] and one[0].type == other[0].type:
                wording, earlier = chance.choice(wordings)
                winner = min(one, other, key=lambda known: known[2] if earlier else -known[2])[0]
                yield (
                    wording,
                    Made(
                        'comparison',
                        wording.format(a=one[0].name, b=other[0].name),
                        (winner.name,),
                        (one[1], other[1]),
                    ),
                )
    for relation, same in SAME.items():
        known = [
            (head, document, c)
            for (head, document, of), found in by_head.items()
            if of == relation and (c := _country(found))
        ]
        for one, other in _pairs(known, chance, alike=lambda known: known[2]):
            wording = chance.choice(same)
            yes = 'yes' if one[2] == other[2] else 'no'
            yield (
                wording,
                Made(
                    'comparison',
                    wording.format(a=one[0].name, b=other[0].name),
                    (yes,),
                    (one[1], other[1]),
                ),
            )


def bridges(facts: Sequence[Fact], chance: random.Random) -> Iterator[tuple[str, Made]]:
    """Questions that compare what one hop leads to from each of two."""
    chains = list(_chains(facts, NOUNS, (*BRIDGES, CITIZEN)))
    for relation, noun in NOUNS.items():
        for last, wordings in BRIDGES.items():
            dated = [
                (first.head, first.document, year)
                for first, seconds in chains
                if first.relation == relation
                and seconds[0].relation == last
                and (year := _year(seconds))
            ]
            for one, other in _pairs(dated, chance):
                if one[2] != other[2]:
                    wording, earlier = chance.choice(wordings)
                    winner = min(one, other, key=lambda known: known[2] if earlier else -known[2])[
                        0
                    ]
                    text = wording.format(noun=noun, a=one[0].name, b=other[0].name)
                    yield (
                        wording,
                        Made('bridge comparison', text, (winner.name,), (one[1], other[1])),
                    )
        known = [
            (first.head, first.document, country)
            for first, seconds in chains
            if first.relation == relation
            and seconds[0].relation == CITIZEN
            and (country := _country(seconds))
        ]
        for one, other in _pairs(known, chance, alike=lambda known: known[2]):
            wording = chance.choice(BRIDGES_SAME)
            text = wording.format(noun=noun, a=one[0].name, b=other[0].name)
            yield (
                wording,
                Made(
                    'bridge comparison',
                    text,
                    ('yes' if one[2] == other[2] else 'no',),
                    (one[1], other[1]),
                ),
            )


def yes_or_no(facts: Sequence[Fact], chance: random.Random) -> Iterator[tuple[str, Made]]:
    """Questions whether a fact holds: half of them name what another fact leads to."""
    by_head = _by_head(facts)
    for relation, wordings in YES_OR_NO.items():
        found = [
            known
            for (_, _, of), known in by_head.items()
            if of == relation and len({fact.tail for fact in known}) == 1
        ]
        years = [year for known in found if (year := _year(known))]
        for known in found:
            (fact, *_), wording, is_true = known, chance.choice(wordings), chance.random() < 0.5
            if '{year}' in wording:
                if not (true := _year(known)):
                    continue
                year = true if is_true else chance.choice([year for year in years if year != true])
                text = wording.format(a=fact.head.name, year=year)
            else:
                others = [
                    other[0].tail for other in found if not other[0].tail.names & fact.tail.names
                ]
                if relation == COUNTRY:
                    others = [
                        other
                        for other in others
                        if _country_of(other) not in (None, _country(known))
                    ]
                    if not _country(known):
                        continue
                other = fact.tail if is_true else chance.choice(others)
                # 'in Japan', not 'in Japanese'.
                name = str(_country_of(other)).title() if relation == COUNTRY else other.name
                text = wording.format(a=fact.head.name, b=name)
            yield wording, Made('yes or no', text, ('yes' if is_true else 'no',), (fact.document,))


def unstated(facts: Sequence[Fact], chance: random.Random) -> Iterator[tuple[str, Made]]:
    """Questions about names of which no label states what is asked; they have no right answer."""
    heads = list(
        dict.fromkeys(
            (fact.head, fact.document) for fact in facts if fact.document.startswith('redocred')
        )
    )
    stated = {(fact.head, fact.relation) for fact in facts}
    wordings = {of: [text for text, _ in of_dates] for of, of_dates in EARLIER.items()} | SAME
    for relation, kind in {
        BORN: 'PER',
        DIED: 'PER',
        CITIZEN: 'PER',
        FOUNDED: 'ORG',
        RELEASED: 'MISC',
        COUNTRY: 'LOC',
    }.items():
        of_kind = [one for one in heads if one[0].type == kind]
        for one in (one for one in of_kind if (one[0], relation) not in stated):
            other, wording = chance.choice(of_kind), chance.choice(wordings[relation])
            if fold(other[0].name) != fold(one[0].name):
                both = chance.sample([one, other], 2)
                text = wording.format(a=both[0][0].name, b=both[1][0].name)
                yield wording, Made('unstated', text, (), (one[1], other[1]))
    for relation in ('P19', 'P57', 'P50', 'P22', 'P26'):
        of_kind = [
            one for one in heads if one[0].type == ('MISC' if relation in ('P57', 'P50') else 'PER')
        ]
        named = [
            one[0].name for one in heads if one[0].type == ('LOC' if relation == 'P19' else 'PER')
        ]
        for one in (one for one in of_kind if (one[0], relation) not in stated):
            wording = chance.choice(YES_OR_NO[relation])
            yield (
                wording,
                Made(
                    'unstated', wording.format(a=one[0].name, b=chance.choice(named)), (), (one[1],)
                ),
            )


def _chains(facts: Sequence[Fact], firsts, seconds) -> Iterator[tuple[Fact, list[Fact]]]:
    """Facts that are the only one of their head and relation.

    Each comes with those of one relation that go on from there.
    """
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


def _pairs(known: list, chance: random.Random, alike=None) -> Iterator[tuple]:
    """Pairs of other names, each in at most two; half of them alike, if that is told."""
    for place, one in enumerate(known):
        others = [other for other in known if fold(other[0].name) != fold(one[0].name)]
        if alike and place % 2:
            others = [other for other in others if alike(other) == alike(one)]
        if others:
            yield one, chance.choice(others)


def _year(found: Sequence[Fact]) -> int | None:
    """The year of which all facts are, if there is one."""
    years = {
        year
        for fact in found
        for name in fact.tail.names
        for year in re.findall(r'\b[12]\d{3}\b', name)
    }
    return int(years.pop()) if len(years) == 1 else None


def _country(found: Sequence[Fact]) -> str | None:
    countries = {_country_of(fact.tail) for fact in found}
    return countries.pop() if len(countries) == 1 else None


def _country_of(entity: Entity) -> str | None:
    return next(
        (COUNTRY_OF[fold(name)] for name in sorted(entity.names) if fold(name) in COUNTRY_OF), None
    )


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
                tail = Entity(
                    triple['object']['surfaceform'],
                    frozenset([triple['object']['surfaceform']]),
                    'TIME',
                )
            if head and tail:
                facts.append(Fact(name, triple['predicate']['uri'], head, tail))
        yield {'id': name, 'title': document['title'], 'text': document['text']}, facts


if __name__ == '__main__':
    main()
