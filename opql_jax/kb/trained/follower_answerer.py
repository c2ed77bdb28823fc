"""Answers questions by following relations from their topic through the memory (paper §3)."""

import functools
from typing import NamedTuple

import jax
import numpy as np

from opql_jax.corpus.questions import Question
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.kb.answers import Answer, Hop
from opql_jax.kb.trained.answering import (
    check_finite,
    index_settings,
    padded_length,
    searched_memory,
)
from opql_jax.memory.format import Memory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.follower import Follower
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training.objectives import Follow


class _Program(NamedTuple):
    """What the compiled program depends on: a key of JAX's cache that keeps no answerer alive."""

    encoder: RelationEncoder
    follower: Follower
    hops: int
    k: int
    exclude_topic: bool


@functools.partial(jax.jit, static_argnums=0)
def _run(program: _Program, tokens, markers, topics, params, arrays):
    relation = program.encoder.apply({'params': params['encoder']}, tokens, markers[0], markers[1])
    return program.follower.apply(
        {'params': params['follower']},
        relation,
        topics,
        hops=program.hops,
        memory=arrays,
        entity_table=params['entity_table'],
        k=program.k,
        exclude_topic=program.exclude_topic,
    )


class FollowerAnswerer:
    """A trained follower over a memory.

    Attributes:
        settings: what answers depend on besides parameters, memory and tokenizer.
        links_topics: whether it finds out by itself which entity a topic in brackets is.
        entity_table: E [n_entities, d_e] as it is searched.
    """

    links_topics = False

    def __init__(
        self,
        prepared: Prepared,
        encoder: RelationEncoder,
        params,
        memory: Memory,
        objective: Follow,
        index: str | None = None,
    ):
        self._tokenizer, self._special, self._memory = prepared.tokenizer, prepared.special, memory
        self._encoder, self._params, self._objective = encoder, params, objective
        placed = objective.place_memory(memory, make_mesh(1, local=True))
        self.entity_table = params['entity_table']
        self._arrays, self._index = searched_memory(placed, memory, self.entity_table, index)
        parts = objective.k, objective.exclude_topic, objective.filter, objective.weigh_topics
        self.settings = ' '.join(map(str, parts)) + index_settings(self._index)

    def answer(self, questions: list[Question], hops: int) -> list[Answer]:
        """Answers questions of one number of hops by the first topic; an unknown leads nowhere."""
        texts, spans = [q.text for q in questions], [q.topic for q in questions]
        marked = markup.mark_questions(self._tokenizer, texts, spans, self._special)
        length = padded_length(questions, [m.tokens for m in marked], self._encoder.max_length)
        size = 1 << (len(questions) - 1).bit_length()
        tokens = np.full((size, length), self._special.pad, np.int32)
        markers, topics = np.zeros((2, size), np.int32), np.full(size, -1, np.int32)
        for i, (m, question) in enumerate(zip(marked, questions)):
            tokens[i, : len(m.tokens)], markers[:, i] = m.tokens, (m.r1, m.r2)
            topics[i] = question.topic_entity
        objective, follower = self._objective, self._objective.follower(self._encoder)
        program = _Program(self._encoder, follower, hops, objective.k, objective.exclude_topic)
        reads = _run(program, tokens, markers, topics, self._params, self._arrays)
        found = jax.device_get(list(reads))
        check_finite(np.stack([hop.weights for hop in found]))
        traces = [tuple(self._hop(hop, i) for hop in found) for i in range(len(questions))]
        return [Answer(hops[-1].entities, hops[-1].weights, (hops,)) for hops in traces]

    def _hop(self, hop, i: int) -> Hop:
        used, is_entry = hop.entities[i] >= 0, hop.entry_rows[i] >= 0
        entries = self._memory.ids[hop.entry_rows[i][is_entry]]
        return Hop(hop.entities[i][used], hop.weights[i][used], entries, hop.beta[i][is_entry])
