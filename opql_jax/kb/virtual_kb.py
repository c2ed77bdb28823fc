"""A virtual knowledge base: text, a memory of it, and a trained model that answers questions from both."""

import contextlib
import dataclasses
import functools
import gc
import hashlib
import os
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import ManifestError, is_folder_of
from opql_jax.corpus.json_lines import check_string, shown
from opql_jax.corpus.question_linking import Named, QuestionLinker, followed, near_spellings, written_as_names
from opql_jax.corpus.questions import Question, check_text, parse_bracketed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb import paths
from opql_jax.kb.answers import Answer
from opql_jax.kb.sets import query, query_language
from opql_jax.kb.sets.entity_set import EntitySet
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.text import comparison, question_plans
from opql_jax.kb.text.evidence_finder import EvidenceFinder
from opql_jax.kb.text.polarity import denies_answer
from opql_jax.kb.text.question_plans import is_question
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.kb.text.text_answerer import TextAnswerer
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.models import released
from opql_jax.models.question_map import QuestionMap
from opql_jax.models.reader import Reader
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import IndexFolder
from opql_jax.retrieval.words import words_of

if TYPE_CHECKING:
    from opql_jax.kb.text.change_text import Change

# Questions answered together.
_BATCH = 64
# Answers of which it is looked at whether their sentence denies them, and what it leaves of their probability.
_LOOKED_AT, _DENIED = 3, 0.3
# Words of a question that names nothing, function words aside: 'who wrote it?' cannot be answered.
_FEWEST_WORDS = 2


