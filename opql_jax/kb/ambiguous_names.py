"""Names that several entities have: which these are, with a sentence about each."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus.questions import Question
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import facts_about

# Other meanings of a name that a note lists.
_LISTED = 5


def ambiguous_names(store: FactStore, question: Question) -> Iterator[str]:
    """What to write for other entities that a name in the question may mean."""
    if store.memory is None:
        return
    for (start, end), taken in zip(question.topics, question.entities):
        name = question.text[start:end]
        if others := [entity for entity in store.linker.meanings(name) if entity != taken]:
            listed = candidates(store, others[:_LISTED], '[{}]'.format)
            known = one_line(store.vocab.names[taken])
            yield f'{one_line(name)} is taken for {known}; it may also be\n{listed}'


def candidates(store: FactStore, entities: Sequence[int], write: Callable[[str], str]) -> str:
    """Entities that a name may mean, a line each: `write`'s name, kind, and a sentence."""
    kinds, name = store.vocab.kinds, store.linker.unique_name
    lines = (
        f'  {one_line(write(name(e)))} ({kinds[e]}): {hanging(_about(store, e), 4)}'
        for e in entities
    )
    return '\n'.join(lines)


def _about(store: FactStore, entity: int) -> str:
    """A sentence of the document about an entity, or one that mentions it."""
    about = np.flatnonzero(store.prepared.passages['title_entity'].to_numpy() == entity)
    if len(about):
        passage = store.prepared.passage(int(about[0]))
        return passage['text'][slice(*[*passage['sentence_starts'], None][:2])].strip()
    said, _ = facts_about(store, entity, 0, 1)
    return said[0].sentence or '' if said else 'no fact is known'
