"""What the pages of the explorer show of a knowledge base, as plain values."""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import check_text
from opql_jax.data.prepared import Prepared
from opql_jax.kb import path_graph, paths
from opql_jax.kb import query as tree
from opql_jax.kb.answers import Answer, ambiguous_names
from opql_jax.kb.paths import Fact
from opql_jax.kb.query_language import is_query
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.kb.weighted_entities import Member, WeightedEntities
from opql_jax.retrieval.words import words_of

# Answers of a page, and those whose paths are drawn.
ANSWERS, _DRAWN = 10, 5
FACTS, ENTITIES, DOCUMENTS = 100, 50, 50
# Characters between two mentions that still are a wording of their relation.
_LONGEST_WORDING = 40
# One that serves in an example, and entities that are looked at for it.
_PLAIN_WORDING, _EXAMPLES = re.compile(r'[a-z]+(?: [a-z]+){0,3}(?<! the)(?<! a)'), 8
# Entries that the map shows.
_POINTS = 1_500


class Found(NamedTuple):
    """An answer, the path that it rests on, and of each of its facts the sentence that can be forgotten; '' of one without."""

    member: Member
    path: paths.Path
    sentences: list[str]


class Answered(NamedTuple):
    """What a question or query found.

    Attributes:
        found: the best.
        picture: of their paths (SVG).
        note: what to know about it.
        record: the best as JSON.
    """

    found: list[Found]
    picture: str
    note: str
    record: dict


def members(kb: VirtualKB, text: str) -> WeightedEntities:
    """What a question in plain English, or a query of the query language, finds."""
    check_text('the question', text)
    return kb.query(text) if is_query(text) else kb.ask(text)


def ask(kb: VirtualKB, text: str, top: int = ANSWERS) -> Answered:
    """Answers a question or a query, with the facts that the best answers rest on."""
    answer = members(kb, text)
    shown = list(itertools.islice(answer, top))
    found = [_found(kb, member, next(iter(answer.paths(member.id, 1)), ())) for member in shown]
    record: dict[str, Any] = {
        'question': text,
        'answers': [one.member.to_record() | {'path': [fact.to_record() for fact in one.path]} for one in found],
    }
    note = ''
    if isinstance(answer, Answer):
        notes = [answer.note, *answer.bounds]
        if answer.is_sure is not None:  # what answers over plain text
            record['sure'] = answer.is_sure
            if not (notes[0] or answer.is_sure) and found:
                notes.append('The text may not say: none of these answers is sure.')
            notes += ambiguous_names(kb, answer.question)
        if answer.is_by_sentences:
            record['by_sentences'] = True
            notes.append('No name in the question leads to an answer: these are of the sentences most like it.')
        note = '\n'.join(filter(None, notes))
        record |= {'note': note} if note else {}
    picture = path_graph.draw([one.path for one in found[:_DRAWN] if one.path])
    return Answered(found, picture, note, record)


def _found(kb: VirtualKB, member: Member, path: paths.Path) -> Found:
    return Found(member, path, [paths.target_sentence(kb, fact) if fact.passage is not None else '' for fact in path])


def retrieve(kb: VirtualKB, text: str, k: int) -> dict:
    """The documents that answer a question, as a record."""
    documents = kb.retrieve(text, k)
    record: dict[str, Any] = {'documents': [document._asdict() for document in documents]}
    return record | ({'note': documents.note} if documents.note else {})


class Wording(NamedTuple):
    """Facts about an entity that are worded alike: the words between the two mentions, and whether the entity stands before them."""

    words: str
    first: bool
    facts: list[Fact]


class Entity(NamedTuple):
    """An entity: its name and kind, how many facts there are, those of this page by their wording, and the documents about it."""

    name: str
    kind: str
    num_facts: int
    wordings: list[Wording]
    documents: list[str]


def entity(kb: VirtualKB, name: str, page: int = 0) -> Entity:
    """What was read about an entity, `FACTS` facts a page."""
    (found,) = kb.entity(name).entities
    facts, num_facts = paths.facts_about(kb, found, page * FACTS, FACTS)
    groups: dict[tuple[str, bool], list[Fact]] = {}
    for fact in facts:
        groups.setdefault(_wording(fact), []).append(fact)
    # Wordings that several facts share first, then in the order of the text; last what has none.
    wordings = sorted(groups.items(), key=lambda group: (not group[0][0], -len(group[1])))
    titles = kb.prepared.passages['title_entity'].to_numpy()
    about = kb.prepared.passages['doc_id'].take(np.flatnonzero(titles == found)).to_pylist()
    return Entity(
        kb.vocab.names[found],
        kb.vocab.kinds[found],
        num_facts,
        [Wording(words, first, facts) for (words, first), facts in wordings],
        list(dict.fromkeys(about)),
    )


def _wording(fact: Fact) -> tuple[str, bool]:
    """The words between the mentions of a fact, '' if they are many, and whether the topic stands first."""
    if fact.topic_span is None or fact.target_span is None or fact.sentence is None:
        return '', True
    first, last = sorted([fact.topic_span, fact.target_span])
    words = words_between(fact.sentence[first[1] : last[0]])
    return words, not words or fact.topic_span == first


def words_between(text: str) -> str:
    """The words of what stands between two mentions, '' if they are many."""
    words = ' '.join(re.findall(r"[\w'-]+", text))
    return words if len(words) <= _LONGEST_WORDING else ''


