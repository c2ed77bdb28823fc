"""Citations: the sentence that states a fact, verbatim, and where it stands in its document."""

from __future__ import annotations

from typing import NamedTuple

from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact


class Citation(NamedTuple):
    """A sentence of a document, as that has it, with the title and the id of the document.

    `start` and `end` say where it stands in the text of the document, in code points; None where
    documents are not kept. `date` is the day that the document states at its beginning, if any.
    """

    sentence: str
    title: str
    document: str
    start: int | None = None
    end: int | None = None
    date: str | None = None


def cite(store: FactStore, fact: Fact) -> Citation | None:
    """The sentence that states a fact; None for a fact that was not read in the text.

    Of two sentences it is the one that mentions the entity which the document is not about: 'It was
    directed by Ingrid Solberg' states who directed the film that the document is about.
    """
    if fact.passage is None or fact.title is None or fact.document is None or fact.places is None:
        return None
    passage = store.prepared.passage(fact.passage)
    subject = passage['title_entity']
    is_subject = subject >= 0 and fact.target == store.vocab.names[subject]
    first, last = fact.places[0 if is_subject else 1]
    start, end = (store.prepared.document_offset(fact.passage, place) for place in (first, last))
    said = passage['text'][first:last]
    if start is None or end is None:
        return Citation(said, fact.title, fact.document)
    # Without a title that was put before the passage.
    said, date = said[len(said) - (end - start) :], store.prepared.document_date(fact.document)
    return Citation(said, fact.title, fact.document, start, end, date)
