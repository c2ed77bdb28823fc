"""Encoding of many pairs or questions with a trained encoder: length buckets, one compilation a bucket."""

import jax
import numpy as np

from opql_jax.data import buckets, markup
from opql_jax.models.encoder import RelationEncoder


class PairEncoder:
    """Encodes rows of the pair table: `encoder(row_ids [n]) -> relations [n, d_r] float32`.

    Rows are sorted by length and padded to their bucket only. A bucket's batch holds about the same number of tokens
    whatever the length, so memory stays bounded.
    """

    def __init__(
        self,
        encoder: RelationEncoder,
        params,
        records,
        pairs,
        special,
        bucket_lengths=buckets.BUCKET_LENGTHS,
        tokens_per_batch: int = 16384,
    ):
        self._records, self._pairs, self._special = records, pairs, special
        self._lengths, self._tokens = tuple(bucket_lengths), tokens_per_batch
        self._encoder, self._params = encoder, params
        self._apply = jax.jit(lambda params, tokens, r1, r2: encoder.apply({'params': params}, tokens, r1, r2))

    def __call__(self, rows) -> np.ndarray:
        rows = np.asarray(rows)
        marked = self._mark(rows)
        bucket = np.array([buckets.bucket_of(len(m.tokens), self._lengths) for m in marked])
        out = np.empty((len(rows), self._encoder.relation_dim), np.float32)
        for length in self._lengths:
            members = np.flatnonzero(bucket == length)
            size = max(self._tokens // length // 8 * 8, 8)
            for start in range(0, len(members), size):
                chosen = members[start : start + size]
                tokens = np.full((size, length), self._special.pad, np.int32)
                r1, r2 = np.zeros(size, np.int32), np.zeros(size, np.int32)
                for i, member in enumerate(chosen):
                    m = marked[member]
                    tokens[i, : len(m.tokens)], r1[i], r2[i] = m.tokens, m.r1, m.r2
                out[chosen] = np.asarray(self._apply(self._params, tokens, r1, r2))[: len(chosen)]
        return out

    def _mark(self, rows) -> list[markup.MarkedPair]:
        columns = (self._pairs[name][rows] for name in ('passage', 'topic_mention', 'target_mention'))
        passage, topic, target = columns
        return [
            markup.mark_pair(read, i, j, self._special, max_context=0)
            for read, i, j in zip(self._records.read(passage), topic, target)
        ]