def entities(kb: VirtualKB, start: str = '', page: int = 0) -> list[tuple[str, int]]:
    """Entities whose names begin so, with their numbers of facts, those with most facts first."""
    assert kb.memory is not None
    counts = np.diff(kb.memory.offsets)
    wanted = start.casefold()
    names = kb.vocab.names
    chosen = [row for row in np.argsort(-counts, kind='stable').tolist() if names[row].casefold().startswith(wanted)]
    return [(names[row], int(counts[row])) for row in chosen[page * ENTITIES : (page + 1) * ENTITIES]]


class Document(NamedTuple):
    """A document.

    Attributes:
        id, title: its own.
        passages: each as pieces of text, with the entity that each mentions or None.
        sentences: of all passages.
        digest: of its text.
    """

    id: str
    title: str
    passages: list[list[tuple[str, str | None]]]
    sentences: list[str]
    digest: str


def document(kb: VirtualKB, name: str) -> Document:
    """A document by its id, with the entities that were recognised in it."""
    passages = passages_of(kb.prepared, name)
    if not passages:
        raise InputError(f'no document has the id {name!r}')
    sentences = [
        sentence
        for passage in passages
        for start, end in itertools.pairwise([*passage['sentence_starts'], None])
        if (sentence := passage['text'][start:end].strip())
    ]
    return Document(
        name, passages[0]['title'], [list(_pieces(kb, passage)) for passage in passages], sentences, digest(passages)
    )


def passages_of(prepared: Prepared, name: str) -> list[dict]:
    """The passages of a document, none if no document has the id."""
    table = prepared.passages
    return table.take(np.flatnonzero(np.array(table['doc_id'].to_pylist()) == name)).to_pylist()


def digest(passages: list[dict]) -> str:
    """What tells the text of passages from any other."""
    return hashlib.sha256(json.dumps([(passage['title'], passage['text']) for passage in passages]).encode()).hexdigest()


def _pieces(kb: VirtualKB, passage: dict) -> Iterator[tuple[str, str | None]]:
    text, place = passage['text'], 0
    for mention in sorted(passage['mentions'], key=lambda mention: (mention['start'], -mention['end'])):
        if mention['start'] < place:
            continue  # inside of the one before
        yield text[place : mention['start']], None
        yield text[mention['start'] : mention['end']], kb.vocab.names[mention['entity']]
        place = mention['end']
    yield text[place:], None


def documents(kb: VirtualKB, page: int = 0) -> list[tuple[str, str]]:
    """The ids and titles of documents, in their order."""
    table = kb.prepared.passages
    titles = dict(zip(table['doc_id'].to_pylist(), table['title'].to_pylist()))
    return list(itertools.islice(titles.items(), page * DOCUMENTS, (page + 1) * DOCUMENTS))


def examples(kb: VirtualKB) -> list[str]:
    """Questions to begin with, about entities that much was read about, and a query."""
    assert kb.memory is not None
    counts, kinds, names = np.diff(kb.memory.offsets), kb.vocab.kinds, kb.vocab.names
    patterns = {
        'person': 'Where was {} born?',
        'place': 'Who was born in {}?',
        'work': 'Who made {}?',
        'organisation': 'Who founded {}?',
    }
    read = [row for row in np.argsort(-counts, kind='stable').tolist() if counts[row] and kinds[row] in patterns]
    asked = [patterns.pop(kinds[row]).format(names[row]) for row in read if kinds[row] in patterns]
    return [*asked, *_example_query(kb, read[:_EXAMPLES])]


def _example_query(kb: VirtualKB, entities: list[int]) -> Iterator[str]:
    """A query that follows what the text says most often of some entities."""
    told = [fact for entity in entities for fact in paths.facts_about(kb, entity, 0, FACTS)[0]]
    topics: dict[tuple[str, bool], list[str]] = {}
    for fact in told:
        if _is_plain((wording := _wording(fact))[0]) and len(kb.linker.meanings(fact.topic)) == 1:
            topics.setdefault(wording, []).append(fact.topic)
    if topics:
        words, first = max(topics, key=lambda wording: len(topics[wording]))
        yield str(tree.Follow(tree.Entity(topics[words, first][0]), words, inverse=not first))


def _is_plain(words: str) -> bool:
    """Whether a wording is a few words that say something."""
    return bool(_PLAIN_WORDING.fullmatch(words) and words_of(words))


@dataclasses.dataclass(frozen=True)
class Point:
    """An entry of the memory on the map: where it is, in 0 .. 1, and what it says."""

    x: float
    y: float
    kind: str
    topic: str
    target: str


def relation_map(kb: VirtualKB) -> list[Point]:
    """The relations of entries, drawn from all of them, in the two directions in which they differ most."""
    memory = kb.memory
    assert memory is not None
    rows = np.unique(np.linspace(0, len(memory) - 1, _POINTS).astype(np.int64))
    relations = np.asarray(memory.relations(rows), np.float32)
    relations = relations - relations.mean(axis=0)
    _, directions = np.linalg.eigh(relations.T @ relations)
    places = relations @ directions[:, -2:]
    low, high = np.percentile(places, [1, 99], axis=0)
    places = np.clip((places - low) / np.maximum(high - low, 1e-9), 0, 1)
    names, kinds = kb.vocab.names, kb.vocab.kinds
    return [
        Point(round(float(x), 4), round(float(y), 4), kinds[target], names[topic], names[target])
        for (x, y), topic, target in zip(places, memory.topic[rows].tolist(), memory.target[rows].tolist())
    ]
