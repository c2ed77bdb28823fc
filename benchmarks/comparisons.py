"""Questions that take more than one fact, and some that no label answers.

They are of two hops, comparisons, comparisons over a bridge, and of yes or no.

python benchmarks/comparisons.py make --questions questions.jsonl --texts texts.jsonl
opql index texts.jsonl --out labelled.kb
python benchmarks/comparisons.py ask --questions questions.jsonl --kb labelled.kb --json

The questions are made of the labels of Re-DocRED and T-REx, in the wordings of comparisons.toml,
and asked of the documents that they need, as plain text. `right` is the share of first answers that
are right, `among_five` that of questions with a right one among the five best; `sure` counts the
answers that are said to be sure, `sure_right` the right ones of these.
"""

import argparse
import collections
import functools
import itertools
import json
import pathlib
import random
import re
import tomllib
from collections.abc import Iterator, Sequence

from timing import DATA, run

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import read_json_lines, write_json_lines
from opql_jax.corpus.name_resolution import fold, without_brackets

# Questions of each kind, and the most that one document is asked about in each.
COUNT, OF_A_DOCUMENT = 100, 3
SEED = 0
WORDINGS = tomllib.loads(pathlib.Path(__file__).with_suffix('.toml').read_text(encoding='utf-8'))
# What the first hop leads to: people and things.
NOUNS = dict(P57='director', P50='author', P86='composer', P175='performer', P22='father')
NOUNS['P26'] = 'spouse'
OF_THINGS = dict(P264='record label', P127='owner', P178='developer', P176='manufacturer')
OF_THINGS['P749'] = 'parent organisation'
FOUNDED, COUNTRY, BRIDGE = 'P571', 'P17', 'bridge comparison'
# The type of entities that no label says it of, by the relation.
OF_TYPE = dict(P569='PER', P570='PER', P27='PER', P571='ORG', P577='MISC', P17='LOC')
COUNTRY_OF = {
    name: names.split(', ')[0]
    for names in re.split('; |\n', WORDINGS['countries'].strip())
    for name in names.split(', ')
}


# An entity of a labelled document: what it is asked for by, the set of all its names, and its type.
Entity = collections.namedtuple('Entity', 'name names type')
# A label: the document, the relation, and its entities.
Fact = collections.namedtuple('Fact', 'document relation head tail')
# An entity, the document that tells of it, and the year or country that this gives it.
Known = collections.namedtuple('Known', 'entity document value')
# A question that was made: its kind, its right answers, and the documents that state it.
Made = collections.namedtuple('Made', 'kind question answers documents')
# With the wording of each.
Questions = Iterator[tuple[str, Made]]


def write(options: argparse.Namespace) -> Iterator[dict]:
    """Writes the questions, and the documents that they need."""
    texts, made = make(options.data)
    write_json_lines(options.questions, (one._asdict() for one in made))
    needed = {name for one in made for name in one.documents}
    write_json_lines(options.texts, (texts[name] for name in sorted(needed)))
    counts = {'questions': len(made), 'documents': len(needed)}
    yield counts | collections.Counter(one.kind for one in made)


def ask(options: argparse.Namespace) -> Iterator[dict]:
    """Asks the questions of a file; a line for each kind."""
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    with opql_jax.open(options.kb) as kb:
        for _, asked in read_json_lines(options.questions):
            counts, right = kinds[asked['kind']], set(map(fold, asked['answers']))
            counts['questions'] += 1
            try:
                answer = kb.ask(asked['question'])
            except InputError:  # it names nothing of the text
                continue
            five = itertools.islice(answer, 5)
            names = [member.name for member in five if member.probability is not None]
            is_right = [_is_right(name, right) for name in names]
            counts['answered'] += bool(names)
            counts['right'] += any(is_right[:1])
            counts['among_five'] += any(is_right)
            counts['sure'] += bool(answer.is_sure)
            counts['sure_right'] += bool(answer.is_sure) and any(is_right[:1])
    for kind, counts in sorted(kinds.items()):
        share = lambda name: round(counts[name] / counts['questions'], 3)
        yield {'kind': kind, **counts, **{name: share(name) for name in ('right', 'among_five')}}


def _is_right(name: str, right: set[str]) -> bool:
    folded, years_of = fold(without_brackets(name)), lambda text: set(re.findall(r'\d{4}', text))
    # A date is right by its year, as texts have it in several places, with and without the day.
    years = years_of(folded)
    return folded in right or bool(years) and any(years == years_of(one) for one in right)


