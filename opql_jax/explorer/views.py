"""What the pages of the explorer show of a knowledge base, as plain values."""

import dataclasses
import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from opql_jax.core.errors import NotFound
from opql_jax.corpus.questions import check_text
from opql_jax.corpus.spans import VALUES
from opql_jax.data.prepared import Prepared
from opql_jax.explorer import entity_graph
from opql_jax.kb import paths
from opql_jax.kb.citations import Citation, cite
from opql_jax.kb.paths import Fact
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.kb.weighted_entities import WeightedEntities

ANSWERS, MOST_READ = 10, 12
FACTS, ENTITIES, DOCUMENTS = 100, 50, 50

# Characters, half-open.
Span = tuple[int, int]


class Step(NamedTuple):
    """A fact of a path, as cited, and its number on the page, from 1; None and 0 if not read."""

    fact: Fact
    number: int
    citation: Citation | None


def members(kb: VirtualKB, text: str) -> WeightedEntities:
    """What a question in plain English, or a query of the query language, finds."""
    check_text('the question', text)
    return kb.find(text)


def ask(kb: VirtualKB, text: str) -> dict[str, Any]:
    """What `ask.html` shows of a question or a query: the best answers, and how sure they are."""
    answer = members(kb, text)
    numbers: dict[Citation, int] = {}
    found = []
    for member in itertools.islice(answer, ANSWERS):
        path = next(iter(answer.paths(member.id, 1)), ())
        found.append({'member': member, 'path': [_step(kb, fact, numbers) for fact in path]})
    return {'found': found, 'is_sure': answer.is_sure, 'notes': list(answer.notes)}


def _step(kb: VirtualKB, fact: Fact, numbers: dict[Citation, int]) -> Step:
    citation = cite(kb.store, fact)
    if citation is None:
        return Step(fact, 0, None)
    number = numbers.setdefault(citation, len(numbers) + 1)
    return Step(_as_cited(fact, citation), number, citation)


def _as_cited(fact: Fact, citation: Citation) -> Fact:
    """A fact with the sentence of its citation alone, and those of its mentions that are in it."""
    first = (fact.sentence or '').find(citation.sentence)
    last = first + len(citation.sentence)
    topic, target = (
        (span[0] - first, span[1] - first)
        if span and first <= span[0] and span[1] <= last
        else None
        for span in (fact.topic_span, fact.target_span)
    )
    said = citation.sentence
    return dataclasses.replace(fact, sentence=said, topic_span=topic, target_span=target)


def most_read(kb: VirtualKB) -> list[str]:
    """The names of the entities that most was read about."""
    return [kb.linker.unique_name(row) for row in entity_graph.most_read(kb, MOST_READ)]


# Kinds as headings, in the order in which they are told.
_KINDS = {
    'person': 'People',
    'place': 'Places',
    'organisation': 'Organisations',
    'work': 'Works',
    'event': 'Events',
    'date': 'Dates',
}
_OF_A_KIND = 6


def entity(kb: VirtualKB, name: str, page: int = 0) -> dict[str, Any]:
    """What `entity.html` shows of an entity, `FACTS` facts a page.

    `short` are by kind the entities that most facts lead to, each with their number; `sentences`
    those of this page's facts; `documents` the ids and titles of those about it; `picture` (SVG)
    and `legend` its neighbours.
    """
    (found,) = kb.entity(name).entities.tolist()
    facts, num_facts = paths.facts_about(kb.store, found, page * FACTS, FACTS)
    near, names, kinds = entity_graph.neighbours(kb, found), kb.vocab.names, kb.vocab.kinds
    short = {}
    for kind, heading in _KINDS.items():
        ones = [one for one in near if kinds[one] == kind][:_OF_A_KIND]
        short[heading] = [(kb.linker.unique_name(one), near[one]) for one in ones]
    table = kb.prepared.passages
    about = table.take(np.flatnonzero(table['title_entity'].to_numpy() == found))
    others = {one: facts for one, facts in near.items() if kinds[one] not in VALUES}
    drawn = dict(itertools.islice(others.items(), entity_graph.NEIGHBOURS))
    return {
        'name': names[found],
        'kind': kinds[found],
        'num_facts': num_facts,
        'short': [(heading, ones) for heading, ones in short.items() if ones],
        'sentences': _sentences(kb, facts),
        'documents': dict(zip(about['doc_id'].to_pylist(), about['title'].to_pylist())),
        'picture': entity_graph.draw_neighbours(kb, found, drawn),
        'num_neighbours': len(others),
        'num_drawn': len(drawn),
        'legend': entity_graph.colours([kinds[one] for one in drawn]),
    }


class Piece(NamedTuple):
    """A part of a text: the entity that it mentions or None, and whether it is cited."""

    text: str
    entity: str | None
    is_cited: bool


class Sentence(NamedTuple):
    """A sentence about an entity, in pieces, and the names of those that it means by 'It'."""

    citation: Citation
    meant: list[str]
    pieces: list[Piece]


