"""A knowledge base of plain text, answered by a released encoder that was not trained on it."""

import dataclasses
import functools
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from opql_jax.core.checkout import RELEASED_READER
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import ManifestError
from opql_jax.corpus.defined_terms import defines
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.question_linking import Named, followed, near_spellings
from opql_jax.corpus.questions import Question, parse_bracketed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.ambiguous_names import unknown_names
from opql_jax.kb.answers import Answer, Hop
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import facts
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.text import choices, comparison, question_plans, stated, yes_or_no
from opql_jax.kb.text.candidates import Evidence
from opql_jax.kb.text.evidence_finder import EvidenceFinder
from opql_jax.kb.text.polarity import denies_answer, has_left
from opql_jax.kb.text.question_plans import is_question
from opql_jax.kb.text.retrieve import Retriever
from opql_jax.kb.text.text_answerer import Read, TextAnswerer
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.memory.coverage import covered
from opql_jax.memory.format import Memory
from opql_jax.models import released
from opql_jax.models.question_map import QuestionMap
from opql_jax.models.reader import Reader
from opql_jax.models.text_encoder import TextEncoder
from opql_jax.retrieval.index import IndexFolder
from opql_jax.retrieval.words import words_of

# Answers whose sentences are checked for a denial or a statement, and the factor of the probability
# of one that is denied.
LOOKED_AT, _DENIED = 3, 0.3
# Questions for what a defined term means, the number of its facts searched for the definition, and
# the probability that the name before the definition is the one that is meant.
_WHO_IS = re.compile(
    r"(?:who|what)(?:['’]s| (?:is|are|was|were|does|do)) (?:the )?[\"“]?(.+?)[\"”]?"
    r'(?: (?:stand|short) for| mean)?',
    re.I,
)
_DEFINING, _DEFINED = 64, 0.8
# Words by which a question that names nothing finds sentences, function words aside, where the text
# has none of them.
_FEWEST_WORDS = 2


