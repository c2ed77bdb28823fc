"""A synthetic world of any size: linked documents about it and questions over it.

The world holds films, people, companies, cities, books, countries and universities, with facts between
them (`synthetic_templates.RELATIONS`). Every film, person, company, city and book has one document; each fact
is a sentence of the page of one side or of both, so a question against the direction in which a fact is
told needs the reversed pair. Every fact is stated, so every answer is supported by text. The same
arguments give the same bytes in every process. Documents and questions are made one by one: memory is
proportional to the number of entities and facts, not to the text.
"""

import dataclasses
import json
import os
import random
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.datasets.synthetic.names import make_names
from opql_jax.datasets.synthetic.pages import PageWriter
from opql_jax.datasets.synthetic.templates import KINDS, PAGE_KINDS, RELATIONS, Relation
from opql_jax.datasets.synthetic.wordings import UNSEEN_WORDINGS, WORDINGS

MIN_DOCUMENTS = 20
SPLITS = ('train', 'dev', 'test')
# A question with more answers says little about a system and would be hard to read.
MAX_ANSWERS = 20

# Documents of each kind per document of the world; countries and universities per document.
_SHARES = {'film': 0.2, 'company': 0.06, 'city': 0.08, 'book': 0.10, 'country': 0.01, 'university': 0.02}
_EVALUATION_SHARE = 0.1  # of the entities of each kind, for dev and again for test

_ON_SUBJECT, _ON_OBJECT = 1, 2


@dataclasses.dataclass(frozen=True)
class WorldQuestion:
    """A question with its gold chain.

    Attributes:
        text: the question, the topic's name in brackets.
        topic: entity id.
        answers: entity ids, ascending.
        via: of each hop but the last, the entities reached, ascending.
        chain: relation names to follow, `^-1` when from object to subject.
        type: what the chain passes through, e.g. `film_to_director_to_film`.
    """

    text: str
    topic: int
    answers: tuple[int, ...]
    via: tuple[tuple[int, ...], ...]
    chain: tuple[str, ...]
    type: str

    @property
    def hops(self) -> int:
        return len(self.chain)


class Facts:
    """The facts of one relation, searchable from both sides.

    Attributes:
        subjects, objects: entity ids `[n]` int32, sorted by (subject, object), without repetition.
        sides: `[n]` uint8, on whose page a fact is stated: 1 the subject's, 2 the object's, 3 both.
    """

    def __init__(self, subjects: np.ndarray, objects: np.ndarray, sides: np.ndarray):
        order = np.lexsort((objects, subjects))
        self.subjects, self.objects, self.sides = (
            subjects[order].astype(np.int32),
            objects[order].astype(np.int32),
            sides[order].astype(np.uint8),
        )
        self._by_object = np.argsort(self.objects, kind='stable')
        self._sorted_objects = self.objects[self._by_object]

    def __len__(self) -> int:
        return len(self.subjects)

    def objects_of(self, subject: int, on: int = 0) -> list[int]:
        """Objects of `subject`; with `on` = 1 or 2 only of facts stated on the page of that side."""
        rows = slice(*np.searchsorted(self.subjects, (subject, subject + 1)))
        return self.objects[rows][(self.sides[rows] & on) == on].tolist()

    def subjects_of(self, object: int, on: int = 0) -> list[int]:
        """Subjects of `object`; `on` as above."""
        rows = self._by_object[slice(*np.searchsorted(self._sorted_objects, (object, object + 1)))]
        return self.subjects[rows][(self.sides[rows] & on) == on].tolist()