class VirtualKB:
    """Answers multi-hop questions with whatever model a folder holds: a released encoder, a follower or a language model.

    Attributes:
        prepared, vocab: the text and its entities.
        memory: what the model searches; None for a language model without a memory.
        entity_table: E [n_entities, d_e] float32, with the rows of entities that were injected; None under a released encoder.
        memory_is_of_text: whether entries of the memory were read in `prepared`, rather than in other text such as triples.
        folder: what it was opened from; None if it was put together otherwise.
    """

    def __init__(
        self,
        prepared: Prepared,
        encoder,
        params,
        memory: Memory | None,
        objective=None,
        index: IndexFolder | None = None,
        question_map: QuestionMap | None = None,
        reader: bool = False,
    ):
        """Puts together what `open` has opened and checked.

        Without an objective the encoder is a released one, with an index and, if questions were trained on, a map of questions;
        `reader` says whether the released reader is loaded with the first question.
        """
        self._has_reader = reader
        self.prepared, self.memory, self._params = prepared, memory, params
        self.vocab = prepared.vocab.with_kinds(index.kinds) if index and index.kinds else prepared.vocab
        self.entity_table = np.asarray(params['entity_table']) if objective else None
        self.folder: KBFolder | None = None
        self._release: Callable[[], object] = lambda: None
        self._encoder, self._index = encoder, index
        self._answerer: Any
        if objective is None:
            assert memory is not None and index is not None  # `index_text` writes both
            self._answerer = TextAnswerer(prepared, encoder, memory, index, question_map)
        else:
            from opql_jax.kb.trained import (
                trained_model,  # here, as training takes a second to import, and plain text needs none of it
            )

            self._answerer = trained_model.make_answerer(prepared, encoder, params, memory, objective)
        self.memory_is_of_text = getattr(objective, 'own_text', True)

    @classmethod
    def open(
        cls,
        kb: str | os.PathLike,
        *,
        text: str | None = None,
        model: str | None = None,
        memory: str | None = None,
        step: int | None = None,
        k: int | None = None,
        exclude_topic: bool | None = None,
        filter: bool | None = None,
        reader: bool = False,
    ) -> 'VirtualKB':
        """Opens the knowledge base in a folder.

        Args:
            kb: the folder, see `KBFolder`. What it answers with are the parts that its manifest names, or these:
            text: prepared text: that which the memory was made of, or the newest that was injected into it. It is the model's, or
                continues that.
            model: a follower or a language model.
            memory: the memory that the model was trained over, as it was then or updated since, or another one that the same
                encoder built. None also for a language model that was trained without one.
            step: checkpoint to use; the newest if None.
            k: memory entries per hop.
            exclude_topic: a path never returns to its topic.
            filter: a hop searches the rows of its topics only. These three are as in training if None.
            reader: whether the reader that comes with the package reads the passages that are found for a question over plain text,
                and answers from these, too. That takes several times as long.

        Raises:
            CheckpointError: the model answers no questions, or was trained with another vocabulary or another encoder's memory.
            InputError: no manifest says what answers, or the memory is unfinished, damaged, or of other text.
        """
        if k is not None and k < 1:
            raise InputError(f'k={k}: give a number of entries of at least 1')
        settings = {'step': step, 'k': k, 'exclude_topic': exclude_topic, 'filter': filter}
        folder = KBFolder(kb)
        with contextlib.ExitStack() as held:
            answering = held.enter_context(folder.hold()) if model is None and folder.manifest.exists() else None
            opened = cls._open(folder, answering, text, model, memory, settings, reader)
            opened.folder = folder
            opened._release = weakref.finalize(opened, held.pop_all().close)
            return opened

    def close(self) -> None:
        """Lets go of its files: of locks that keep this version on disk, memory maps and descriptors, as dropping the object does.

        Afterwards neither it nor its answers and sets can be asked anything: InputError says so. To close it again does nothing.
        """
        release, memory = self._release, self.memory
        self.__class__ = _Closed  # type: ignore[assignment]  # first, so that another thread is told
        vars(self).clear()
        release()
        if memory is not None:
            memory.close()
        gc.collect()  # `SetEvaluator` refers to itself, and to the memory maps

    def __enter__(self) -> 'VirtualKB':
        return self

    def __exit__(self, *_) -> None:
        self.close()

    @classmethod
    def _open(
        cls, folder: KBFolder, answering: dict[str, str | None] | None, text, model, memory, settings, reader: bool
    ) -> 'VirtualKB':
        """`open`, while the parts that the manifest states, `answering`, stay on disk; None if it is not asked."""
        step = settings.pop('step')
        if answering and answering.get('retrieval'):
            parts = answering | {name: value for name, value in (('text', text), ('memory', memory)) if value is not None}
        else:
            parts = folder.choose(text=text, model=model, memory=memory)
        is_plain_text = model is None and parts.get('retrieval') is not None
        prepared, model_dir = Prepared(folder.part(parts['text'])), folder.part(parts['model'])
        if is_plain_text or is_folder_of(model_dir, released.FORMAT):
            try:
                released_encoder = TextEncoder.load(model_dir)
            except ManifestError as error:
                if not is_plain_text:
                    raise
                raise ManifestError(
                    f'{error}, or run `opql index` again with the same sources, which writes it anew'
                ) from error
            encoder_hash = params_hash(released_encoder.params)
            found = Memory.open(folder.part(parts['memory']), encoder_hash)
            found.check_vocabulary(prepared.vocab)
            covered(found, prepared)
            stated = answering or folder.read()
            if not (retrieval := stated.get('retrieval')):
                raise InputError(f'{folder.manifest} names no index of passages: make the knowledge base with `opql index`')
            index = IndexFolder(folder.part(retrieval))
            of_text, width = (len(prepared.passages), len(prepared.vocab)), released_encoder.module.hidden_size
            if (index.manifest.passages, index.manifest.entities, index.manifest.dim) != (*of_text, width):
                raise InputError(f'{folder.part(retrieval)} is of other text: delete it and run `opql index` again')
            if (found.manifest.num_entities, found.manifest.relation_dim) != (of_text[1], released_encoder.dim):
                raise InputError(f'{found.directory} is of other text: delete it and run `opql index` again')
            if any(setting is not None for setting in (step, *settings.values())):
                raise InputError(f'{model_dir} is a released encoder, which has no step, k, exclude_topic or filter to choose')
            question_map = None
            if part := stated.get('question_map'):
                question_map = QuestionMap.read(folder.part(part), encoder_hash)
                if len(question_map.change) != released_encoder.dim:
                    raise InputError(f'{folder.part(part)} is of another encoder: delete it and run `opql train` again')
            params = released_encoder.params
            return cls(prepared, released_encoder, params, found, index=index, question_map=question_map, reader=reader)
        from opql_jax.kb.trained import trained_model  # as above

        settings = {name: value for name, value in settings.items() if value is not None}
        return cls(prepared, *trained_model.open_model(folder, parts, memory, prepared, step, settings))

    def update(self) -> contextlib.AbstractContextManager['Change']:
        """Changes the text of the knowledge base, see `change_text.change`; this object keeps the version that it opened.

        Raises:
            InputError: it was not opened from a folder that `opql index` made.
        """
        if self.folder is None:
            raise InputError('only what was opened from a folder can be updated')
        from opql_jax.kb.text.change_text import change  # here, as it imports all that makes a knowledge base

        return change(self.folder.path)

    @property
    def text_answerer(self) -> TextAnswerer:
        """What answers over plain text.

        Raises:
            InputError: another model answers.
        """
        if not isinstance(self._answerer, TextAnswerer):
            raise InputError(
                'a trained model answers here, no released encoder: make a knowledge base of plain text with `opql index`'
            )
        return self._answerer

    @functools.cached_property
    def identity(self) -> str:
        """Hex sha256 of everything that answers depend on: parameters, memory, tokenizer, settings."""
        memory = '' if self.memory is None else self.memory.hash()
        parts = params_hash(self._params), memory, self.prepared.tokenizer.to_str(), self._answerer.settings
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()

    def answer(self, questions: list[Question]) -> list[Answer]:
        """Answers questions, which may be of different numbers of hops.

        A follower starts from the entity of the first topic, and answers nothing if that is unknown; a language model reads all
        topics and links them itself. A released encoder starts from all topics, and takes as many hops as a question seems to need; where they
        lead to nothing that is asked for, or the question has none, it looks at the sentences most like the question. Comparisons, and
        questions of yes or no, are answered by plain questions about what they name, see `comparison`.

        Raises:
            InputError: a question is longer than the encoder reads, or has more hops than the model.
        """
        answers = self._answer(questions)
        return [dataclasses.replace(answer, kb=self, question=question) for answer, question in zip(answers, questions)]

    def _answer(self, questions: list[Question]) -> list[Answer]:
        if isinstance(self._answerer, TextAnswerer):
            compared = [comparison.answer(question, self.vocab.kinds, self._answer_plain) for question in questions]
            others = iter(self._answer_each([one for one, found in zip(questions, compared) if found is None]))
            return [next(others) if found is None else found for found in compared]
        answers = {}
        for hops in sorted({q.hops for q in questions}):
            members = [i for i, q in enumerate(questions) if q.hops == hops]
            for start in range(0, len(members), _BATCH):
                batch = members[start : start + _BATCH]
                answers |= zip(batch, self._answerer.answer([questions[i] for i in batch], hops))
        return [answers[i] for i in range(len(questions))]

    def _answer_plain(self, texts: Sequence[str]) -> list[Answer]:
        """The answers to questions that another rests on; there is none to one that names nothing of the text."""
        linked = [self.linker.link(text) for text in texts]
        questions = [_linked_question(text, names) for text, names in zip(texts, linked)]
        found = iter(self._answer_each([question for question in questions if question.topics]))
        nothing = Answer(np.zeros(0, np.int64), np.zeros(0, np.float32), ())
        return [
            next(found) if question.topics else dataclasses.replace(nothing, kb=self, question=question)
            for question in questions
        ]

    def _answer_each(self, questions: list[Question]) -> list[Answer]:
        """Answers questions that compare nothing. One whose kind is out of reach has no probability, and says so."""
        answers = []
        evidence = self.evidence_finder.find(questions) if self._has_reader else None
        for question, found in zip(questions, self._answerer.answer(questions, evidence)):
            found = dataclasses.replace(found, kb=self, question=question)
            if question_plans.out_of_reach(question.text):
                said = [
                    fact.sentence or ''
                    for entity in found.entities[:1]
                    for path in found.paths(int(entity), 1)
                    for fact in path
                ]
                if note := question_plans.out_of_reach(question.text, ' '.join(said)):
                    found = dataclasses.replace(found, probabilities=None, note=note)
            answers.append(_without_denied(found))
        return answers

    def ask(self, text: str, hops: int = 1) -> Answer:
        """Answers `text`, whose topic stands in square brackets; a released encoder finds its topics itself where there are none.

        Raises:
            InputError: there are no brackets, or an unknown entity in them, of which it names the nearest; or what seems to be a name is
                none of the text.
        """
        return self.answer([self.question(text, hops)])[0]

    def question(self, text: str, hops: int = 1) -> Question:
        """The question that `ask` answers."""
        check_text('the question', text)
        if not isinstance(hops, int | np.integer) or hops < 1:
            raise InputError(f'hops: expected a number of at least 1, found {shown(hops)}')
        if isinstance(self._answerer, TextAnswerer) and not (text.count('[') == text.count(']') == 1):
            return self._linked(text)
        text, topic = parse_bracketed(text)
        entity = self.vocab.get(name := text[slice(*topic)])
        if entity is None:
            # A language model links the topic itself; for a follower this raises, naming the nearest entities.
            entity = -1 if self._answerer.links_topics else self.vocab.id(name)
        return Question('ask', text, (topic,), (entity,), hops=hops)

    def retrieve(self, questions: str | Sequence[str], k: int = 5) -> Any:
        """The k documents that answer a question best, as `retrieve.Documents`, or a list of those for several.

        Raises:
            InputError: the knowledge base has no index of its passages, a question is blank, or k is below 1.
        """
        retriever = self.retriever
        if not isinstance(k, int | np.integer) or k < 1:
            raise InputError(f'k: expected a number of at least 1, found {shown(k)}')
        if not isinstance(questions, str) and not hasattr(questions, '__len__'):
            raise InputError(f'questions: expected a string or a list of them, found {shown(questions)}')
        texts = [questions] if isinstance(questions, str) else list(questions)
        for text in texts:
            check_text('the question', text)
        found = retriever.retrieve(texts, k)
        return found[0] if isinstance(questions, str) else found

    @functools.cached_property
    def retriever(self) -> Retriever:
        """What ranks passages; reads the whole index of them.

        Raises:
            InputError: the knowledge base has no index of its passages.
        """
        if self._index is None:
            raise InputError('this knowledge base has no index of its passages: make one of its text with `opql index`')
        assert self.memory is not None  # `index_text` writes both
        index = self._index.load()
        return Retriever(index, self.prepared, self.memory, self._encoder, lambda text: self.linker.link(text))

    @functools.cached_property
    def evidence_finder(self) -> EvidenceFinder:
        """What finds the passages that answers over plain text rest on, and reads them."""
        return EvidenceFinder(self.prepared, self.retriever, Reader.load())

    def _linked(self, text: str) -> Question:
        """A question in plain words, with the names that it mentions for its topics, see `followed`.

        There are none if it is English, has no word with a capital that the text lacks, and enough words to find sentences by.
        """
        found = self.linker.link(text)
        if not found and not (is_question(text) and self._is_of_text(text)):
            hint = near_spellings(text, self.vocab) or '. Questions are read in English'
            raise InputError(f'the question mentions no name that the text has: {shown(text)}{hint}')
        return _linked_question(text, found)

    def _is_of_text(self, text: str) -> bool:
        assert self._index is not None  # `index_text` writes it
        names = [word for start, end in written_as_names(text) for word in words_of(text[start:end])]
        return len(words_of(text)) >= _FEWEST_WORDS and all(word in self._index.passages_with_word for word in names)

    @functools.cached_property
    def linker(self) -> QuestionLinker:
        """Finds the names of entities in plain words."""
        return QuestionLinker(self.vocab)

    def entity(self, name: str) -> EntitySet:
        """The set of one entity, from which relations are followed: `kb.entity('Ingrid Solberg').follow('directed')`.

        Raises:
            InputError: an unknown name, with the nearest ones; an ambiguous one, with a sentence about each entity that it may mean; or
                another model than a released encoder answers here.
        """
        check_string('entity', name)
        return EntitySet(self, query.Entity(name))

    def query(self, text: str) -> EntitySet:
        """The set that a query names: `kb.query('Ingrid Solberg . directed . starring - Anna Weiss')`, see `query_language`.

        Raises:
            InputError: no query, or an unknown or ambiguous name as in `entity`; says at which column. Or lark is not installed.
        """
        check_string('query', text)
        return EntitySet(self, query_language.parse(text))

    @functools.cached_property
    def sets(self) -> SetEvaluator:
        """Evaluates queries, see `entity_set`."""
        return SetEvaluator(self)

    def evidence(self, entries) -> list[dict]:
        """Where memory entries were read: `{topic, target, title, sentence}` for each id in turn.

        The sentence is the one that mentions the target, after the one that mentions the topic if that is another. A memory of
        other text, such as a knowledge base's triples, gives `{topic, target}`.
        """
        return [
            {'topic': fact.topic, 'target': fact.target}
            | ({} if fact.title is None else {'title': fact.title, 'sentence': fact.sentence})
            for fact in paths.facts(self, np.asarray(entries, np.int64), np.ones(len(entries)))
        ]


