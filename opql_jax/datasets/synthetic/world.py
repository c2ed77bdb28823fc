"""The entities and facts of the synthetic world, drawn from a seed, and their invented names.

Every film, person, company, city and book has one document (`pages`), and countries and
universities have none. Each fact (`RELATIONS`) is a sentence of the page of one side or of
both, so a question against the direction in which a fact is stated needs the reversed pair. The
same arguments give the same world in every process, and memory does not grow with the text.
"""

import dataclasses
import random
from collections.abc import Iterable, Iterator

import numpy as np

from opql_jax.core.checkout import load_toml
from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab

MIN_DOCUMENTS = 20
SPLITS = ('train', 'dev', 'test')
EVALUATION_SHARE = 0.1  # of the entities of each kind, for dev and again for test

# Documents of each kind per document of the world; countries and universities per document.
_SHARES = dict(film=0.2, company=0.06, city=0.08, book=0.10, country=0.01, university=0.02)
_ON_SUBJECT, _ON_OBJECT = 1, 2


PAGE_KINDS = ('film', 'person', 'company', 'city', 'book')
KINDS = PAGE_KINDS + ('country', 'university')


@dataclasses.dataclass(frozen=True)
class Relation:
    """A relation of the world, between two kinds of entity."""

    name: str
    subject: str
    object: str
    source: str  # what a question type calls the subject, such as `film`
    target: str  # and the object, such as `director`
    sentences: list[str]  # templates of sentences that state a fact of the relation
    both: float = 0.3  # share of the facts stated on the pages of both sides
    object_only: float = 0.1  # share of the facts stated on the object's page alone
    symmetric: bool = False  # whether facts also hold with subject and object exchanged


NAMES, PAGES, QUESTIONS = (
    load_toml(f'datasets/synthetic/{name}.toml') for name in ('names', 'pages', 'questions')
)
RELATIONS = {name: Relation(name, **fields) for name, fields in PAGES['relations'].items()}
# From chains such as 'directed_by>directed_by^-1' to wordings.
WORDINGS, UNSEEN_WORDINGS = QUESTIONS['wordings'], QUESTIONS['unseen_wordings']
# From the steps of the two topics to wordings.
CONJUNCTIONS = {tuple(s.split(' & ')): w for s, w in QUESTIONS['conjunctions'].items()}


class Facts:
    """The facts of one relation, searchable from both sides.

    `subjects` and `objects` are entity ids [n], sorted, without repetition; `sides` [n] say on
    whose page a fact is stated: 1 the subject's, 2 the object's, 3 both.
    """

    def __init__(self, subjects: np.ndarray, objects: np.ndarray, sides: np.ndarray):
        order = np.lexsort((objects, subjects))
        self.subjects = subjects[order].astype(np.int32)
        self.objects = objects[order].astype(np.int32)
        self.sides = sides[order].astype(np.uint8)
        self._by_object = np.argsort(self.objects, kind='stable')
        self._sorted_objects = self.objects[self._by_object]

    def select(self, rows: np.ndarray) -> 'Facts':
        """Some of the facts, by a mask or by rows."""
        return Facts(self.subjects[rows], self.objects[rows], self.sides[rows])

    def objects_of(self, subject: int, on: int = 0) -> list[int]:
        """Objects of `subject`; with `on` = 1 or 2 only of facts on the page of that side."""
        rows = slice(*np.searchsorted(self.subjects, (subject, subject + 1)))
        return self.objects[rows][(self.sides[rows] & on) == on].tolist()

    def subjects_of(self, object: int, on: int = 0) -> list[int]:
        """Subjects of `object`; `on` as above."""
        rows = self._by_object[slice(*np.searchsorted(self._sorted_objects, (object, object + 1)))]
        return self.subjects[rows][(self.sides[rows] & on) == on].tolist()


