"""Trains the reader: which words answer a question, if any, and which passages help."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax

from opql_jax.core import files
from opql_jax.data.sources.reading import (
    BY_SPANS,
    ReadingBatch,
    ReadingBucket,
    ReadingSettings,
    ReadingSource,
)
from opql_jax.models.losses import best_is
from opql_jax.models.reader import SUPPORTS, read_logits
from opql_jax.training.objectives.base import Objective, Task, dropout

# Added to the logits of what cannot be an answer.
_MASKED_LOGIT = -1e9


@dataclasses.dataclass(frozen=True)
class Reading(ReadingSettings, Objective):
    """L_start + L_end + L_supports over a cross-encoder.

    The settings of the batches are those of `ReadingSettings`.

    L_start and L_end: a softmax over the tokens of the passages and, at [CLS], over 'unanswered',
    'yes' and 'no'; several places of an answer share the target mass. L_supports: whether each
    passage helps, read at the [SEP] before it.
    """

    trains: ClassVar[tuple[str, ...]] = ('encoder/', 'reader')
    unreached: ClassVar[tuple[str, ...]] = (
        'encoder/w_e/',
        'encoder/w_r/',
        'encoder/token_embedding/',
        'encoder/position_embedding/',
    )

    def source(self, prepared, seed=0) -> ReadingSource:
        return ReadingSource(prepared, self, seed)

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        def init(params):
            if 'reader' in params:
                return params
            key, shape = jax.random.key(seed), (encoder.hidden_size, SUPPORTS + 1)
            kernel = 0.02 * jax.random.truncated_normal(key, -2, 2, shape)
            return {**params, 'reader': {'kernel': kernel}}

        return Task(
            source=self.source(prepared, seed),
            loss=functools.partial(self.loss, encoder),
            trainable=self.trainable,
            lineage=self.lineage(
                examples=files.sha256(self.examples), rows=[list(row) for row in self.rows.items()]
            ),
            init=init,
        )

    def loss(self, encoder, params, batch: ReadingBatch, memory, rng):
        parts = [
            self._bucket_sums(encoder, params, bucket, rng, i)
            for i, bucket in enumerate(batch.inputs)
        ]
        sums = jax.tree.map(lambda *values: sum(values), *parts)
        rows, passages = jnp.maximum(sums.pop('rows'), 1), jnp.maximum(sums.pop('passages'), 1)
        spans, supports = sums['L_span'] / rows, sums['L_supports'] / passages
        metrics = {'L_span': spans, 'L_supports': supports, 'right': sums['right'] / rows}
        return spans + supports, metrics

    def _bucket_sums(self, encoder, params, bucket: ReadingBucket, rng, number: int) -> dict:
        logits = read_logits(encoder, params, bucket.tokens, **dropout(rng, number))
        found = []
        for way, marks in enumerate((bucket.start, bucket.end)):
            spans = jnp.where(bucket.is_text, logits[:, :, way], _MASKED_LOGIT)
            # [n, 3 + L]: unanswered, yes and no, and the tokens.
            all_logits = jnp.concatenate([logits[:, 0, 2:5], spans], axis=1)
            verdicts = jnp.arange(3) == bucket.verdict[:, None]
            target = jnp.concatenate(
                [verdicts, marks & (bucket.verdict == BY_SPANS)[:, None]], axis=1
            )
            logs = jax.nn.log_softmax(all_logits)
            lost = -jax.nn.logsumexp(jnp.where(target, logs, _MASKED_LOGIT), axis=1)
            found.append((lost, best_is(target, all_logits)))
        used = bucket.verdict >= 0
        (start_loss, start_right), (end_loss, end_right) = found
        helps = jnp.take_along_axis(logits[:, :, SUPPORTS], bucket.first, axis=1)
        known = bucket.supports >= 0
        supports = optax.sigmoid_binary_cross_entropy(helps, bucket.supports)
        return {
            'L_span': (jnp.where(used, start_loss + end_loss, 0) / 2).sum(),
            'L_supports': jnp.where(known, supports, 0).sum(),
            'right': (used & start_right & end_right).sum(),
            'rows': used.sum(),
            'passages': known.sum(),
        }
