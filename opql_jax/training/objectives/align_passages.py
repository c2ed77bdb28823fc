"""Alignment with each passage encoded once for all of its pairs, in place of marking each pair in it (see `Align`)."""

import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp

from opql_jax.core.errors import InputError
from opql_jax.data.sources.align_passages import PassageAlignBatch, PassageAlignSettings, PassageAlignSource
from opql_jax.models import losses
from opql_jax.training.objectives.base import Objective, Task, dropout, encode_questions, fold_in, identify_questions


@dataclasses.dataclass(frozen=True)
class AlignPassages(PassageAlignSettings, Objective):
    """A question's relation is compared with those of all pairs of the passages that mention its topic.

    The settings of the batches are those of `PassageAlignSettings`.

    Attributes:
        pair_encoding: 'span_pair' for the relation of the spans of topic and target; 'mention' for an index of mentions (DrKIT),
            whose entries know their topic by the passage only.
        facts_weight: of the loss that asks of each pair by itself whether it is a fact, see `losses.alignment_loss`.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    pair_encoding: str = 'span_pair'  # type: ignore[misc]  # a setting here, a constant of other objectives
    facts_weight: float = 1.0

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        if self.pair_encoding not in ('span_pair', 'mention'):
            raise InputError(f"pair_encoding={self.pair_encoding!r}: whole passages are encoded for 'span_pair' or 'mention'")
        return Task(
            source=PassageAlignSource(prepared, self, seed),
            loss=functools.partial(self.loss, encoder),
            trainable=self.trainable,
            lineage=self.lineage(split=identify_questions(self.split)),
        )

    def loss(self, encoder, params, batch: PassageAlignBatch, memory, rng):
        questions = encode_questions(encoder, params, batch.questions, fold_in(rng, 1))
        rng = fold_in(rng, 2)
        relations = [self._relate(encoder, params, bucket, dropout(rng, i)) for i, bucket in enumerate(batch.passages)]
        topic, target = (
            jnp.concatenate([getattr(bucket, name).ravel() for bucket in batch.passages]) for name in ('topic', 'target')
        )
        loss, accuracy = losses.alignment_loss(
            questions,
            batch.questions.topic,
            batch.questions.answers,
            jnp.concatenate(relations),
            topic,
            target,
            self.facts_weight,
        )
        return loss, {'alignment_accuracy': accuracy}

    def _relate(self, encoder, params, passages, options):
        """Relations [n R, d_r] of the pairs of one bucket."""
        variables = {'params': params['encoder']}
        spans = encoder.apply(variables, passages.tokens, passages.first, passages.last, **options, method=encoder.spans)
        mentions = passages.topic_mention, passages.target_mention
        topic, target = (jnp.take_along_axis(spans, mention[:, :, None, None], axis=1) for mention in mentions)
        backward = passages.topic_mention > passages.target_mention
        relations = encoder.apply(variables, topic, target, backward, self.pair_encoding, method=encoder.relate_spans)
        return relations.reshape(-1, relations.shape[-1])