def _sentences(kb: VirtualKB, facts: Sequence[Fact]) -> list[Sentence]:
    """The sentences of facts, each once: of the entity's own document first, in their order."""
    mentions: dict[Citation, dict[Span, str]] = {}
    targets: dict[Citation, dict[str, None]] = {}
    for fact in facts:
        if (citation := cite(kb.store, fact)) is not None:
            cited, spans = _as_cited(fact, citation), mentions.setdefault(citation, {})
            ends = (cited.topic_span, fact.topic), (cited.target_span, fact.target)
            spans |= {span: name for span, name in ends if span}
            targets.setdefault(citation, {})[fact.target] = None
    order = lambda one: (one.title != facts[0].topic, one.title, one.document, one.start or 0)
    found = []
    for citation in sorted(mentions, key=order):
        pieces = list(_pieces(citation.sentence, mentions[citation]))
        named = {piece.entity for piece in pieces}
        meant = [name for name in targets[citation] if name not in named]
        found.append(Sentence(citation, meant, pieces))
    return found


def entities(
    kb: VirtualKB, text: str = '', kind: str = '', page: int = 0
) -> tuple[list[tuple[str, str, int]], int]:
    """Names, kinds and numbers of facts of entities with a text in their name; values come last.

    Those of a page, and how many there are in all.
    """
    assert kb.memory is not None
    counts, wanted = np.diff(kb.memory.offsets), text.casefold()
    names, kinds = kb.vocab.names, kb.vocab.kinds
    has = lambda row: wanted in names[row].casefold() and kind in ('', kinds[row])
    order = np.lexsort((-counts, np.isin(kinds, sorted(VALUES))))
    chosen = [row for row in order.tolist() if has(row)]
    shown = chosen[page * ENTITIES : (page + 1) * ENTITIES]
    return [(names[row], kinds[row], int(counts[row])) for row in shown], len(chosen)


def document(kb: VirtualKB, name: str, cited: Span = (0, 0)) -> dict[str, Any]:
    """What `document.html` shows: passages in pieces, and sentences; `cited` are characters."""
    rows = _rows_of(kb.prepared, name)
    if not len(rows):
        removed = 'if a page led here, the document was removed since'
        raise NotFound(f'no document has the id {name!r}: {removed}')
    passages = passages_of(kb.prepared, name)
    shown = [_as_in_document(kb, *each, cited) for each in zip(rows.tolist(), passages)]
    return {
        'id': name,
        'title': passages[0]['title'],
        'date': kb.prepared.document_date(name),
        'passages': [pieces for pieces, _ in shown],
        'sentences': [sentence for _, sentences in shown for sentence in sentences],
        'digest': digest(passages),
    }


def _as_in_document(
    kb: VirtualKB, row: int, passage: dict, cited: Span
) -> tuple[list[Piece], list[str]]:
    """The text of a passage without a title that was put before it: its pieces and sentences."""
    length, names = len(passage['text']), kb.vocab.names
    start, end = (kb.prepared.document_offset(row, place) for place in (0, length))
    if start is None or end is None:  # documents are not kept
        start, end, cited = 0, length, (0, 0)
    cut = length - (end - start)
    text = passage['text'][cut:]
    mentions = {
        (mention['start'] - cut, mention['end'] - cut): names[mention['entity']]
        for mention in passage['mentions']
        if mention['start'] >= cut
    }
    first, last = max(cited[0], start) - start, min(cited[1], end) - start
    pieces = list(_pieces(text, mentions, (first, last) if first < last else (0, 0)))
    starts = [max(place - cut, 0) for place in passage['sentence_starts']]
    sentences = [text[begin:end].strip() for begin, end in itertools.pairwise([*starts, None])]
    return pieces, list(filter(None, sentences))


def passages_of(prepared: Prepared, name: str) -> list[dict]:
    """The passages of a document, none if no document has the id."""
    return prepared.passages.take(_rows_of(prepared, name)).to_pylist()


def _rows_of(prepared: Prepared, document: str) -> np.ndarray:
    return np.flatnonzero(np.array(prepared.passages['doc_id'].to_pylist()) == document)


def digest(passages: list[dict]) -> str:
    """What tells the text of passages from any other."""
    texts = [(passage['title'], passage['text']) for passage in passages]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def _pieces(text: str, mentions: dict[Span, str], cited: Span = (0, 0)) -> Iterator[Piece]:
    """A text in pieces, by its mentions and their names; one inside of another is left out."""
    spans, place = [], 0
    for start, end in sorted(mentions, key=lambda span: (span[0], -span[1])):
        if start >= place:
            spans.append((start, end))
            place = end
    borders = sorted({0, len(text), *cited, *(border for span in spans for border in span)})
    for start, end in itertools.pairwise(borders):
        while spans and spans[0][1] <= start:
            spans.pop(0)
        name = mentions[spans[0]] if spans and spans[0][0] <= start else None
        yield Piece(text[start:end], name, cited[0] <= start < cited[1])


def documents(
    kb: VirtualKB, text: str = '', page: int = 0
) -> tuple[list[tuple[str, str, str | None]], int]:
    """The ids, titles and dates of a page's documents that have a text, in order; their number."""
    table = kb.prepared.passages
    if text:
        has = lambda name: pc.match_substring(table[name], text, ignore_case=True)
        table = table.filter(functools.reduce(pc.or_, map(has, ('title', 'doc_id', 'text'))))
    found = dict(zip(table['doc_id'].to_pylist(), table['title'].to_pylist()))
    shown = itertools.islice(found.items(), page * DOCUMENTS, (page + 1) * DOCUMENTS)
    date = kb.prepared.document_date
    return [(name, title, date(name)) for name, title in shown], len(found)