class TextKB(VirtualKB):
    """Text, a memory and an index of its passages, and a released encoder."""

    _answerer: TextAnswerer

    def __init__(
        self,
        folder: KBFolder,
        prepared: Prepared,
        encoder: TextEncoder,
        memory: Memory,
        index: IndexFolder,
        question_map: QuestionMap | None = None,
        reader: bool | None = None,
    ):
        """Puts together what `open_text` has checked.

        If `reader`, the released one, which the first question loads, reads passages. What a
        `question_map` has learnt is of answers without it, so None reads if there is no such map.
        """
        vocab = prepared.vocab.with_kinds(index.kinds) if index.kinds else prepared.vocab
        answerer = TextAnswerer(prepared, encoder, memory, index, question_map)
        super().__init__(folder, FactStore(prepared, vocab, memory), encoder.params, answerer)
        self._encoder, self._index = encoder, index
        self._has_reader = question_map is None if reader is None else reader
        self._sets = SetEvaluator(self.store, answerer)

    @property
    def identity(self) -> str:
        if not self._has_reader:
            return super().identity
        parts = super().identity, released.weights_hash(RELEASED_READER, released.READER_FORMAT)
        return hashlib.sha256('\0'.join(parts).encode()).hexdigest()

    @property
    def sets(self) -> SetEvaluator:
        return self._sets

    def answer(self, questions: list[Question]) -> list[Answer]:
        """Answers questions, from all of their topics, in as many hops as each seems to need.

        Where these lead to nothing that is asked for, it looks at the sentences most like the
        question. 'Who is the Tenant?' is answered by the name for which the text defines that term.
        Comparisons, and questions of yes or no, are answered by plain questions about what they
        name, see `comparison`, or by a sentence that says what they ask, see `yes_or_no`.
        InputError: a question is longer than the encoder reads.
        """
        read = self.read if self._has_reader else None
        compared, plainly = [], functools.partial(self._answer_plain, read=read)
        for question in questions:
            answer = comparison.answer(question, self.vocab.kinds, plainly)
            if answer is None:
                answer = self._defined(question)
            if read and not (answer and answer.is_sure):
                answer = self._yes_or_no(question, answer, read)
            compared.append(answer)
        plain = [one for one, found in zip(questions, compared) if found is None]
        others = iter(self._answer_each(plain, read))
        answers = (next(others) if answer is None else answer for answer in compared)
        return list(map(self._of, answers, questions))

    def _yes_or_no(self, question: Question, answer: Answer | None, read: Read) -> Answer | None:
        """Yes or no by a sentence that says what is asked, or denies it; else what was found."""
        if not question_plans.YES_OR_NO.match(question.text):
            return answer
        (found,) = self._answerer.answer([question], read)
        found = self._of(found, question)
        if (said := yes_or_no.stated(found)) and (said.is_sure or not answer or not len(answer)):
            return said
        if answer is None and (said := yes_or_no.likelier(found)):
            return said
        return self._reached(found, read) if answer is None else answer

    def _defined(self, question: Question) -> Answer | None:
        """The name for which the text defines the term that a question asks for; else None."""
        asked = _WHO_IS.fullmatch(question.text.strip(' \t\n?'))
        if not asked or len(means := self.linker.meanings(asked[1])) != 1:
            return None
        memory = self.store.memory
        assert memory is not None  # that of plain text
        ids = memory.ids[np.flatnonzero(memory.target[:] == means[0])[:_DEFINING]]
        one = np.ones(1, np.float32)
        for place, fact in enumerate(facts(self.store, ids, np.ones(len(ids)))):
            if defines(fact.sentence or '', asked[1]):
                hop = Hop(np.array(means), one, ids[place : place + 1], one)
                return Answer(np.array(means), one, ((hop,),), _DEFINED * one)
        return None

    def _answer_plain(self, texts: Sequence[str], read: Read | None) -> list[Answer]:
        """The answers to questions that another rests on; none where the text is not named."""
        questions = [_linked_question(text, self.linker.link(text)) for text in texts]
        asked = [each for each in questions if each.topics]
        found = iter(self._answer_each(asked, read))
        return [next(found) if each.topics else self._of(Answer(), each) for each in questions]

    def _answer_each(self, questions: list[Question], read: Read | None) -> list[Answer]:
        """Answers questions that compare nothing; one out of reach has a note, no probability.

        What no sentence states in words for an answer is less likely.
        """
        found = map(self._of, self._answerer.answer(questions, read), questions)
        reached = [self._reached(one, read) for one in found]
        return [_weighed(one, functools.partial(stated.left, one)) for one in reached]

    def _reached(self, found: Answer, read: Read | None) -> Answer:
        """What was found for a question that compares nothing, as far as it may answer that."""
        question = found.question
        why = question_plans.out_of_reach(question.text)
        compares = question_plans.compares(question.text)
        if read and (compares or not why) and (sides := self._answerer.offered(question)):
            note = 'this compares in a way that is not understood: the reader chose'
            return choices.chosen(_without_denied(found), sides, note if compares else '')
        if why:
            paths = found.paths(int(found.entities[0]), 1) if len(found) else []
            said = ' '.join(fact.sentence or '' for path in paths for fact in path)
            if note := question_plans.out_of_reach(question.text, said):
                found = dataclasses.replace(found, probabilities=None, note=note)
        return _without_denied(found)

    def _question(self, text: str, hops: int) -> Question:
        """A question whose topic is in brackets; or a plain one, with its names for topics."""
        if text.count('[') == text.count(']') == 1:
            text, topic = parse_bracketed(text)
            return Question('ask', text, (topic,), (self.vocab.id(text[slice(*topic)]),), hops=hops)
        found = self.linker.link(text)
        unknown = unknown_names(text, found, self._index.passages_with_word)
        # Beside an unknown name a single word in lower case is none: 'Where did Zorblatt die?'.
        if unknown and all(text[each.start : each.end].islower() for each in found):
            found = [each for each in found if ' ' in text[each.start : each.end]]
        # Without a name, sentences are found by its words: some that the text has, or English ones.
        is_english, words = is_question(text), words_of(text)
        has_words = any(map(self._index.passages_with_word.get, words))
        is_plain = not unknown and (has_words or is_english and len(words) >= _FEWEST_WORDS)
        if not (found or is_plain):
            hint = near_spellings(text, self.vocab)
            hint = hint or ('' if is_english and unknown else '. Questions are read in English')
            nameless = 'the question mentions no name that the text has'
            raise InputError(f'{nameless}: {short_repr(text)}{hint}')
        return dataclasses.replace(_linked_question(text, found), unknown=unknown)

    @functools.cached_property
    def retriever(self) -> Retriever:
        return Retriever(self._index.load(), self.store, self._encoder)

    def read(
        self,
        questions: Sequence[Question],
        followed: Sequence[Answer],
        of_one: Collection[int] = (),
    ) -> list[Evidence]:
        """The passages that answers rest on, read; see `EvidenceFinder.find`."""
        answers = list(map(self._of, followed, questions))
        return self._evidence_finder.find(questions, answers, of_one)

    @functools.cached_property
    def _evidence_finder(self) -> EvidenceFinder:
        return EvidenceFinder(self.prepared, self.vocab.kinds, self.retriever, Reader.load())


