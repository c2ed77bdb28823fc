"""Pretrains the relation encoder: L_rel over pairs, L_el over mentions around them (paper §2)."""

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp

from opql_jax.core.errors import InputError, check_choice
from opql_jax.data.sources.relations import RelationBatch, RelationSettings, RelationSource
from opql_jax.models import losses
from opql_jax.models.bulk_encoding import PAIR_ENCODINGS
from opql_jax.training.objectives.base import Objective, Task, concatenate, dropout, sampling_key


@dataclasses.dataclass(frozen=True)
class Relations(RelationSettings, Objective):
    """L_rel + entity_weight * L_el. The settings of the batches are those of `RelationSettings`.

    Attributes:
        entity_weight: weight of L_el; 0 leaves it out, and its cost.
        sampled_entities: entities that estimate a step's L_el; 0 for all.
        frozen_layers: this many of the lower layers, and the embeddings below them, stay as they
            are; 0 trains all. No gradient is computed for them, so half of the layers frozen save a
            third of a step.
        pair_encoding: how memories encode pairs: 'marked_pair', marked and masked as in training,
            or 'span_pair', much cheaper.
    """

    source_class = RelationSource
    entity_weight: float = 1.0
    sampled_entities: int = 0
    frozen_layers: int = 0
    pair_encoding: str = 'marked_pair'  # type: ignore[misc]  # a setting here, a constant of other objectives

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        check_choice('pair_encoding', self.pair_encoding, PAIR_ENCODINGS)
        task: Any = super().build(prepared, encoder, mesh, seed)
        if not task.source.has_positives and not self.entity_weight:
            raise InputError(
                'no two passages mention the same pair of entities, so L_rel has no positives; '
                'with entity_weight=0 nothing is learnt'
            )
        return dataclasses.replace(task, predict=functools.partial(self.predict, encoder))

    def trainable(self, name):
        # No loss reaches them.
        if name.startswith(('encoder/w_e/', 'entity_table')) and not self.entity_weight:
            return False
        frozen = [f'encoder/layers_{i}/' for i in range(self.frozen_layers)]
        if frozen:
            # What all layers share would change the frozen ones, too.
            below = 'token_embedding position_embedding embedding_norm relative_bias'
            frozen += [f'encoder/{name}/' for name in below.split()]
        return super().trainable(name) and not name.startswith(tuple(frozen))

    def loss(self, encoder, layout, params, batch: RelationBatch, memory, rng):
        relations, mentions = self._encode(encoder, params, batch, rng)
        topic, target, anchor = (concatenate(batch.pairs, n) for n in ('topic', 'target', 'anchor'))
        loss, accuracy = losses.relation_loss(relations, topic, target, anchor)
        metrics = {'L_rel': loss, 'relation_accuracy': accuracy}
        if self.entity_weight:
            linking, accuracy = losses.entity_loss(
                mentions,
                concatenate(batch.pairs, 'context_entities'),
                params['entity_table'],
                layout,
                self.sampled_entities,
                sampling_key(rng),
            )
            loss += self.entity_weight * linking
            metrics |= {'L_el': linking, 'entity_accuracy': accuracy}
        return loss, metrics

    def predict(self, encoder, params, batch: RelationBatch, memory):
        """Relations [n, d_r], and the topic and target of each row, -1 in unused rows."""
        relations, _ = self._encode(encoder, params, batch, None)
        return relations, {name: concatenate(batch.pairs, name) for name in ('topic', 'target')}

    def _encode(self, encoder, params, batch, rng):
        """Relations [n, d_r] and context mentions [n, C, d_e] of all rows."""
        encode = functools.partial(
            encoder.apply, {'params': params['encoder']}, method=encoder.encode
        )
        parts = [
            encode(bucket.tokens, bucket.r1, bucket.r2, bucket.context_positions, **dropout(rng, i))
            for i, bucket in enumerate(batch.pairs)
        ]
        relations, mentions = zip(*parts)
        return jnp.concatenate(relations), jnp.concatenate(mentions)
