"""Answers questions with a trained model: a follower over a memory, or a language model."""

import functools
from typing import Any, ClassVar

import jax
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup, markup
from opql_jax.data.lm_markup import Texts
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import QuestionBatch, round_up
from opql_jax.kb.answers import Answer, Hop
from opql_jax.memory import ann
from opql_jax.memory.format import Memory
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.models import language_model
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.language_model import LanguageModel, normalize_entity_table
from opql_jax.models.mixing import best_entities, without_entries
from opql_jax.parallel.entity_table import Layout, place
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training.objectives import Follow
from opql_jax.training.objectives.language_model import LanguageModelObjective


class Answerer:
    """A trained model, and the memory that it searches, if any.

    Beside parameters, memory and tokenizer, answers depend on `settings`. `links_topics`: whether
    it finds out which entity a topic in brackets is. `entity_table` is E [n_entities, d_e] as it is
    searched.
    """

    links_topics: ClassVar[bool]

    def __init__(
        self,
        prepared: Prepared,
        encoder: RelationEncoder,
        params,
        memory: Memory | None,
        objective: Follow | LanguageModelObjective,
        index: str | None,
        settings: str,
    ):
        """Places the memory, or opens its index in the folder `index`; InputError: none fits."""
        self._tokenizer, self._special = prepared.tokenizer, prepared.special
        self._encoder, self._params = encoder, params
        self._memory: Any = memory
        self.entity_table, self.settings, self._arrays = params['entity_table'], settings, None
        if memory is None:
            return
        placed: Any = objective.place_memory(memory, make_mesh(1, local=True))
        if not isinstance(placed, ShardedMemory):
            if index:
                without = f'leave out the index {index}, or give filter=False'
                raise InputError(f'filter=True reads the rows of known topics alone: {without}')
            self._arrays = placed
            return
        if index:
            # It has to live as long as what is searched by it.
            self._index = ann.open_index(index, memory, np.asarray(self.entity_table))
            placed = ann.searched_by(placed, self._index)
            if isinstance(self._index, ann.ScannIndex):
                self.settings += repr(self._index.manifest)
        self._arrays = jax.jit(with_keys)(placed, self.entity_table)

    def _padded(self, questions: list[Question], rows: list[np.ndarray]) -> np.ndarray:
        """Token rows as a batch of one of few shapes; InputError names a too long question."""
        length, most = round_up(max(map(len, rows)), 16), self._encoder.max_length
        if length > most:
            longest, question = max(zip(rows, questions), key=lambda pair: len(pair[0]))
            too_long = f"{len(longest)} tokens, more than the encoder's {most}"
            raise InputError(f'question {question.id} has {too_long}: {short_repr(question.text)}')
        size = 1 << (len(rows) - 1).bit_length()
        return batching.pad_tokens(rows, size, length, self._special)


def _check_finite(weights: np.ndarray) -> None:
    """Raises InputError if the weights that a model gives have NaN or infinite numbers."""
    if not np.isfinite(weights).all():
        diverged = 'its training diverged; use an earlier checkpoint (step)'
        raise InputError(f'the model gives weights that are not finite: {diverged}')


# Compiled for what is equal for all checkpoints of a run, and keeps no answerer alive.
@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _follow(objective: Follow, encoder: RelationEncoder, questions, hops: int, params, arrays):
    return objective.followed(encoder, params, questions, hops, arrays)