def _without_denied(answer: Answer) -> Answer:
    """An answer in which what is denied by the sentence that it rests on is unlikely, and comes after what is not."""
    if answer.probabilities is None or not len(answer):
        return answer
    factors = np.ones(len(answer), np.float32)
    for place, entity in enumerate(answer.entities[:_LOOKED_AT].tolist()):
        path = next(iter(answer.paths(entity, 1)), ())
        if path and denies_answer(path[-1], answer.question.text):
            factors[place] = _DENIED
    if (factors == 1).all():
        return answer
    probabilities = answer.probabilities * factors
    order = np.argsort(-probabilities, kind='stable')
    best = {name: getattr(answer, name)[order] for name in ('entities', 'weights')}
    note = answer.note or ('the text denies the first answer, or says that it was so once' if factors[order[0]] < 1 else '')
    return dataclasses.replace(answer, **best, probabilities=probabilities[order], note=note)


def _linked_question(text: str, names: Sequence[Named]) -> Question:
    """A question with the names that it mentions for its topics, see `followed`."""
    topics, others = followed(names)
    spans, entities = tuple((named.start, named.end) for named in topics), tuple(named.entities[0] for named in topics)
    return Question('ask', text, spans, entities, left_out=tuple(text[named.start : named.end] for named in others))


class _Closed(VirtualKB):
    """A knowledge base that was closed, and has nothing left to answer with."""

    def close(self) -> None:
        pass

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith('__'):  # which Python asks for
            raise AttributeError(name)
        raise InputError('this knowledge base was closed: open it again')