class World:
    """Entities and facts, drawn from a seed.

    Attributes:
        seed: the seed.
        names, keys: name and opaque key of every entity; an entity's id is its row.
        ranges: the ids of each kind of entity.
        facts: by relation name.
        split: `[n]` int8 per entity: the index in SPLITS of the questions it may be the topic of.
        page_order: the entities that have a page, in an order that mixes the kinds.
        writer: of its pages.
    """

    def __init__(self, seed: int = 0, num_documents: int = 2000):
        """Draws a world.

        Args:
            seed: at least 0; another seed gives another world.
            num_documents: how many documents it has, at least MIN_DOCUMENTS.

        Raises:
            InputError: an argument is out of range.
        """
        if seed < 0:
            raise InputError(f'seed: must be at least 0, got {seed}')
        if num_documents < MIN_DOCUMENTS:
            raise InputError(f'num_documents: a world needs at least {MIN_DOCUMENTS}, got {num_documents}')
        self.seed = seed
        counts = {kind: max(2, round(share * num_documents)) for kind, share in _SHARES.items()}
        counts['person'] = num_documents - sum(counts[kind] for kind in PAGE_KINDS if kind != 'person')
        rng, taken = np.random.default_rng(seed), set()
        self.names: list[str] = []
        self.ranges: dict[str, range] = {}
        for kind in KINDS:
            start = len(self.names)
            self.names += make_names(kind, counts[kind], random.Random(f'{seed} names of {kind}'), taken)
            self.ranges[kind] = range(start, len(self.names))
        # Drawn in one go over all kinds, so that a key says nothing about what it stands for.
        self.keys = [f'Q{number}' for number in (rng.permutation(9 * len(self.names)) + 1)[: len(self.names)]]
        self.split = np.zeros(len(self.names), np.int8)
        for ids in self.ranges.values():
            size = max(1, round(_EVALUATION_SHARE * len(ids))) if len(ids) > 2 else 0
            shuffled = rng.permutation(ids)
            self.split[shuffled[:size]] = SPLITS.index('dev')
            self.split[shuffled[size : 2 * size]] = SPLITS.index('test')
        self.facts = {
            name: Facts(subjects, objects, _sides(RELATIONS[name], len(subjects), rng))
            for name, (subjects, objects) in _draw_pairs(self.ranges, rng).items()
        }
        self.page_order: list[int] = rng.permutation(num_documents).tolist()
        self.writer = PageWriter(self.seed, self.names, self.keys, self.ranges)

    def kind(self, entity: int) -> str:
        """The kind of an entity."""
        return next(kind for kind, ids in self.ranges.items() if entity in ids)

    def vocab(self) -> EntityVocab:
        """The entities as a vocabulary; ids agree with this world's."""
        return EntityVocab(self.keys, self.names, [[]] * len(self.names))

    def documents(self) -> Iterator[Document]:
        """The page of every entity that has one, in `page_order`."""
        return (self.page(f'page-{number}', entity) for number, entity in enumerate(self.page_order))

    def page(self, document_id: str, entity: int, hidden: Container[tuple[str, str, int]] = frozenset()) -> Document:
        """The page of `entity`, without what is `hidden` (see `PageWriter.page`)."""
        related = {other for _, _, others in self.facts_about(entity, on_page=False) for other in others}
        return self.writer.page(document_id, entity, self.kind(entity), self.facts_about(entity, on_page=True), related, hidden)

    def facts_about(self, entity: int, on_page: bool) -> Iterator[tuple[str, str, list[int]]]:
        """Relation, the side of `entity` ('s' or 'o') and who is on the other; all, or what its page states."""
        kind = self.kind(entity)
        for name, relation in RELATIONS.items():
            if relation.subject == kind:
                yield name, 's', self.facts[name].objects_of(entity, _ON_SUBJECT if on_page else 0)
            if relation.object == kind:
                yield name, 'o', self.facts[name].subjects_of(entity, _ON_OBJECT if on_page else 0)

    def neighbours(self, entity: int, step: str) -> list[int]:
        """Entities one step of a chain away, e.g. step `directed_by^-1` from a director to films."""
        name, inverse = step.removesuffix('^-1'), step.endswith('^-1')
        facts = self.facts[name]
        if RELATIONS[name].symmetric:
            return facts.objects_of(entity) + facts.subjects_of(entity)
        return facts.subjects_of(entity) if inverse else facts.objects_of(entity)

    def answers(self, topic: int, chain: Iterable[str]) -> list[int]:
        """Entities at the end of `chain`, ascending.

        As in MetaQA a chain never comes back to its topic, not even on the way: the *other* films of the
        director of X.
        """
        frontier = {topic}
        for step in chain:
            frontier = {found for entity in frontier for found in self.neighbours(entity, step)} - {topic}
        return sorted(frontier)

    def questions(self, split: str, hops: int) -> Iterator[WorldQuestion]:
        """All questions of a split, types in turn; take as many as needed from the front.

        Each type passes over its topics again and again, with another wording for a topic each time, until
        all wordings are used. Topics of a split are in no other split, whatever the number of hops.

        Args:
            split: `train`, `dev`, `test`, or `unseen_wording`: 1-hop questions about test topics in wordings
                that no other split uses.
            hops: 1, 2 or 3.

        Raises:
            InputError: there are no such questions.
        """
        wordings = UNSEEN_WORDINGS if split == 'unseen_wording' else WORDINGS
        chains = [chain for chain in wordings if len(chain.split('>')) == hops]
        if split not in (*SPLITS, 'unseen_wording') or not chains:
            raise InputError(
                f'there are no {hops}-hop questions of split {split!r}; splits are {", ".join(SPLITS)} '
                'with 1 to 3 hops, and unseen_wording with 1'
            )
        yield from in_turn([self._questions_of_type(split, chain, wordings[chain]) for chain in chains])

    def _questions_of_type(self, split: str, key: str, wordings: Sequence[str]) -> Iterator[WorldQuestion]:
        chain = tuple(key.split('>'))
        kind = ends(chain[0])[0]
        index = SPLITS.index('test' if split == 'unseen_wording' else split)
        rng = random.Random(f'{self.seed} questions {split} {key}')
        ids = self.ranges[kind]
        topics = (np.flatnonzero(self.split[ids.start : ids.stop] == index) + ids.start).tolist()
        rng.shuffle(topics)
        rows = ((topic, tuple(self.answers(topic, chain))) for topic in topics)
        rows = (row for row in rows if 0 < len(row[1]) <= MAX_ANSWERS)
        for (topic, answers), wording in in_passes(rows, wordings, rng):
            via = tuple(tuple(self.answers(topic, chain[:hop])) for hop in range(1, len(chain)))
            text = wording.format(x=f'[{self.names[topic]}]')
            yield WorldQuestion(text, topic, answers, via, chain, question_type(chain))


