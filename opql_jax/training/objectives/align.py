"""Finetunes the encoder on distantly aligned 1-hop questions: the finetuned memory (paper §3)."""

import abc
import dataclasses
import functools
from typing import ClassVar

import jax.numpy as jnp

from opql_jax.core import files
from opql_jax.core.errors import InputError, check_choice
from opql_jax.data.questions import is_file
from opql_jax.data.sources import align_passages
from opql_jax.data.sources.align import AlignBatch, AlignSettings, AlignSource
from opql_jax.data.sources.base import Source
from opql_jax.models import losses
from opql_jax.training.objectives import base


class _Alignment(base.Objective):
    """A question's relation is compared with those of pairs of its topic.

    Attributes:
        split: the questions.
        facts_weight: see `AlignPassages`.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/',)
    unreached: ClassVar[tuple[str, ...]] = ('encoder/w_e/',)
    split: str
    facts_weight: float

    @abc.abstractmethod
    def encode_pairs(self, encoder, params, batch, rng):
        """(relations [n, d_r], topics [n], targets [n]) of the pairs of a batch."""

    def validation(self, prepared, questions=(), rows=64, seed=0) -> Source:
        if len(questions) > 1:
            raise InputError(f'one question set can be evaluated, not {len(questions)}')
        changes: dict = {'split': questions[0], 'held_out': ()} if questions else {}
        return dataclasses.replace(self, **changes).source(prepared, seed)

    def lineage(self, **changes):
        # A file by its content, wherever it is.
        split = files.sha256(self.split) if is_file(self.split) else self.split
        return super().lineage(split=split, **changes)

    def loss(self, encoder, layout, params, batch, memory, rng):
        questions = base.encode_questions(encoder, params, batch.questions, base.fold_in(rng, 1))
        relations, topic, target = self.encode_pairs(encoder, params, batch, base.fold_in(rng, 2))
        asked = questions, batch.questions.topic, batch.questions.answers
        loss, accuracy = losses.alignment_loss(*asked, relations, topic, target, self.facts_weight)
        return loss, {'alignment_accuracy': accuracy}


@dataclasses.dataclass(frozen=True)
class Align(AlignSettings, _Alignment):
    """The pairs are mentions of the topics, each marked in its passage (`AlignSettings`)."""

    pair_encoding: ClassVar[str] = 'marked_pair'
    source_class = AlignSource
    facts_weight: ClassVar[float] = 0.0  # type: ignore[misc]  # a constant here, a setting of AlignPassages

    def encode_pairs(self, encoder, params, batch: AlignBatch, rng):
        encode = functools.partial(encoder.apply, {'params': params['encoder']})
        relations = [
            encode(bucket.tokens, bucket.r1, bucket.r2, **base.dropout(rng, i))
            for i, bucket in enumerate(batch.pairs)
        ]
        ends = (base.concatenate(batch.pairs, side) for side in ('topic', 'target'))
        return jnp.concatenate(relations), *ends


@dataclasses.dataclass(frozen=True)
class AlignPassages(align_passages.PassageAlignSettings, _Alignment):
    """The pairs are all of those of passages that mention the topics, each passage encoded once.

    The settings of the batches are those of `PassageAlignSettings`.

    Attributes:
        pair_encoding: 'span_pair' for the relation of the spans of topic and target; 'mention' for
            an index of mentions (DrKIT), whose entries know their topic by the passage only.
        facts_weight: of the loss that asks of each pair by itself whether it is a fact, see
            `losses.alignment_loss`.
    """

    source_class = align_passages.PassageAlignSource
    pair_encoding: str = 'span_pair'  # type: ignore[misc]  # a setting here, a constant of other objectives
    facts_weight: float = 1.0

    def build(self, prepared, encoder, mesh, seed=0) -> base.Task:
        # Whole passages are encoded.
        check_choice('pair_encoding', self.pair_encoding, ('span_pair', 'mention'))
        return super().build(prepared, encoder, mesh, seed)

    def encode_pairs(self, encoder, params, batch: align_passages.PassageAlignBatch, rng):
        relations = [
            self._relate(encoder, params, bucket, base.dropout(rng, i))
            for i, bucket in enumerate(batch.passages)
        ]
        topic, target = (base.concatenate(batch.passages, n).ravel() for n in ('topic', 'target'))
        return jnp.concatenate(relations), topic, target

    def _relate(self, encoder, params, passages, options):
        """Relations [n R, d_r] of the pairs of one bucket."""
        variables = {'params': params['encoder']}
        row = passages.tokens, passages.first, passages.last
        spans = encoder.apply(variables, *row, **options, method=encoder.spans)
        mentions = passages.topic_mention, passages.target_mention
        topic, target = (jnp.take_along_axis(spans, m[:, :, None, None], axis=1) for m in mentions)
        backward = passages.topic_mention > passages.target_mention
        relations = encoder.apply(
            variables, topic, target, backward, self.pair_encoding, method=encoder.relate_spans
        )
        return relations.reshape(-1, relations.shape[-1])
