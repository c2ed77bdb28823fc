"""RELIC-style training of E: [ENT] replaces a mention, and its context retrieves the entity."""

import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp

from opql_jax.data.batching import Buckets
from opql_jax.data.sources.entities import EntityBatch, EntitySource
from opql_jax.models import losses
from opql_jax.training.objectives.base import Objective, concatenate, dropout, sampling_key


@dataclasses.dataclass(frozen=True)
class Entities(Objective):
    """Trains the entity table and the encoder by retrieving masked mentions' entities.

    Attributes:
        rows: mentions encoded per step.
        buckets: of these, as in `RelationSettings`.
        frozen_encoder: trains E and W_e alone, over an encoder that is trained already.
        sampled_entities: entities that estimate a step's softmax; 0 for all.
    """

    unreached: ClassVar[tuple[str, ...]] = ('encoder/w_r/',)
    rows: int = 256
    buckets: Buckets = ()
    frozen_encoder: bool = False
    sampled_entities: int = 0

    def source(self, prepared, seed=0) -> EntitySource:
        return EntitySource(prepared, self.rows, seed, self.buckets)

    def trainable(self, name):
        if self.frozen_encoder:
            return name.startswith(('entity_table', 'encoder/w_e'))
        return super().trainable(name)

    def loss(self, encoder, layout, params, batch: EntityBatch, memory, rng):
        encode = functools.partial(
            encoder.apply, {'params': params['encoder']}, method=encoder.mentions
        )
        mentions = [
            encode(bucket.tokens, bucket.position[:, None], **dropout(rng, i))[:, 0]
            for i, bucket in enumerate(batch.mentions)
        ]
        loss, accuracy = losses.entity_loss(
            jnp.concatenate(mentions),
            concatenate(batch.mentions, 'entity'),
            params['entity_table'],
            layout,
            self.sampled_entities,
            sampling_key(rng),
        )
        return loss, {'entity_accuracy': accuracy}