def make(data: pathlib.Path) -> tuple[dict[str, dict], list[Made]]:
    """The documents by id, and the questions, the same at each call."""
    redocred, trex = data / 'redocred/documents.json', data / 'trex/documents.jsonl'
    labelled = [*_redocred(redocred), *_trex(trex)]
    texts = {text['id']: text for text, _ in labelled}
    facts = [fact for _, of in labelled for fact in of]
    chance, made = random.Random(SEED), []
    for questions in KINDS:
        used: collections.Counter[str] = collections.Counter()
        chosen: list[Made] = []
        candidates = list(questions(facts, chance))
        chance.shuffle(candidates)
        # Wordings in turn, so that the frequent relations do not have all of the questions.
        by_wording: dict[str, list[Made]] = collections.defaultdict(list)
        for wording, one in candidates:
            by_wording[wording].append(one)
        for one in filter(None, itertools.chain(*itertools.zip_longest(*by_wording.values()))):
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


def compared(facts: Sequence[Fact], chance: random.Random, kind: str = 'comparison') -> Questions:
    """Questions that compare dates or countries, of two or of what a hop leads to from each."""
    by_head, of_kind = _by_head(facts), WORDINGS[kind]
    nouns = NOUNS if kind == BRIDGE else {'': ''}
    if kind == BRIDGE:  # what two hops lead to, by where they begin
        chains = _chains(facts, NOUNS, of_kind)
        by_head = {
            (one.head, one.document, one.relation + last[0].relation): last for one, last in chains
        }
    for first, last in itertools.product(nouns, of_kind):
        noun, wordings, are_dates = nouns[first], of_kind[last], isinstance(of_kind[last][0], list)
        known = [
            Known(head, document, value)
            for (head, document, relation), found in by_head.items()
            if relation == first + last and (value := (_year if are_dates else _country)(found))
        ]
        folded = [fold(one.entity.name) for one in known]
        for place, one in enumerate(known):
            others = [other for other, name in zip(known, folded) if name != folded[place]]
            if not are_dates and place % 2:  # half of the pairs are of one country
                others = [other for other in others if other.value == one.value]
            if not others:
                continue
            other = chance.choice(others)
            is_alike = one.value == other.value
            # Things that are dated themselves are of one type.
            if are_dates and (is_alike or not (noun or one.entity.type == other.entity.type)):
                continue
            wording, answer = chance.choice(wordings), 'yes' if is_alike else 'no'
            if are_dates:
                wording, earlier = wording
                best = (min if earlier else max)(one, other, key=lambda known: known.value)
                answer = best.entity.name
            text = wording.format(a=one.entity.name, b=other.entity.name, noun=noun)
            yield wording, Made(kind, text, (answer,), (one.document, other.document))


