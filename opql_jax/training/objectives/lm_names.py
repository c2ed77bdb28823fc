"""Linking of mentions by the names of entities, before the language model is pretrained (paper §4)."""

import dataclasses
import functools

import jax.numpy as jnp

from opql_jax.core import files
from opql_jax.corpus.questions import read_questions
from opql_jax.data.entity_names import table_of_names
from opql_jax.data.sources.names import NameBatch, NameSource
from opql_jax.parallel.entity_table import Layout
from opql_jax.training.objectives.base import Task
from opql_jax.training.objectives.language_model import LanguageModelObjective, identify_memory

# How a memory is queried, and what is learnt of that, which says nothing of a run that queries none.
_QUERYING = (
    'k',
    'mode',
    'own_prediction',
    'mixing',
    'null_entity',
    'retrieval_weight',
    'entity_weight',
    'own_text',
    'topics',
    'score_gold',
)


@dataclasses.dataclass(frozen=True)
class LinkNames(LanguageModelObjective):
    """L_el alone, over questions in which names of entities stand in the places of the topics.

    Which entity a mention means comes first: until that is known, a query asks about the wrong entity, and beside the other losses
    it is learnt many times more slowly. The memory, if there is one, is not queried; W_r and the follower stay as they were, the
    transformer below them does not.

    Attributes:
        questions: a question file; of those with one topic its place is used, and nothing else.
        rows_of_names: E begins with rows that the names make (`table_of_names`) in the place of those that training starts from,
            which the text taught: most entities are mentioned too rarely for that. Keys of the memory follow E, but a memory with
            entities that were injected later cannot be queried, as their rows are fitted to the E it was built with.
        topic_scale: the part of W_q that meets E begins anew, as so many times the identity; None for as it was. In a search over
            the whole memory entries of the topic must win against those whose relation alone fits best: rows of E have length 1,
            while products of relations reach 12, as following, which knows its topics, never had to weigh the two.
    """

    rows: int = 256
    questions: str = ''
    rows_of_names: bool = True
    topic_scale: float | None = None

    def source(self, prepared, seed=0) -> NameSource:
        return NameSource(prepared, read_questions(self.questions, prepared.vocab), rows=self.rows, seed=seed)

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        memory = self.open_memory(prepared)
        lineage = self.lineage(**identify_memory(memory), questions=files.sha256(self.questions)) | dict.fromkeys(_QUERYING)
        return Task(
            source=self.source(prepared, seed),
            loss=functools.partial(self.loss, encoder, Layout(mesh, len(prepared.vocab))),
            trainable=self.trainable,
            lineage=lineage,
            init=functools.partial(self.init_from_names, encoder, prepared),
            check_init=functools.partial(self.check_init, memory),
        )

    def init_from_names(self, encoder, prepared, params):
        """The parameters training starts from, see `topic_scale` and `rows_of_names`."""
        params = self.init(encoder, params)
        if self.topic_scale is not None:
            of_e = jnp.arange(len(params['follower']['w_q'])) < encoder.entity_dim
            scaled = {
                name: jnp.where(of_e[:, None] | of_e, jnp.diag(jnp.where(of_e, scale, 0.0)), params['follower'][name])
                for name, scale in (('w_q', self.topic_scale), ('w_k', 1.0))  # as a query meets W_k folded in
            }
            params = {**params, 'follower': {**params['follower'], **scaled}}
        if not self.rows_of_names:
            return params
        return {**params, 'entity_table': table_of_names(prepared.tokenizer, prepared.vocab.names, encoder.entity_dim)}

    def trainable(self, name):
        return super().trainable(name) and not name.startswith(('encoder/w_r', 'follower/', 'lm/r_null', 'lm/w_v'))

    def loss(self, encoder, layout, params, batch: NameBatch, memory, rng):
        return self.linking_loss(encoder, layout, params, batch.texts, rng)
