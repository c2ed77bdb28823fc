"""Trains a relation encoder for any text: L_rel over span pairs, and questions made of the text."""

import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp

from opql_jax.core import files
from opql_jax.data.sources.text_relations import (
    UNUSED,
    TextRelationBatch,
    TextRelationSettings,
    TextRelationSource,
)
from opql_jax.models import bert, losses
from opql_jax.models.encoder import PAD_ID
from opql_jax.models.host_encoder import unit
from opql_jax.parallel.mesh import replicate
from opql_jax.training.objectives.base import Objective, Task, dropout, fold_in

# Inner products of relations of unit length are multiplied by this before the softmax.
_LOGIT_SCALE = 20.0
# L_sentence compares every one of so many rows, as the other encoder costs time, too.
_SENTENCE_STRIDE = 4


@dataclasses.dataclass(frozen=True)
class TextRelations(TextRelationSettings, Objective):
    """L_rel + L_question + sentence_weight * L_sentence.

    The settings of the batches are those of `TextRelationSettings`.

    L_rel: pairs of one label find each other among all pairs of the batch, in both directions.
    L_question: a question finds the pairs of its label, in the right direction, among the same.
    L_sentence: the cosine of mean states with MiniLM's stays high, as they tell what a sentence is
    about, for retrieval.

    Attributes:
        sentence_weight: of L_sentence, which compares with MiniLM; 0 leaves it out.
    """

    source_class = TextRelationSource
    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    unreached: ClassVar[tuple[str, ...]] = ('encoder/w_e/',)
    pair_encoding: ClassVar[str] = 'span_pair'
    sentence_weight: float = 30.0

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        teacher = None
        if self.sentence_weight:
            _, loaded = bert.load_bert('minilm', prepared.tokenizer)
            teacher = replicate(bert.with_marker_words(loaded, prepared.tokenizer), mesh)
        return dataclasses.replace(super().build(prepared, encoder, mesh, seed), memory=teacher)

    def lineage(self, **changes):
        sentences = [files.sha256(path) for path in self.sentences]
        names = files.sha256(self.names) if self.names else ''
        return super().lineage(sentences=sentences, names=names, **changes)

    def loss(self, encoder, layout, params, batch: TextRelationBatch, teacher, rng):
        variables, tokens = {'params': params['encoder']}, batch.tokens
        encode = functools.partial(encoder.apply, method=encoder.hidden)
        hidden = encode(variables, tokens, **dropout(rng)).astype(jnp.float32)
        pick = lambda positions: jnp.take_along_axis(hidden, positions[:, :, None], axis=1)
        topic, target = (
            jnp.stack([pick(batch.first)[:, i], pick(batch.last)[:, i]], axis=1) for i in (0, 1)
        )
        backward = batch.first[:, 0] > batch.first[:, 1]
        relate = lambda *pair: unit(
            encoder.apply(variables, *pair, 'span_pair', method=encoder.relate_spans)
        )
        relations = jnp.concatenate(
            [relate(topic, target, backward), relate(target, topic, ~backward)]
        )
        labels = jnp.concatenate([batch.label, batch.inverse])
        # Pairs that state nothing have labels of their own; those of unused rows are no pairs.
        own = jnp.where(labels == -1, jnp.iinfo(jnp.int32).max - jnp.arange(len(labels)), labels)
        scaled = relations * jnp.sqrt(_LOGIT_SCALE)
        relation_loss, accuracy = losses.relation_loss(
            scaled, own, jnp.zeros_like(own), labels >= 0
        )
        questions = encoder.apply(
            variables, batch.question_tokens, batch.r1, batch.r2, **dropout(fold_in(rng, 2))
        )
        question_loss, question_accuracy = losses.label_loss(
            unit(questions) * jnp.sqrt(_LOGIT_SCALE), batch.question_label, scaled, labels
        )
        loss = relation_loss + question_loss
        metrics = {
            'L_rel': relation_loss,
            'relation_accuracy': accuracy,
            'L_question': question_loss,
            'question_accuracy': question_accuracy,
        }
        if self.sentence_weight:
            some = tokens[::_SENTENCE_STRIDE]
            used = (some != PAD_ID)[:, :, None]
            mean = lambda states: unit((states * used).sum(axis=1))
            known = encode({'params': {**params['encoder'], **teacher}}, some).astype(jnp.float32)
            near = (mean(hidden[::_SENTENCE_STRIDE]) * mean(known)).sum(axis=-1)
            moved = losses.mean_where(1 - near, batch.label[::_SENTENCE_STRIDE] != UNUSED)
            loss += self.sentence_weight * moved
            metrics['L_sentence'] = moved
        return loss, metrics