def _without_denied(answer: Answer) -> Answer:
    """An answer in which what its sentence denies is unlikely, and comes last."""

    def factor(entity: int) -> float:
        asked, facts = answer.question.text, [path[-1] for path in answer.paths(entity, LOOKED_AT)]
        is_denied = denies_answer(facts[0], asked) if facts else False
        return _DENIED if is_denied or any(has_left(fact, asked) for fact in facts) else 1

    note = 'the text denies the first answer, or says that it was so once, or is to be'
    return _weighed(answer, factor, note)


def _weighed(answer: Answer, factor: Callable[[int], float], note: str = '') -> Answer:
    """An answer whose first entities are weighed; with the note if that lowers the best."""
    if answer.probabilities is None or not len(answer):
        return answer
    factors = np.ones(len(answer), np.float32)
    factors[:LOOKED_AT] = [factor(entity) for entity in answer.entities[:LOOKED_AT].tolist()]
    if (factors == 1).all():
        return answer
    probabilities = answer.probabilities * factors
    order = np.argsort(-probabilities, kind='stable')
    best = {name: getattr(answer, name)[order] for name in ('entities', 'weights')}
    return dataclasses.replace(
        answer,
        **best,
        probabilities=probabilities[order],
        note=answer.note or (note if factors[order[0]] < 1 else ''),
    )


def _linked_question(text: str, names: Sequence[Named]) -> Question:
    """A question with the names that it mentions for its topics, see `followed`."""
    topics, others = followed(names)
    spans = tuple((named.start, named.end) for named in topics)
    entities = tuple(named.entities[0] for named in topics)
    left_out = tuple(text[named.start : named.end] for named in others)
    return Question('ask', text, spans, entities, left_out=left_out)


def open_text(
    folder: KBFolder,
    parts: Mapping[str, Any],
    stated: Mapping[str, str | None],
    is_own_encoder: bool,
    reader: bool | None,
) -> TextKB:
    """Opens plain text; InputError: a part is missing, unfinished, damaged, or of other text.

    Args:
        folder, parts: of it; its text, model and memory.
        stated: what its manifest states, of which the index and the question map are opened.
        is_own_encoder: whether the manifest names the model, rather than the caller.
        reader: see `TextKB`.
    """
    prepared = Prepared(folder.part(parts['text']))
    try:
        encoder = TextEncoder.load(folder.part(parts['model']))
    except ManifestError as error:
        if not is_own_encoder:
            raise
        anew = 'run `opql index` again with the same sources, which writes it anew'
        raise ManifestError(f'{error}, or {anew}') from error
    encoder_hash = params_hash(encoder.params)
    memory = Memory.open(folder.part(parts['memory']), encoder_hash)
    memory.check_vocabulary(prepared.vocab)
    covered(memory, prepared)
    if not (retrieval := stated.get('retrieval')):
        make = 'make the knowledge base with `opql index`'
        raise InputError(f'{folder.manifest} names no index of passages: {make}')
    index = IndexFolder(folder.part(retrieval))
    of_text = len(prepared.passages), len(prepared.vocab)
    indexed = index.manifest.passages, index.manifest.entities, index.manifest.dim
    again = 'is of other text: delete it and run `opql index` again'
    if indexed != (*of_text, encoder.fields.hidden_size):
        raise InputError(f'{folder.part(retrieval)} {again}')
    if (memory.manifest.num_entities, memory.manifest.relation_dim) != (of_text[1], encoder.dim):
        raise InputError(f'{memory.directory} {again}')
    question_map = None
    if part := stated.get('question_map'):
        question_map = QuestionMap.read(folder.part(part), encoder_hash)
        if len(question_map.change) != encoder.dim:
            again = 'delete it and run `opql train` again'
            raise InputError(f'{folder.part(part)} is of another encoder: {again}')
    return TextKB(folder, prepared, encoder, memory, index, question_map, reader)
