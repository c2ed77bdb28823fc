"""A knowledge base that a follower or a language model answers, which was trained on its text."""

from typing import Any, NoReturn

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, parse_bracketed
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.answers import Answer
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.trained.follower_answerer import FollowerAnswerer
from opql_jax.kb.trained.language_model_answerer import LanguageModelAnswerer
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.memory.format import Memory
from opql_jax.training.objectives import Follow
from opql_jax.training.objectives.language_model import LanguageModelObjective

# Questions answered together.
_BATCH = 64


class TrainedKB(VirtualKB):
    """Text, a model that was trained on it, and the memory that the model searches, if it has one.

    Attributes:
        entity_table: E [n_entities, d_e] float32, as it is searched, with the rows of entities that
            were injected.
    """

    _answerer: FollowerAnswerer | LanguageModelAnswerer

    def __init__(
        self,
        folder: KBFolder,
        prepared: Prepared,
        encoder,
        params,
        memory: Memory | None,
        objective: Follow | LanguageModelObjective,
        index: str | None = None,
    ):
        """Puts together what `trained_model.open_trained` has opened and checked."""
        kind: Any = FollowerAnswerer if isinstance(objective, Follow) else LanguageModelAnswerer
        answerer = kind(prepared, encoder, params, memory, objective, index)
        store = FactStore(prepared, prepared.vocab, memory, objective.own_text)
        super().__init__(folder, store, params, answerer)
        self.entity_table = np.asarray(answerer.entity_table)

    def answer(self, questions: list[Question]) -> list[Answer]:
        """Answers questions, which may be of different numbers of hops, see `VirtualKB.answer`.

        A follower starts from the entity of the first topic, and answers nothing if that is
        unknown; a language model reads all topics and links them itself.
        """
        answers: dict[int, Answer] = {}
        for hops in sorted({question.hops for question in questions}):
            members = [i for i, question in enumerate(questions) if question.hops == hops]
            for start in range(0, len(members), _BATCH):
                batch = members[start : start + _BATCH]
                answers |= zip(batch, self._answerer.answer([questions[i] for i in batch], hops))
        return [self._of(answers[i], question) for i, question in enumerate(questions)]

    def _question(self, text: str, hops: int) -> Question:
        text, topic = parse_bracketed(text)
        entity = self.vocab.get(name := text[slice(*topic)])
        if entity is None:
            # A language model links the topic itself; else this raises, naming the nearest.
            entity = -1 if self._answerer.links_topics else self.vocab.id(name)
        return Question('ask', text, (topic,), (entity,), hops=hops)

    @property
    def sets(self) -> NoReturn:
        make = 'make a knowledge base of plain text with `opql index`'
        raise InputError(f'a trained model answers here, no released encoder: {make}')

    @property
    def retriever(self) -> NoReturn:
        make = 'make one of its text with `opql index`'
        raise InputError(f'this knowledge base has no index of its passages: {make}')