def in_turn(streams: Sequence[Iterator]) -> Iterator:
    """One of each stream, then another of each, until all are used up."""
    while streams:
        drawn = [(stream, next(stream, None)) for stream in streams]
        yield from (item for _, item in drawn if item)
        streams = [stream for stream, item in drawn if item]


def in_passes(rows: Iterable, wordings: Sequence[str], rng: random.Random) -> Iterator[tuple[Any, str]]:
    """All rows, each with one of the wordings, then all with another, until all wordings are used."""
    asked = []
    for row in rows:
        asked.append((row, rng.randrange(len(wordings))))
        yield row, wordings[asked[-1][1]]
    for turn in range(1, len(wordings)):
        for row, first in asked:
            yield row, wordings[(first + turn) % len(wordings)]


def ends(step: str) -> tuple[str, str, str, str]:
    """Kinds of entity a step leads from and to, and what types call the two."""
    relation = RELATIONS[step.removesuffix('^-1')]
    if step.endswith('^-1'):
        return relation.object, relation.subject, relation.target, relation.source
    return relation.subject, relation.object, relation.source, relation.target


def question_type(chain: Sequence[str]) -> str:
    """The label of a chain, e.g. `director_to_film_to_actor` for directed_by^-1, starring."""
    return '_to_'.join([ends(chain[0])[2]] + [ends(step)[3] for step in chain])


def _sides(relation: Relation, count: int, rng: np.random.Generator) -> np.ndarray:
    """On whose pages each of `count` facts is stated, `[count]` uint8."""
    draw = rng.random(count)
    return np.where(
        draw < relation.both,
        _ON_SUBJECT | _ON_OBJECT,
        np.where(draw < relation.both + relation.object_only, _ON_OBJECT, _ON_SUBJECT),
    )


def _draw_pairs(ranges: dict[str, range], rng: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
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
    writers = np.where(rng.random(len(films)) < 0.05, directors, writers)  # some write what they direct
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


def write(
    directory: str | os.PathLike,
    world: World,
    *,
    num_train: int = 6000,
    num_eval: int = 500,
) -> None:
    """Writes a world as files.

    corpus.jsonl (see `records.document_from_json`), entities.jsonl (`{id, name}`, a row per entity in the
    order of ids), questions/{1,2,3}-hop/{train,dev,test}.txt and questions/1-hop/unseen_wording.txt in
    the format of MetaQA, with the gold chain (`directed_by>starring^-1`) as the fourth column.

    Args:
        directory: made if need be; files of these names are replaced.
        world: what to write.
        num_train: questions per number of hops in train, at most; a small world has fewer.
        num_eval: the same for dev, test and unseen_wording.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    write_lines(directory / 'corpus.jsonl', world.documents(), document_line)
    write_lines(directory / 'entities.jsonl', zip(world.keys, world.names), entity_line)
    files = [(hops, split) for hops in (1, 2, 3) for split in SPLITS] + [(1, 'unseen_wording')]
    for hops, split in files:
        folder = directory / 'questions' / f'{hops}-hop'
        folder.mkdir(parents=True, exist_ok=True)
        limit = num_train if split == 'train' else num_eval
        rows = (question for question, _ in zip(world.questions(split, hops), range(limit)))
        write_lines(folder / f'{split}.txt', rows, lambda question: question_line(world, question))


def document_line(document: Document) -> str:
    """A document as a line of corpus.jsonl."""
    mentions = [{'start': m.start, 'end': m.end, 'entity': m.entity} for m in document.mentions]
    return json.dumps(
        {
            'id': document.id,
            'title': document.title,
            'text': document.text,
            'title_entity': document.title_entity,
            'mentions': mentions,
        },
        ensure_ascii=False,
    )


def entity_line(row: tuple[str, str]) -> str:
    """An entity's key and name as a line of entities.jsonl."""
    return json.dumps({'id': row[0], 'name': row[1]}, ensure_ascii=False)


def question_line(world: World, question: WorldQuestion) -> str:
    """A question as a line of a MetaQA file, with the gold chain as the fourth column."""
    answers = '|'.join(world.names[answer] for answer in question.answers)
    return '\t'.join((question.text, answers, question.type, '>'.join(question.chain)))


def write_lines(path: Path, rows: Iterable, line: Callable) -> None:
    """Writes a line per row, replacing the file."""
    with open(path, 'w', encoding='utf-8', newline='\n') as file:
        for row in rows:
            file.write(line(row) + '\n')
