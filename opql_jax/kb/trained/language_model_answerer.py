"""Answers with a language model with a memory inside (OPQL-LM) or none (EaE); paper §4."""

import functools
from typing import Any

import jax
import numpy as np

from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_markup
from opql_jax.data.lm_markup import Texts
from opql_jax.data.prepared import Prepared
from opql_jax.kb.answers import Answer, Hop
from opql_jax.kb.trained.answering import (
    check_finite,
    index_settings,
    padded_length,
    searched_memory,
)
from opql_jax.memory.format import Memory
from opql_jax.models import language_model
from opql_jax.models.language_model import LanguageModel, normalize_entity_table
from opql_jax.models.mixing import best_entities, without_entries
from opql_jax.parallel.entity_table import Layout, place
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training.objectives.language_model import LanguageModelObjective


# Compiled for what is equal for all checkpoints of a run, see `follower_answerer`.
@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def _run(model: LanguageModel, layout: Layout, text, hops: int, params, arrays):
    out = model(params, layout, [text], hops, arrays)
    entities, probabilities = best_entities(out.prediction, params['entity_table'], layout)
    without_memory, _ = best_entities(without_entries(out.m_e2), params['entity_table'], layout)
    return entities, probabilities, without_memory, out.hops


class LanguageModelAnswerer:
    """A trained language model and its memory.

    Attributes:
        settings: what answers depend on besides parameters, memory and tokenizer.
        links_topics: whether it finds out by itself which entity a topic in brackets is.
        entity_table: E [n_entities, d_e] as it is searched, rows of length 1.
    """

    links_topics = True

    def __init__(
        self,
        prepared: Prepared,
        encoder,
        params,
        memory: Memory | None,
        objective: LanguageModelObjective,
        index: str | None = None,
    ):
        self._tokenizer, self._special = prepared.tokenizer, prepared.special
        self._memory: Any = memory
        self._model, mesh = objective.model(encoder), make_mesh(1, local=True)
        self._layout = Layout(mesh, len(prepared.vocab))
        params = normalize_entity_table(params)
        self._params = params | {'entity_table': place(params['entity_table'], self._layout)}
        self.entity_table, self._arrays, self._index = self._params['entity_table'], None, None
        if memory is not None:
            placed = objective.place_memory(memory, mesh)
            self._arrays, self._index = searched_memory(placed, memory, self.entity_table, index)
        self.settings = repr(self._model) + index_settings(self._index)

    def answer(self, questions: list[Question], hops: int) -> list[Answer]:
        """Answers questions of one number of hops; the model reads their topics as words."""
        mark = functools.partial(lm_markup.mark_open_question, self._tokenizer)
        inputs = [mark(q.text, q.topics, self._special) for q in questions]
        rows, longest = [m.tokens for m in inputs], self._model.encoder.max_length
        length = padded_length(questions, rows, longest)
        topics = max(len(m.r1) for m in inputs)
        size = 1 << (len(questions) - 1).bit_length()
        start, r1 = np.zeros((2, size, topics), np.int32)
        r2, used = np.ones(size, np.int32), np.zeros((size, topics), bool)
        for i, m in enumerate(inputs):
            of = i, slice(len(m.r1))
            start[of], r1[of], used[of], r2[i] = m.starts, m.r1, True, m.r2
        tokens = batching.pad_tokens(rows, size, length, self._special)
        text = Texts(tokens=tokens, start=start, r1=r1, r2=r2, used=used)
        found = _run(self._model, self._layout, text, hops, self._params, self._arrays)
        entities, probabilities, without_memory, reads = jax.device_get(found)
        check_finite(probabilities)
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
