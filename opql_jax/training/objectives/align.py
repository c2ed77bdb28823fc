"""Finetuning of the encoder on distantly aligned 1-hop questions: OPQL's finetuned memory, not OPQL-pretrained (paper §3)."""

import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp

from opql_jax.data.sources.align import AlignBatch, AlignSettings, AlignSource
from opql_jax.models import losses
from opql_jax.training.objectives.base import (
    Objective,
    Task,
    concatenate,
    dropout,
    encode_questions,
    fold_in,
    identify_questions,
)


@dataclasses.dataclass(frozen=True)
class Align(AlignSettings, Objective):
    """A question's relation is compared with those of its topic's mentions. All settings are those of `AlignSettings`."""

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    pair_encoding: ClassVar[str] = 'marked_pair'

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        return Task(
            source=AlignSource(prepared, self, seed),
            loss=functools.partial(self.loss, encoder),
            trainable=self.trainable,
            lineage=self.lineage(split=identify_questions(self.split)),
        )

    def loss(self, encoder, params, batch: AlignBatch, memory, rng):
        questions = encode_questions(encoder, params, batch.questions, fold_in(rng, 1))
        rng = fold_in(rng, 2)
        encode = functools.partial(encoder.apply, {'params': params['encoder']})
        relations = [encode(bucket.tokens, bucket.r1, bucket.r2, **dropout(rng, i)) for i, bucket in enumerate(batch.pairs)]
        topic, target = (concatenate(batch.pairs, name) for name in ('topic', 'target'))
        loss, accuracy = losses.alignment_loss(
            questions, batch.questions.topic, batch.questions.answers, jnp.concatenate(relations), topic, target
        )
        return loss, {'alignment_accuracy': accuracy}
