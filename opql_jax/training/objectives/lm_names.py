"""Links mentions by entities' names, before the language model is pretrained; a stage of ours."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.data.lm_markup import TextBatch
from opql_jax.data.questions import read_file
from opql_jax.data.sources.names import NameSource
from opql_jax.models.entity_names import linear_reader, read_names, rows_of_states
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import replicate
from opql_jax.training import model_config
from opql_jax.training.objectives.base import Task, concatenate
from opql_jax.training.objectives.language_model import LanguageModelObjective, identify_memory

# Settings of querying, which this objective does not do; None in its lineage.
_QUERYING = (
    'k mode own_prediction mixing null_entity entity_weight own_text topics buckets score_gold'
).split()

# Random questions in which the name of each entity is read for its first row of E.
_READINGS = 2

# Weight of the relation penalty, a relative squared error; L_el starts at log(num_entities).
_RELATION_WEIGHT = 10.0


@dataclasses.dataclass(frozen=True)
class LinkNames(LanguageModelObjective):
    """L_el alone, over questions in which names of entities stand in the places of the topics.

    Linking comes first: until it is learnt, queries ask about the wrong entity, and beside the
    other losses it is learnt many times more slowly. The memory, if any, is not queried, and the
    follower is not trained. The transformer is, and its relations would drift: with `relations_of`
    a penalty keeps those of the questions close to a teacher's.

    The rows of E start anew from what the encoder reads in names, as most entities are mentioned
    too rarely for text to teach them. W_e and W_f start as maps to these rows
    (`models.entity_names`), and W_b, which reads rows of E, as zeros. Keys of the memory follow E,
    but a memory with entities that were injected later cannot be queried, as their rows are fitted
    to the E it was built with.

    Attributes:
        questions: a question file; only the topic's place is used, of questions with one topic.
        relations_of: the teacher, a relation encoder or follower, for `trainer.train` a part of the
            knowledge base; usually the one that training starts from. None for no penalty.
        topic_scale: resets the part of W_q that meets E to this multiple of the identity; None to
            keep it. In a search over the whole memory the topic's entries must win against those
            whose relation alone fits best: rows of E have length 1, while products of relations
            reach 12, as following, which knows its topics, never had to weigh the two.
    """

    rows: int = 256
    questions: str = ''
    relations_of: str | None = None
    topic_scale: float | None = None

    def source(self, prepared, seed=0) -> NameSource:
        return NameSource(
            prepared, read_file(self.questions, prepared.vocab), rows=self.rows, seed=seed
        )

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        memory, teacher, relations = self.open_memory(prepared), None, None
        if self.relations_of:
            teacher, params, config, _ = model_config.load(self.relations_of)
            model_config.check_vocabulary(config, prepared, self.relations_of)
            if 'lm' in params:
                raise InputError(
                    f'relations_of={self.relations_of} is a language model: give the relation '
                    'encoder or follower it began with, or None'
                )
            if teacher.relation_dim != encoder.relation_dim:
                raise InputError(
                    f'relations_of={self.relations_of} has relations of {teacher.relation_dim} '
                    f'numbers, the model of {encoder.relation_dim}: give one of the same '
                    'relation_dim, or None'
                )
            relations = replicate(params['encoder'], mesh)
        changes = {
            'questions': files.sha256(self.questions),
            'relations_of': params_hash(params['encoder']) if self.relations_of else None,
            'entities_of_names': True,
        }
        source, layout = self.source(prepared, seed), Layout(mesh, len(prepared.vocab))
        return Task(
            source=source,
            loss=functools.partial(self.loss, encoder, layout, teacher=teacher),
            memory=relations,
            trainable=self.trainable,
            lineage=self.lineage(**identify_memory(memory), **changes) | dict.fromkeys(_QUERYING),
            init=functools.partial(self.init, encoder),
            fit=functools.partial(self.fit_to_names, encoder, source),
            check_init=functools.partial(self.check_init, memory),
        )

    def init(self, encoder, params):
        """See `Task.init` and `topic_scale`."""
        params = super().init(encoder, params)
        if self.topic_scale is None:
            return params
        of_e = jnp.arange(len(params['follower']['w_q'])) < encoder.entity_dim
        scaled = {
            name: jnp.where(
                of_e[:, None] | of_e,
                jnp.diag(jnp.where(of_e, scale, 0.0)),
                params['follower'][name],
            )
            # As a query meets W_k folded in.
            for name, scale in (('w_q', self.topic_scale), ('w_k', 1.0))
        }
        return {**params, 'follower': {**params['follower'], **scaled}}

    def fit_to_names(self, encoder, source: NameSource, params):
        """Parameters with E, W_e and W_f made of what the encoder reads in names, and W_b of 0."""
        tokens, start, entity = source.readings(_READINGS)
        how = self.entity_layer, source.length, source.special
        inside, top = read_names(encoder, params['encoder'], tokens, start, *how)
        if not (np.isfinite(inside).all() and np.isfinite(top).all()):
            raise InputError(
                'what the encoder reads in names is not finite: start from another one'
            )
        table = rows_of_states(top, entity, source.num_entities, encoder.entity_dim)
        reader = lambda states: {'kernel': linear_reader(states, table[entity])}
        fitted = {
            **params,
            'entity_table': table,
            'encoder': {**params['encoder'], 'w_e': reader(top)},
        }
        if not self.entity_layer:
            return fitted
        # The states are those of an entity memory that changes nothing; W_b, if it was trained,
        # read rows of another E.
        w_b = {'kernel': jnp.zeros_like(params['lm']['w_b']['kernel'])}
        return {**fitted, 'lm': {**params['lm'], 'w_f': reader(inside), 'w_b': w_b}}

    def located(self, folder):
        objective: Any = super().located(folder)
        if self.relations_of:
            return dataclasses.replace(objective, relations_of=str(folder.part(self.relations_of)))
        return objective

    def trainable(self, name):
        if name.startswith('encoder/w_r'):
            return bool(self.relations_of)
        return super().trainable(name) and not name.startswith(
            ('follower/', 'lm/r_null', 'lm/e_null', 'lm/w_v')
        )

    def loss(self, encoder, layout, params, batch: TextBatch, memory, rng, teacher=None):
        """As of `Objective`; `teacher` is an encoder, whose parameters `memory` holds, or None."""
        loss, metrics, encoded = self.linking_loss(encoder, layout, params, batch.texts, rng)
        if teacher is not None:
            texts = [bucket.texts for bucket in batch.texts]  # of one topic each
            relations = [
                teacher.apply({'params': memory}, t.tokens, t.r1[:, 0], t.r2) for t in texts
            ]
            used = concatenate(batch.texts, 'topic')[:, 0] >= 0
            before = jnp.where(used[:, None], jnp.concatenate(relations), 0.0)
            moved = jnp.where(used[:, None], encoded.r[:, 0], 0.0) - before
            change = jnp.square(moved).sum() / jnp.maximum(jnp.square(before).sum(), 1e-12)
            loss, metrics = loss + _RELATION_WEIGHT * change, {**metrics, 'relation_change': change}
        return loss, metrics
