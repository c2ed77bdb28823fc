"""Evidence: facts with their sentences, and paths of facts from a topic to an entity."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Literal

import numpy as np

from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus.splitting import text_start
from opql_jax.kb.fact_store import FactStore
from opql_jax.models.reader import Span

# Characters between two mentions that still are a wording of their relation.
_LONGEST_WORDING = 40

# Characters, half-open.
_Span = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Fact:
    """A memory entry, as people read it.

    Attributes:
        topic, target: names of its entities.
        weight: its share among all entries that the hop found; in a set, compared with the best.
        relation: the wording that was followed; None if a question was asked as a whole.
        inverse: whether it was followed from target to topic.
        title, document: of the document that it was read in, and its id. None in a memory of other
            text, as is what follows.
        passage: the number of the passage among those of `prepared`.
        sentence: the one that mentions the target, after that of the topic if it is another.
        topic_span, target_span: characters of the sentence, half-open; None of a mention that
            reaches over the end of its sentence.
        places: of the sentences that mention topic and target, the characters of the passage.
    """

    topic: str
    target: str
    weight: float
    relation: str | None = None
    inverse: bool = False
    title: str | None = None
    document: str | None = None
    passage: int | None = None
    sentence: str | None = None
    topic_span: _Span | None = None
    target_span: _Span | None = None
    places: tuple[_Span, _Span] | None = None

    @property
    def ends(self) -> tuple[str, str]:
        """The names of where it leads from, and to."""
        return (self.target, self.topic) if self.inverse else (self.topic, self.target)

    @property
    def wording(self) -> tuple[str, bool]:
        """The words between a fact's mentions, '' if many, and whether the topic is before them."""
        if self.topic_span is None or self.target_span is None or self.sentence is None:
            return '', True
        first, last = sorted([self.topic_span, self.target_span])
        words = words_between(self.sentence[first[1] : last[0]])
        return words, not words or self.topic_span == first

    def pieces(self) -> Iterator[tuple[str, Literal['topic', 'target', None]]]:
        """The sentence cut into its mentions and what stands around them."""
        text, place = self.sentence or '', 0
        spans = (self.topic_span, 'topic'), (self.target_span, 'target')
        for (start, end), role in sorted((span, role) for span, role in spans if span):
            if start >= place:  # else it is inside of the other
                yield text[place:start], None
                yield text[start:end], role  # type: ignore[misc]
                place = end
        yield text[place:], None

    def __str__(self) -> str:
        said = ''.join(f'[{text}]' if role else text for text, role in self.pieces())
        relation = '' if self.relation is None else f'–{one_line(self.relation)}'
        arrow = f'{one_line(self.topic)} {relation}→ {one_line(self.target)}'
        where = '' if self.title is None else f', in “{one_line(self.title)}”: {hanging(said, 4)}'
        return arrow + where


def words_between(text: str) -> str:
    """The words of what stands between two mentions, '' if they are many."""
    words = ' '.join(re.findall(r"[\w'-]+", text))
    return words if len(words) <= _LONGEST_WORDING else ''


# Facts that lead from a topic to an entity.
Path = tuple[Fact, ...]


def facts(
    store: FactStore,
    entries: np.ndarray,
    weights: np.ndarray,
    relation: str | None = None,
    inverse: bool = False,
) -> list[Fact]:
    """The facts of memory entries, in order; of an averaged entry the first mention counts."""
    memory, names = store.memory, store.vocab.names
    assert memory is not None  # the entries are its
    found = []
    for entry, row, weight in zip(entries, memory.rows(entries), weights):
        read_in: tuple = ()
        if store.memory_is_of_text:
            mention = memory.provenance([entry])[0]
            passage = store.prepared.passage(mention['passage'])
            of_document = passage['title'], passage['doc_id'], mention['passage']
            read_in = *of_document, *_sentences(passage['text'], mention)
        ends = names[memory.topic[row]], names[memory.target[row]]
        found.append(Fact(*ends, float(weight), relation, inverse, *read_in))
    return found


def evidence_of(store: FactStore, entries: np.ndarray) -> list[dict[str, str | None]]:
    """Where memory entries were read: `{topic, target, title, sentence}` each, see `Fact`.

    A memory of other text, such as a knowledge base's triples, gives `{topic, target}`.
    """
    where = ('title', 'sentence') if store.memory_is_of_text else ()
    names = 'topic', 'target', *where
    found = facts(store, entries, np.ones(len(entries)))
    return [{name: getattr(fact, name) for name in names} for fact in found]


def read_path(store: FactStore, name: str, number: int, before: int, span: Span) -> Path:
    """Where an answer was read, as a path of one fact: the sentence, which leads to the answer.

    Args:
        store, name: of the knowledge base, and of the answer.
        number, before: of its passage, and of the one from which that was reached, or -1.
        span: its characters in the text of the passage that is indexed; below 0 in the title.
    """
    row, *others = (store.prepared.passage(each) for each in (number, before) if each >= 0)
    start, end = (place + text_start(row) for place in (max(span.start, 0), max(span.end, 1)))
    sentences = itertools.pairwise([*row['sentence_starts'], len(row['text'])])
    around = (each for each in sentences if each[0] <= start < each[1])
    first, last = next(around, (0, len(row['text'])))
    said = row['text'][first:last].rstrip()
    place = None if span.end <= 0 else (start - first, min(end - first, len(said)))
    fact = Fact(
        others[0]['title'] if others else row['title'],
        name,
        span.probability,
        title=row['title'],
        document=row['doc_id'],
        passage=number,
        sentence=said,
        target_span=place,
        places=((first, first + len(said)),) * 2,
    )
    return (fact,)


def facts_about(store: FactStore, entity: int, first: int, most: int) -> tuple[list[Fact], int]:
    """Facts from an entity, at most so many from the `first` on, of weight 1; and the count."""
    assert store.memory is not None  # that of plain text
    start, end = map(int, store.memory.offsets[entity : entity + 2])
    rows = np.arange(start, end)[first : first + most]
    return facts(store, store.memory.ids[rows], np.ones(len(rows))), end - start


def target_sentence(store: FactStore, fact: Fact) -> str:
    """The one sentence with the target of a fact read in the text, not the topic's sentence."""
    assert fact.passage is not None and fact.places is not None  # it was read in the text
    return store.prepared.passage(fact.passage)['text'][slice(*fact.places[1])]


def _sentences(
    text: str, mention: dict
) -> tuple[str, _Span | None, _Span | None, tuple[_Span, _Span]]:
    """The sentences of a mention pair: as one, where each stands in it, and where they stand."""
    said, end, begins = '', 0, {}
    for sentence in sorted({mention['topic_sentence'], mention['target_sentence']}):
        said += '' if not said else ' ' if sentence[0] == end else ' … '
        start, end = sentence
        stripped = text[start:end].strip()
        start += len(text[start:end]) - len(text[start:end].lstrip())
        begins[sentence] = (start, start + len(stripped)), len(said)
        said += stripped
    spans: list[_Span | None] = []
    for role in ('topic', 'target'):
        start, end = mention[role]
        (first, last), place = begins[mention[f'{role}_sentence']]
        inside = first <= start < end <= last
        spans.append((place + start - first, place + end - first) if inside else None)
    of_topic, of_target = begins[mention['topic_sentence']], begins[mention['target_sentence']]
    return said, spans[0], spans[1], (of_topic[0], of_target[0])
