"""What answers and sets look up: an open knowledge base's text, entities and memory."""

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.question_linking import QuestionLinker
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory


class Closeable:
    """An object that can be closed, with such parts; any use of it is an InputError then."""

    def close(self) -> None:
        """Releases all that it refers to; closing it again does nothing."""
        attributes = vars(self)
        # A list first: another thread may add a cached property meanwhile.
        parts = [part for part in list(attributes.values()) if isinstance(part, Closeable)]
        attributes.clear()  # first, so that another thread is told
        attributes['_is_closed'] = True
        for part in parts:
            part.close()

    if not TYPE_CHECKING:  # where it would give a type to any name

        def __getattr__(self, name: str):  # which Python calls where there is no such attribute
            if '_is_closed' in vars(self) and not name.startswith('__'):
                raise InputError('this knowledge base was closed: open it again')
            raise AttributeError(f'{type(self).__name__} has no attribute {name!r}')


class FactStore(Closeable):
    """The text and the memory of an open knowledge base.

    The knowledge base, its answers and its sets refer to it, and it refers to none of them: files
    and locks are released once it is closed, or the last of these is dropped.

    Attributes:
        memory: the facts that were read in it; None for a language model without a memory.
        memory_is_of_text: whether these were read in `prepared`, not in triples or other text.
    """

    def __init__(
        self,
        prepared: Prepared,
        vocab: EntityVocab,
        memory: Memory | None,
        memory_is_of_text: bool = True,
    ):
        self.prepared, self.vocab, self.memory = prepared, vocab, memory
        self.memory_is_of_text = memory_is_of_text
        self._release: Callable[[], object] = lambda: None

    def hold(self, locks: contextlib.ExitStack) -> None:
        """Keeps locks, which keep a version on disk, until the store is closed or dropped."""
        self._release = weakref.finalize(self, locks.close)

    def close(self) -> None:
        held = vars(self).copy()
        super().close()
        if '_release' in held:  # else it was closed before
            held['_release']()
            if held['memory'] is not None:
                held['memory'].close()

    @functools.cached_property
    def linker(self) -> QuestionLinker:
        """Finds the names of entities in plain words."""
        return QuestionLinker(self.vocab)