@dataclasses.dataclass(frozen=True)
class World:
    """Entities and facts of a seed; an entity's id is its row."""

    seed: int
    names: list[str]
    keys: list[str]  # opaque
    ranges: dict[str, range]  # the ids of each kind of entity
    split: np.ndarray  # [n] int8, index in SPLITS of the questions an entity may be the topic of
    facts: dict[str, Facts]  # by relation name
    page_order: list[int]  # the entities that have a page, kinds mixed

    def kind(self, entity: int) -> str:
        """The kind of an entity."""
        return next(kind for kind, ids in self.ranges.items() if entity in ids)

    def vocab(self) -> EntityVocab:
        """The entities as a vocabulary; ids agree with this world's."""
        return EntityVocab(self.keys, self.names, [[]] * len(self.names))

    def spell(self, pieces: Iterable[str | int]) -> tuple[str, list[tuple[int, int, int]]]:
        """Joins strings and entity ids to a text; also (start, end, entity id), in code points."""
        text, length, spans = [], 0, []
        for piece in pieces:
            text.append(piece if isinstance(piece, str) else self.names[piece])
            if not isinstance(piece, str):
                spans.append((length, length + len(text[-1]), piece))
            length += len(text[-1])
        return ''.join(text), spans

    def facts_about(self, entity: int, on_page: bool) -> Iterator[tuple[str, str, list[int]]]:
        """Relation, side of `entity` ('s' or 'o') and others, of all facts or its page's."""
        kind = self.kind(entity)
        for name, relation in RELATIONS.items():
            if relation.subject == kind:
                yield name, 's', self.facts[name].objects_of(entity, _ON_SUBJECT if on_page else 0)
            if relation.object == kind:
                yield name, 'o', self.facts[name].subjects_of(entity, _ON_OBJECT if on_page else 0)

    def neighbours(self, entity: int, step: str) -> list[int]:
        """Entities one step away, such as `directed_by^-1` from a director to films."""
        name = step.removesuffix('^-1')
        facts = self.facts[name]
        if RELATIONS[name].symmetric:
            return facts.objects_of(entity) + facts.subjects_of(entity)
        return facts.subjects_of(entity) if step.endswith('^-1') else facts.objects_of(entity)

    def answers(self, topic: int, chain: Iterable[str]) -> list[int]:
        """Entities at the end of `chain`, ascending; as in MetaQA it never returns to its topic."""
        frontier = {topic}
        for step in chain:
            frontier = {n for entity in frontier for n in self.neighbours(entity, step)} - {topic}
        return sorted(frontier)


def generate(seed: int = 0, num_documents: int = 2000) -> World:
    """Draws a world of MIN_DOCUMENTS documents or more; InputError for arguments out of range."""
    if seed < 0:
        raise InputError(f'seed: must be at least 0, got {seed}')
    if num_documents < MIN_DOCUMENTS:
        raise InputError(f'num_documents: must be at least {MIN_DOCUMENTS}, got {num_documents}')
    counts = {kind: max(2, round(share * num_documents)) for kind, share in _SHARES.items()}
    counts['person'] = num_documents - sum(counts[kind] for kind in PAGE_KINDS if kind != 'person')
    rng, names, ranges, taken = np.random.default_rng(seed), [], {}, set()
    for kind in KINDS:
        ranges[kind] = range(len(names), len(names) + counts[kind])
        names += make_names(kind, counts[kind], random.Random(f'{seed} names of {kind}'), taken)
    # Drawn in one go over all kinds, so that a key says nothing about the kind of its entity.
    keys = [f'Q{number}' for number in (rng.permutation(9 * len(names)) + 1)[: len(names)]]
    split = np.zeros(len(names), np.int8)
    for ids in ranges.values():
        size = max(1, round(EVALUATION_SHARE * len(ids))) if len(ids) > 2 else 0
        shuffled = rng.permutation(ids)
        split[shuffled[:size]] = SPLITS.index('dev')
        split[shuffled[size : 2 * size]] = SPLITS.index('test')
    facts = {
        name: Facts(subjects, objects, _draw_sides(RELATIONS[name], len(subjects), rng))
        for name, (subjects, objects) in _draw_pairs(ranges, rng).items()
    }
    page_order = rng.permutation(num_documents).tolist()
    return World(seed, names, keys, ranges, split, facts, page_order)


def make_names(kind: str, count: int, rng: random.Random, taken: set[str]) -> list[str]:
    """Names of several words for entities of a kind, some outside ASCII.

    No two differ only by case, nor from `taken`, which grows; none has a mark of question files.
    """
    names = []
    while len(names) < count:
        name = _make_name(kind, len(names), rng)
        if name.casefold() not in taken:
            taken.add(name.casefold())
            names.append(name)
    return names


