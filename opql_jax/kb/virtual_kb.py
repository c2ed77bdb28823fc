"""An open knowledge base: what those of plain text and of a trained model share."""

import abc
import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import check_count, check_string, short_repr
from opql_jax.corpus.question_linking import QuestionLinker
from opql_jax.corpus.questions import Question, check_text
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb import paths
from opql_jax.kb.answers import Answer
from opql_jax.kb.fact_store import Closeable, FactStore
from opql_jax.kb.sets import query_language
from opql_jax.kb.sets.entity_set import EntitySet
from opql_jax.kb.sets.query import Entity
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.text.retrieve import READ, Retriever, judged
from opql_jax.kb.text.text_answerer import TextAnswerer
from opql_jax.kb.weighted_entities import WeightedEntities
from opql_jax.memory.format import Memory
from opql_jax.models.reader import Reader

if TYPE_CHECKING:
    from opql_jax.kb.text.change_text import Change


class VirtualKB(Closeable, abc.ABC):
    """Answers multi-hop questions: a `TextKB`, or the `TrainedKB` of a follower or language model.

    Once closed, neither it nor its answers and sets can be asked anything: InputError says so.

    Attributes:
        folder: what it was opened from.
        store: its text, entities and memory, also as `prepared`, `vocab` and `memory`.
    """

    def __init__(self, folder: KBFolder, store: FactStore, params, answerer):
        """Takes the parameters and the settings of the answerer for its `identity`."""
        self.folder, self.store = folder, store
        self._params, self._answerer = params, answerer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @property
    def prepared(self) -> Prepared:
        return self.store.prepared

    @property
    def vocab(self) -> EntityVocab:
        return self.store.vocab

    @property
    def memory(self) -> Memory | None:
        return self.store.memory

    @property
    def linker(self) -> QuestionLinker:
        """Finds the names of entities in plain words."""
        return self.store.linker

    @functools.cached_property
    def identity(self) -> str:
        """Hex sha256 of what answers depend on: parameters, memory, tokenizer, settings."""
        memory = '' if self.memory is None else self.memory.hash()
        tokenizer, settings = self.prepared.tokenizer.to_str(), self._answerer.settings
        parts = params_hash(self._params), memory, tokenizer, settings
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()

    @abc.abstractmethod
    def answer(self, questions: list[Question]) -> list[Answer]:
        """Answers questions, which may be of different numbers of hops.

        InputError: a question is longer than the encoder reads, or has more hops than the model.
        """

    def _of(self, answer: Answer, question: Question) -> Answer:
        """An answer of a model, which then knows what was asked of whom."""
        return dataclasses.replace(answer, store=self.store, question=question)

    def ask(self, text: str, hops: int = 1) -> Answer:
        """Answers `text`, whose topic is in square brackets, or found if it is over plain text.

        `hops` are the relations from the topic to the answer; over plain text the question itself
        says how many. InputError: there are no brackets, or an unknown entity in them, of which it
        names the nearest; or what seems to be a name is none of the text.
        """
        return self.answer([self.question(text, hops)])[0]

    def question(self, text: str, hops: int = 1) -> Question:
        """The question that `ask` answers."""
        check_text('the question', text)
        return self._question(text, check_count('hops', hops))

    @abc.abstractmethod
    def _question(self, text: str, hops: int) -> Question: ...

    def find(self, text: str, hops: int = 1) -> WeightedEntities:
        """What all interfaces show: a query's set, or else a question's answer, see `ask`."""
        return self.query(text) if query_language.is_query(text) else self.ask(text, hops)

    def evidence(self, entries: Sequence[int] | np.ndarray) -> list[dict]:
        """Where memory entries were read, see `paths.evidence_of`."""
        return paths.evidence_of(self.store, np.asarray(entries, np.int64))

    def update(self) -> contextlib.AbstractContextManager['Change']:
        """Changes plain text, see `change_text.change`; this object keeps the version it opened."""
        # Here, as it imports all that makes a knowledge base.
        from opql_jax.kb.text.change_text import change

        return change(self.folder.path)

    # ---- What there is over plain text only ----

    def entity(self, name: str) -> EntitySet:
        """The set of one entity, as in `kb.entity('Ingrid Solberg').follow('directed')`.

        InputError: an unknown name, with the nearest ones; an ambiguous one, with a sentence about
        each entity that it may mean; or a trained model answers here.
        """
        check_string('entity', name)
        return EntitySet(self.sets, Entity(name))

    def query(self, text: str) -> EntitySet:
        """The set that a query names: 'Ingrid Solberg . directed . starring - Anna Weiss'.

        InputError, with the column: no query (see `query_language`), or a name as in `entity`.
        """
        check_string('query', text)
        return EntitySet(self.sets, query_language.parse(text))

    @property
    @abc.abstractmethod
    def sets(self) -> SetEvaluator:
        """Evaluates queries, see `entity_set`; InputError where a trained model answers."""

    @property
    def text_answerer(self) -> TextAnswerer:
        """What follows relations over plain text; InputError where a trained model answers."""
        return self.sets.answerer

    def retrieve(self, questions: str | Sequence[str], k: int = 5, *, read: bool = False) -> Any:
        """The k documents that best answer a question, as `retrieve.Documents`, or a list of those.

        With `read` they have probabilities, by the reader, which takes several times as long: low
        ones if the text does not answer the question, though it has its names. It also ranks.
        InputError: the knowledge base has no index of its passages, or a question is blank.
        """
        retriever, k = self.retriever, check_count('k', k)
        if not isinstance(questions, str) and not hasattr(questions, '__len__'):
            expected = f'expected a string or a list of them, found {short_repr(questions)}'
            raise InputError(f'questions: {expected}')
        texts = [questions] if isinstance(questions, str) else list(questions)
        for text in texts:
            check_text('the question', text)
        # Those read together are the same for any k, and so their probabilities: an odd number.
        found = retriever.retrieve(texts, max(k + (k + 1) % 2, READ) if read else k)
        found = [judged(documents, Reader.load(), k) for documents in found] if read else found
        return found[0] if isinstance(questions, str) else found

    @property
    @abc.abstractmethod
    def retriever(self) -> Retriever:
        """What ranks passages and reads the whole index; InputError where there is none."""
