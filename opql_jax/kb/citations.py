"""Citations: the sentence that states a fact, verbatim, and where it stands in its document."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact


class Citation(NamedTuple):
    """A sentence of a document.

    Attributes:
        sentence: as the document has it.
        title, document: of the document; and its id.
        start, end: where the sentence stands in the text of the document, in code points, half-open; None where the documents
            are not kept.
    """

    sentence: str
    title: str
    document: str
    start: int | None = None
    end: int | None = None


def cite(store: FactStore, fact: Fact) -> Citation | None:
    """The sentence that states a fact; None for a fact that was not read in the text of the knowledge base.

    Of two sentences it is the one that mentions the entity which the document is not about: 'It was directed by Ingrid Solberg'
    states who directed the film that the document is about.
    """
    if fact.passage is None or fact.title is None or fact.document is None:
        return None
    (passage,) = store.prepared.passages.slice(fact.passage, 1).to_pylist()
    first, last = _sentence(passage, fact, store.vocab.names[passage['title_entity']] if passage['title_entity'] >= 0 else None)
    start, end = (store.prepared.document_offset(fact.passage, place) for place in (first, last))
    said = passage['text'][first:last]
    if start is None or end is None:
        return Citation(said, fact.title, fact.document)
    # Without a title that was put before the passage.
    return Citation(said[len(said) - (end - start) :], fact.title, fact.document, start, end)


def _sentence(passage: dict, fact: Fact, subject: str | None) -> tuple[int, int]:
    """Start and end, in the text of its passage, of the sentence that states a fact."""
    text, told = passage['text'], fact.sentence or ''
    span = fact.topic_span if fact.target == subject and fact.topic_span else fact.target_span
    place = span[0] if span else 0
    for start, end in itertools.pairwise([*passage['sentence_starts'], len(text)]):
        said = text[start:end].strip()
        if 0 <= (first := told.find(said)) <= place < first + len(said):
            begin = start + text[start:end].find(said)
            return begin, begin + len(said)
    return 0, len(text)  # a mention that reaches over the end of its sentence