def _make_name(kind: str, index: int, rng: random.Random) -> str:
    # A fixed share of the people carries each script, so even a small world holds all of them.
    if kind == 'person':
        if index % 60 == 1:
            return f'{_accented(rng)} {_accented(rng)}'
        if index % 60 == 2:
            return ' '.join(_syllables('cyrillic', rng).capitalize() for _ in range(2))
        if index % 60 == 3:
            return f'{rng.choice(NAMES["cjk_family"])} {_syllables("cjk_given", rng)}'
    noun, other = rng.sample(NAMES['nouns'], 2)
    pattern = rng.choice(NAMES['patterns'][kind])
    words = dict(w=_word(rng), v=_word(rng), a=rng.choice(NAMES['adjectives']))
    return pattern.format(n=noun, m=other, **words)


def _word(rng: random.Random) -> str:
    """Two or three syllables: Rolan, Bavisto."""
    count = rng.choice((2, 2, 2, 3))
    syllables = [rng.choice(NAMES['onsets']) + rng.choice(NAMES['vowels']) for _ in range(count)]
    return (''.join(syllables) + rng.choice(NAMES['codas'])).capitalize()


def _accented(rng: random.Random) -> str:
    word = _word(rng)
    return word[0] + rng.choice(NAMES['accented']) + word[1:]


def _syllables(script: str, rng: random.Random) -> str:
    return ''.join(rng.choice(NAMES[script]) for _ in range(rng.choice((2, 3))))


def _draw_sides(relation: Relation, count: int, rng: np.random.Generator) -> np.ndarray:
    """On whose pages each of `count` facts is stated, `[count]` uint8."""
    draw = rng.random(count)
    one_page = np.where(draw < relation.both + relation.object_only, _ON_OBJECT, _ON_SUBJECT)
    return np.where(draw < relation.both, _ON_SUBJECT | _ON_OBJECT, one_page)


def _draw_pairs(
    ranges: dict[str, range], rng: np.random.Generator
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """(subjects, objects) of every relation; two entities are hardly ever in two relations."""
    ids = {kind: np.arange(span.start, span.stop) for kind, span in ranges.items()}
    films, people, books, companies = ids['film'], ids['person'], ids['book'], ids['company']

    def some(share: float, of: np.ndarray) -> np.ndarray:
        return rng.permutation(of)[: max(1, round(share * len(of)))]

    def partners(subjects: np.ndarray, pool: np.ndarray) -> np.ndarray:
        return pool[rng.integers(len(pool), size=len(subjects))]

    def pool_of_people(facts: int, each: float) -> np.ndarray:
        """People who share `facts` facts, `each` of them per person on average."""
        return some(min(1.0, facts / each / len(people)), people)

    pairs: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    # Pools are drawn independently, so many a director also acts or writes, in other films.
    directors = partners(films, pool_of_people(len(films), 2.5))
    writers = partners(films, pool_of_people(len(films), 2.5))
    # Some write what they direct.
    writers = np.where(rng.random(len(films)) < 0.05, directors, writers)
    pairs['directed_by'] = films, directors
    pairs['written_by'] = films, writers
    cast_sizes = rng.choice((2, 3, 4), p=(0.4, 0.4, 0.2), size=len(films))
    subjects, row = np.repeat(films, cast_sizes), np.repeat(np.arange(len(films)), cast_sizes)
    actors = partners(subjects, pool_of_people(len(subjects), 3))
    others = (actors != directors[row]) & (actors != writers[row])
    pairs['starring'] = tuple(np.unique(np.stack([subjects[others], actors[others]]), axis=1))
    pairs['produced_by'] = films, partners(films, some(0.75, companies))
    pairs['filmed_in'] = films, partners(films, ids['city'])
    adapted = some(0.4, films)
    pairs['based_on'] = adapted, partners(adapted, books)
    pairs['authored_by'] = books, partners(books, pool_of_people(len(books), 2.5))
    pairs['born_in'] = people, partners(people, ids['city'])
    students = some(0.6, people)
    pairs['educated_at'] = students, partners(students, ids['university'])
    couples = rng.permutation(people)[: len(people) // 4 * 2].reshape(2, -1)
    pairs['married_to'] = couples[0], couples[1]
    founders = partners(companies, people)
    pairs['founded_by'] = companies, founders
    employees = some(0.4, people)
    employers = partners(employees, companies)
    hired = founders[employers - companies[0]] != employees
    pairs['works_for'] = employees[hired], employers[hired]
    pairs['headquartered_in'] = companies, partners(companies, ids['city'])
    pairs['located_in'] = ids['city'], partners(ids['city'], ids['country'])
    return pairs