class FollowerAnswerer(Answerer):
    """A trained follower over a memory (paper §3)."""

    links_topics = False

    def __init__(self, prepared, encoder, params, memory, objective: Follow, index=None):
        self._objective = objective
        parts = objective.k, objective.exclude_topic, objective.filter, objective.weigh_topics
        settings = ' '.join(map(str, parts))
        super().__init__(prepared, encoder, params, memory, objective, index, settings)

    def answer(self, questions: list[Question], hops: int) -> list[Answer]:
        """Answers questions of one number of hops by the first topic; an unknown leads nowhere."""
        texts, spans = [q.text for q in questions], [q.topic for q in questions]
        marked = markup.mark_questions(self._tokenizer, texts, spans, self._special)
        tokens = self._padded(questions, [m.tokens for m in marked])
        topics = [question.topic_entity for question in questions]
        r1, r2 = ([getattr(each, name) for each in marked] for name in ('r1', 'r2'))
        pad = lambda column, fill=0: batching.pad_rows(column, len(tokens), fill=fill)
        batch = QuestionBatch(tokens, pad(r1), pad(r2), pad(topics, -1), pad([]))
        reads = _follow(self._objective, self._encoder, batch, hops, self._params, self._arrays)
        found = jax.device_get(list(reads))
        _check_finite(np.stack([hop.weights for hop in found]))
        traces = [tuple(self._hop(hop, i) for hop in found) for i in range(len(questions))]
        return [Answer(hops[-1].entities, hops[-1].weights, (hops,)) for hops in traces]

    def _hop(self, hop, i: int) -> Hop:
        used, is_entry = hop.entities[i] >= 0, hop.entry_rows[i] >= 0
        entries = self._memory.ids[hop.entry_rows[i][is_entry]]
        return Hop(hop.entities[i][used], hop.weights[i][used], entries, hop.beta[i][is_entry])


# Compiled once for all checkpoints, as `_follow` is.
@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _read(model: LanguageModel, layout: Layout, text, hops: int, params, arrays):
    out = model(params, layout, [text], hops, arrays)
    entities, probabilities = best_entities(out.prediction, params['entity_table'], layout)
    without_memory, _ = best_entities(without_entries(out.m_e2), params['entity_table'], layout)
    return entities, probabilities, without_memory, out.hops


class LanguageModelAnswerer(Answerer):
    """A trained language model with a memory inside (OPQL-LM) or none (EaE); paper §4."""

    links_topics = True

    def __init__(
        self, prepared, encoder, params, memory, objective: LanguageModelObjective, index=None
    ):
        self._model = objective.model(encoder)
        self._layout = Layout(make_mesh(1, local=True), len(prepared.vocab))
        params = normalize_entity_table(params)
        params = params | {'entity_table': place(params['entity_table'], self._layout)}
        settings = repr(self._model)
        super().__init__(prepared, encoder, params, memory, objective, index, settings)

    def answer(self, questions: list[Question], hops: int) -> list[Answer]:
        """Answers questions of one number of hops; the model reads their topics as words."""
        mark = functools.partial(lm_markup.mark_open_question, self._tokenizer)
        inputs = [mark(q.text, q.topics, self._special) for q in questions]
        tokens = self._padded(questions, [m.tokens for m in inputs])
        size, topics = len(tokens), max(len(m.r1) for m in inputs)
        start, r1 = np.zeros((2, size, topics), np.int32)
        r2, used = np.ones(size, np.int32), np.zeros((size, topics), bool)
        for i, m in enumerate(inputs):
            of = i, slice(len(m.r1))
            start[of], r1[of], used[of], r2[i] = m.starts, m.r1, True, m.r2
        text = Texts(tokens=tokens, start=start, r1=r1, r2=r2, used=used)
        found = _read(self._model, self._layout, text, hops, self._params, self._arrays)
        entities, probabilities, without_memory, reads = jax.device_get(found)
        _check_finite(probabilities)
        answers = []
        for i, m in enumerate(inputs):
            of_topics = range(i * topics, i * topics + len(m.r1)) if reads else ()
            traces = tuple(tuple(self._hop(read, row) for read in reads) for row in of_topics)
            found = entities[i], probabilities[i], traces
            answers.append(Answer(*found, without_memory=without_memory[i]))
        return answers

    def _hop(self, read: language_model.Hop, row: int) -> Hop:
        mass = np.exp(read.log_probs[row])
        used = np.flatnonzero(read.entries[row] >= 0)
        used = used[np.argsort(-mass[1:][used], kind='stable')]
        weights, targets = mass[1:][used], read.targets[row][used]
        entities, first, which = np.unique(targets, return_index=True, return_inverse=True)
        best_first = np.argsort(first)
        total = np.bincount(which, weights, len(entities)).astype(np.float32)
        entries = self._memory.ids[read.entries[row][used]]
        return Hop(entities[best_first], total[best_first], entries, weights, float(mass[0]))
