"""Names in questions that several entities have, or none: which are meant, or near."""

import re
from collections.abc import Callable, Container, Iterator, Sequence

import numpy as np

from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus import tables
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.name_resolution import fold, is_one_word
from opql_jax.corpus.question_linking import Named, written_as_names
from opql_jax.corpus.questions import Question
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import facts_about
from opql_jax.retrieval.words import words_of

# Other meanings of a name that a note lists, and unknown names that one tells.
_LISTED, _TOLD = 5, 3
_FIRST_WORD = re.compile(r'(?:^|[.?!:]\s)\s*\S+')


def unknown_names(text: str, found: Sequence[Named], words: Container[str]) -> tuple[str, ...]:
    """What is written as a name in a question, and has words that no passage has.

    First words of sentences, which have a capital anyway, count only where no name is found.

    Args:
        text: of the question.
        found: the names in it that the text has.
        words: of all passages.
    """
    known = [(each.start, each.end) for each in found]
    known += [match.span() for match in _FIRST_WORD.finditer(text)] if found else ()
    others = list(text)
    for start, end in known:
        others[start:end] = ' ' * (end - start)
    is_known = lambda start, end: all(
        word in words for word in words_of(''.join(others[start:end]))
    )
    return tuple(text[slice(*span)] for span in written_as_names(text) if not is_known(*span))


def unknown_note(names: Sequence[str]) -> str:
    """The note of an answer on names that the text does not have; '' without any."""
    return f'the text has no name {" or ".join(map(short_repr, names[:_TOLD]))}' if names else ''


def notes_on_names(store: FactStore, question: Question) -> Iterator[str]:
    """What to know about names in a question: which are unknown, what else others may mean."""
    vocab, linker = store.vocab, store.linker
    if question.unknown:
        near = vocab.did_you_mean(question.unknown[:1])  # of one, as all names are looked through
        yield unknown_note(question.unknown) + near
    if store.memory is None:
        return
    for (start, end), taken in zip(question.topics, question.entities):
        name, known = question.text[start:end], vocab.names[taken]
        means = [entity for entity in linker.meanings(name) if entity != taken]
        others = [one for one in means if not _is_variant(known, vocab.names[one])]
        if others and ' ' not in fold(name):
            # Of a short name the text may not say whom it means; that a document is about does.
            may_mean = [entity for named in linker.link(name) for entity in named.entities]
            about = tables.numbers(store.prepared.passages['title_entity'])
            if np.isin(may_mean, about).any():
                others = [one for one in others if fold(vocab.names[one]) != fold(known)]
        if others:
            listed = candidates(store, others[:_LISTED], '[{}]'.format)
            yield f'{one_line(name)} is taken for {one_line(known)}; it may also be\n{listed}'


def _is_variant(name: str, other: str) -> bool:
    """Whether no word tells two unlike names apart: 'F. Schubert' and 'Franz Schubert'."""
    short, long = sorted((fold(name).split(), fold(other).split()), key=len)
    return short != long and all(any(is_one_word(word, one) for one in long) for word in short)


def candidates(store: FactStore, entities: Sequence[int], write: Callable[[str], str]) -> str:
    """Entities that a name may mean, a line each: `write`'s name, kind, and a sentence."""
    kinds, name = store.vocab.kinds, store.linker.unique_name
    line = lambda e: f'  {one_line(write(name(e)))} ({kinds[e]}): {hanging(_about(store, e), 4)}'
    return '\n'.join(map(line, entities))


def _about(store: FactStore, entity: int) -> str:
    """A sentence of the document about an entity, or one that mentions it."""
    about = np.flatnonzero(store.prepared.passages['title_entity'].to_numpy() == entity)
    if len(about):
        passage = store.prepared.passage(int(about[0]))
        return passage['text'][slice(*[*passage['sentence_starts'], None][:2])].strip()
    said, _ = facts_about(store, entity, 0, 1)
    return said[0].sentence or '' if said else 'no fact is known'