def yes_or_no(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions whether a fact holds: half of them name what another fact leads to."""
    by_head = _by_head(facts)
    for relation, wordings in WORDINGS['yes_or_no'].items():
        known = [of for key, of in by_head.items() if key[2] == relation and _is_one(of)]
        years = [year for of in known if (year := _year(of))]
        for of in known:
            wording, is_true = chance.choice(wordings), chance.random() < 0.5
            (document, _, head, tail), year, country = of[0], _year(of), _country(of)
            if not (year if '{year}' in wording else country or relation != COUNTRY):
                continue
            if '{year}' in wording and not is_true:
                year = chance.choice([other for other in years if other != year])
            elif not is_true:
                others = [other[0].tail for other in known if not other[0].tail.names & tail.names]
                if relation == COUNTRY:
                    others = [one for one in others if _country_of(one) not in (None, country)]
                tail = chance.choice(others)
            # 'in Japan', not 'in Japanese'.
            name = str(_country_of(tail)).title() if relation == COUNTRY else tail.name
            text, answer = wording.format(a=head.name, b=name, year=year), ('no', 'yes')[is_true]
            yield wording, Made('yes or no', text, (answer,), (document,))


def unstated(facts: Sequence[Fact], chance: random.Random) -> Questions:
    """Questions about names of which no label states what is asked; they have no right answer."""
    labelled = (fact for fact in facts if fact.document.startswith('redocred'))
    heads = dict.fromkeys((fact.head, fact.document) for fact in labelled)
    stated = {(fact.head, fact.relation) for fact in facts}
    of_type = lambda kind: [one for one in heads if one[0].type == kind]
    unknown = lambda kind, of: [one for one in of_type(kind) if (one[0], of) not in stated]
    for relation, kind in OF_TYPE.items():
        for head, document in unknown(kind, relation):
            other, of_other = chance.choice(of_type(kind))
            wording = chance.choice(WORDINGS['comparison'][relation])
            wording = wording if isinstance(wording, str) else wording[0]
            if fold(other.name) != fold(head.name):
                first, second = chance.sample([head.name, other.name], 2)
                text = wording.format(a=first, b=second)
                yield wording, Made('unstated', text, (), (document, of_other))
    for relation in ('P19', 'P57', 'P50', 'P22', 'P26'):
        named = [one.name for one, _ in of_type('LOC' if relation == 'P19' else 'PER')]
        for head, document in unknown('MISC' if relation in ('P57', 'P50') else 'PER', relation):
            wording = chance.choice(WORDINGS['yes_or_no'][relation])
            text = wording.format(a=head.name, b=chance.choice(named))
            yield wording, Made('unstated', text, (), (document,))


KINDS = two_hops, compared, functools.partial(compared, kind=BRIDGE), yes_or_no, unstated


def _chains(facts: Sequence[Fact], firsts, seconds) -> Iterator[tuple[Fact, list[Fact]]]:
    """Facts that are alone with their head and relation, and those of one relation that follow."""
    by_head = _by_head(facts)
    for (_, document, relation), found in by_head.items():
        if relation in firsts and _is_one(found):
            for last in seconds:
                if after := by_head.get((found[0].tail, document, last)):
                    yield found[0], after


def _by_head(facts: Sequence[Fact]) -> dict[tuple[Entity, str, str], list[Fact]]:
    by_head: dict[tuple[Entity, str, str], list[Fact]] = collections.defaultdict(list)
    for fact in facts:
        by_head[fact.head, fact.document, fact.relation].append(fact)
    return by_head


def _is_one(found: Sequence[Fact]) -> bool:
    return len({fact.tail for fact in found}) == 1


def _year(found: Sequence[Fact]) -> int | None:
    """The year that all facts give, if it is one."""
    names = ' '.join(name for fact in found for name in fact.tail.names)
    years = set(re.findall(r'\b[12]\d{3}\b', names))
    return int(years.pop()) if len(years) == 1 else None


def _country_of(entity: Entity) -> str | None:
    folded = map(fold, sorted(entity.names))
    return next((COUNTRY_OF[name] for name in folded if name in COUNTRY_OF), None)


def _country(found: Sequence[Fact]) -> str | None:
    countries = {_country_of(fact.tail) for fact in found}
    return countries.pop() if len(countries) == 1 else None


def _entity(names: Sequence[str], kind: str) -> Entity | None:
    """An entity of its mentions; None if none of these is a name that a question may have."""
    is_name = lambda name: re.fullmatch(r"[^\W_a-z][\w .'’&:,-]*", name) and len(name) > 3
    proper = [name for name in names if kind in ('TIME', 'NUM') or is_name(name)]
    if kind == 'PER':
        proper = [name for name in proper if ' ' in name]
    name = max(proper, key=len, default=None)
    return Entity(name, frozenset(names), kind) if name else None


_NO_SPACE_BEFORE = re.compile(r" (?=[,.;:!?)\]%’]|'s\b|n't\b)|(?<=[(\[$£]) ")


def _plain(text: str) -> str:
    """Text without the spaces that its tokens were parted by."""
    return re.sub(r'" ([^"]*) "', r'"\1"', _NO_SPACE_BEFORE.sub('', text))


def _redocred(path: pathlib.Path) -> Iterator[tuple[dict, list[Fact]]]:
    for number, document in enumerate(json.loads(path.read_text())):
        name, entities = f'redocred-{number}', []
        for mentions in document['vertexSet']:
            names = [_plain(mention['name']) for mention in mentions]
            entities.append(_entity(names, mentions[0]['type']))
        facts = [
            Fact(name, label['r'], head, tail)
            for label in document['labels']
            if (head := entities[label['h']]) and (tail := entities[label['t']])
        ]
        text = ' '.join(_plain(' '.join(tokens)) for tokens in document['sents'])
        yield {'id': name, 'title': document['title'], 'text': text}, facts


def _trex(path: pathlib.Path) -> Iterator[tuple[dict, list[Fact]]]:
    for _, document in read_json_lines(path):
        names: dict[str, set[str]] = collections.defaultdict(set)
        for entity in document['entities']:
            names[entity['uri']].add(entity['surfaceform'])
        names[document['uri']] = {without_brackets(document['title'])}
        entities = {uri: _entity(sorted(found), 'THING') for uri, found in names.items()}
        name, facts = f'trex-{document["docid"]}', []
        for triple in document['triples']:
            head, tail = (entities.get(triple[role]['uri']) for role in ('subject', 'object'))
            if '^^' in triple['object']['uri']:
                time = triple['object']['surfaceform']
                tail = Entity(time, frozenset([time]), 'TIME')
            if head and tail:
                facts.append(Fact(name, triple['predicate']['uri'], head, tail))
        yield {'id': name, 'title': document['title'], 'text': document['text']}, facts


if __name__ == '__main__':
    files = {'questions': pathlib.Path('questions.jsonl'), 'texts': pathlib.Path('texts.jsonl')}
    run(__doc__, {'make': write, 'ask': ask}, data=DATA, kb=str, **files)
