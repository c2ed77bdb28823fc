"""Trains the reader: which words answer a question, if any, and which passages help."""

from __future__ import annotations

import dataclasses
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
from opql_jax.models.reader import MASKED, read_logits
from opql_jax.models.released import READER_HEAD
from opql_jax.training.objectives.base import Objective, Task, dropout


@dataclasses.dataclass(frozen=True)
class Reading(ReadingSettings, Objective):
    """L_span + L_supports over a cross-encoder.

    The settings of the batches are those of `ReadingSettings`.

    L_span: a softmax over the spans of the passages and over 'unanswered', 'yes' and 'no'; several
    places of an answer share the target mass. L_supports: whether each passage helps, read at the
    [SEP] before it.
    """

    source_class = ReadingSource
    trains: ClassVar[tuple[str, ...]] = ('encoder/', 'reader')
    unreached: ClassVar[tuple[str, ...]] = (
        'encoder/w_e/',
        'encoder/w_r/',
        'encoder/token_embedding/',
        'encoder/position_embedding/',
    )

    def build(self, prepared, encoder, mesh, seed=0) -> Task:
        def init(params):
            if 'reader' in params:
                return params
            keys = jax.random.split(jax.random.key(seed), len(READER_HEAD))
            head = {
                name: 0.02 * jax.random.truncated_normal(key, -2, 2, (encoder.hidden_size, outputs))
                for key, (name, outputs) in zip(keys, READER_HEAD.items())
            }
            return {**params, 'reader': head}

        return dataclasses.replace(super().build(prepared, encoder, mesh, seed), init=init)

    def lineage(self, **changes):
        examples, rows = files.sha256(self.examples), [list(row) for row in self.rows.items()]
        return super().lineage(examples=examples, rows=rows, **changes)

    def loss(self, encoder, layout, params, batch: ReadingBatch, memory, rng):
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
        logits = read_logits(encoder, params, bucket.tokens, bucket.is_text, **dropout(rng, number))
        spans = _answers(bucket.start, bucket.end) & (logits.spans > MASKED)
        spans &= (bucket.verdict == BY_SPANS)[:, None, None]
        verdicts = jnp.arange(3) == bucket.verdict[:, None]
        flat = lambda of_spans: of_spans.reshape(len(bucket.tokens), -1)
        target = jnp.concatenate([verdicts, flat(spans)], axis=1)
        all_logits = jnp.concatenate([logits.verdicts, flat(logits.spans)], axis=1)
        log_probs = jax.nn.log_softmax(all_logits)
        # Rows that are not filled have no target, nor do those whose answer is too long.
        used = target.any(axis=1)
        lost = -jax.nn.logsumexp(jnp.where(target, log_probs, MASKED), axis=1)
        helps = jnp.take_along_axis(logits.supports, bucket.first, axis=1)
        known = bucket.supports >= 0
        supports = optax.sigmoid_binary_cross_entropy(helps, bucket.supports)
        return {
            'L_span': jnp.where(used, lost, 0).sum(),
            'L_supports': jnp.where(known, supports, 0).sum(),
            'right': (used & best_is(target, all_logits)).sum(),
            'rows': used.sum(),
            'passages': known.sum(),
        }


def _answers(start, end):
    """[n, L, L] bool: the answers by first and last token, of these [n, L]; none overlap."""
    begun, over = jnp.cumsum(start, axis=1), jnp.cumsum(end, axis=1) - end
    same = lambda counts: counts[:, :, None] == counts[:, None, :]
    return start[:, :, None] & end[:, None, :] & same(begun) & same(over)
