"""Encodes many pairs or mentions with a trained encoder, on this process's devices.

Rows of similar length share a batch. A pair is encoded in one of three ways, named in a model's
model.json as `pair_encoding`:

    'marked_pair'   the paper's: marked and masked in its passage, which is encoded once per pair
    'span_pair'     the passage is encoded once, with its names; a pair is read off its two spans
    'mention'       the target's span alone: an index of mentions, as DrKIT's (Dhingra et al., 2020)
"""

import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from opql_jax.core.errors import check_choice
from opql_jax.core.progress import logged
from opql_jax.data import batching, markup
from opql_jax.data.tokenizer import SpecialIds
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.host_encoder import unit
from opql_jax.parallel.mesh import batch_devices, batch_spec, make_mesh, platform_of, replicate

# Finer than in training, where each batch has rows of every length; each is compiled once.
LENGTHS = tuple(range(16, max(batching.BUCKET_LENGTHS) + 1, 8))
# Tokens that a device encodes at a time. On a CPU the activations should stay in its cache.
CPU_TOKENS, ACCELERATOR_TOKENS = 2048, 16384
# Batches that are queued on the devices, so that they do not idle while the next one is made.
QUEUED_BATCHES = 4
# Pairs whose relations are computed at a time from the spans of their mentions.
PAIRS_PER_BATCH = 4096


class BatchedEncoder:
    """Applies a function of parameters and tokens in batches, alike on any number of devices."""

    def __init__(
        self,
        apply: Callable,
        encoder: RelationEncoder,
        params,
        lengths: Sequence[int] | None = None,
    ):
        """Places the parameters on all devices.

        `apply` is `(encoder, params, *batch) -> [rows, ...]`, compiled once for all encoders of a
        form, with a batch as `__call__` gets it. Rows are padded to one of `lengths` (default
        LENGTHS).
        """
        mesh = make_mesh(local=True)
        self._lengths = np.sort(lengths or LENGTHS)
        self._num_devices = batch_devices(mesh)
        self._tokens = CPU_TOKENS if platform_of(mesh) == 'cpu' else ACCELERATOR_TOKENS
        self._params = replicate(params, mesh)
        self._apply = functools.partial(_run, apply, encoder, mesh)

    def __call__(
        self, lengths, make_batch: Callable[..., tuple]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Encodes rows of `lengths` [n] tokens, longest first.

        `make_batch` is `(indices [m], size >= m, length) -> arrays [size, ...]`, padded inputs.
        Yields the indices [m] of the rows of each batch, and their results [m, ...]. InputError: a
        row is longer than the longest of `lengths`.
        """
        queue: collections.deque = collections.deque()
        for rows, size, length in self.plan(lengths):
            queue.append((rows, self._apply(self._params, make_batch(rows, size, length))))
            if len(queue) > QUEUED_BATCHES:
                yield _finished(*queue.popleft())
        while queue:
            yield _finished(*queue.popleft())

    def all(
        self, lengths, make_batch: Callable[..., tuple], size: int, what: str = ''
    ) -> np.ndarray:
        """The results [n, size] float32 of all rows, in order; the log counts `what`, if given."""
        out = np.empty((len(lengths), size), np.float32)
        batches = self(lengths, make_batch)
        if what:
            batches = logged(batches, len(lengths), what, rows_of_batch)
        for rows, found in batches:
            out[rows] = found
        return out

    def plan(self, lengths) -> Iterator[tuple[np.ndarray, int, int]]:
        """The batches of rows of these lengths [n]: indices, size in rows, length in tokens."""
        order = np.argsort(-lengths, kind='stable')
        falling = -lengths[order]
        start = 0
        while start < len(order):
            length = batching.bucket_of(-int(falling[start]), self._lengths)
            size = max(self._tokens // length, 1)
            # As many batches as begin with a row of this length, at most one per device.
            shorter = self._lengths[self._lengths < length].max(initial=0)
            of_length = np.searchsorted(falling, -shorter) - start
            batches = min(-(-of_length // size), self._num_devices)
            yield order[start : start + batches * size], self._num_devices * size, length
            start += batches * size


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _run(apply, encoder, mesh, params, batch):
    whole, split = PartitionSpec(), batch_spec(mesh)
    of_device = lambda params, batch: apply(encoder, params, *batch)
    # Not left to the partitioner, which would not run the program of a single device.
    run = jax.shard_map(of_device, mesh=mesh, in_specs=(whole, split), out_specs=split)
    return run(params, batch)


def token_rows(
    rows: Sequence[np.ndarray], special: SpecialIds, *columns: np.ndarray
) -> tuple[np.ndarray, Callable[..., tuple]]:
    """The lengths and `make_batch` that `BatchedEncoder` takes, of tokens; columns are [n, ...]."""

    def make_batch(chosen, size, length):
        tokens = batching.pad_tokens([rows[i] for i in chosen], size, length, special)
        return tokens, *(batching.filled(column[chosen], size, 0) for column in columns)

    return np.array([len(row) for row in rows], np.int64), make_batch


def rows_of_batch(batch: tuple[np.ndarray, np.ndarray]) -> int:
    """How many rows a batch of `BatchedEncoder` has."""
    return len(batch[0])


def _finished(rows, results):
    return rows, np.asarray(results)[: len(rows)]


def marked_relations(encoder, params, *batch):
    """The relations [n, d_r] of marked pairs: tokens [n, L], positions [n] of [R1] and [R2]."""
    return encoder.apply({'params': params}, *batch)


class MarkedPairEncoder:
    """`encode(row_ids [n]) -> [n, d_r] float32`: relations of pairs, each marked in its passage."""

    def __init__(self, encoder: RelationEncoder, params, source):
        """Places the parameters on all devices.

        `source` is a `Prepared`, or has its `records` (with `read` and `sizes`), `pairs` and
        `special`.
        """
        self._source, self._relation_dim = source, encoder.relation_dim
        self.batched = BatchedEncoder(marked_relations, encoder, params)

    def __call__(self, rows) -> np.ndarray:
        """Relations [n, d_r] of the pairs `rows` [n] of the source; InputError: one is too long."""
        rows, pairs = np.asarray(rows, np.int64), self._source.pairs
        passages, passage = np.unique(pairs['passage'][rows], return_inverse=True)
        topic, target = pairs['topic_mention'][rows], pairs['target_mention'][rows]
        texts = self._source.records.read(passages)
        marked = markup.MarkedPairs(texts, passage, topic, target, self._source.special)
        return self.batched.all(marked.lengths, marked.batch, self._relation_dim, 'pairs encoded')


def _ends_of_spans(encoder, params, tokens, first, last):
    return encoder.apply({'params': params}, tokens, first, last, method=encoder.spans)


def _means_of_spans(*arguments):
    return _ends_of_spans(*arguments).mean(axis=2, keepdims=True)


@functools.partial(jax.jit, static_argnums=(0, 1))
def relate_spans(
    encoder: RelationEncoder, pair_encoding: str, params, topic, target, topic_is_second
):
    """`RelationEncoder.relate_spans` of an encoder with these parameters."""
    apply: Any = functools.partial(encoder.apply, method=encoder.relate_spans)
    return apply({'params': params}, topic, target, topic_is_second, pair_encoding)


def span_relations(encoder, params, tokens, first, last, backward):
    """The relations [n, d_r] of marked pairs, of unit length."""
    spans = encoder.apply({'params': params}, tokens, first, last, method=encoder.spans)
    return unit(relate_spans(encoder, 'span_pair', params, spans[:, 0], spans[:, 1], backward))


def last_layer(encoder, params, tokens):
    """`RelationEncoder.hidden` of tokens [n, L], float32."""
    return encoder.apply({'params': params}, tokens, method=encoder.hidden).astype(jnp.float32)


class SpanPairEncoder:
    """The relations of rows of a pair table; keeps the mentions of all passages encoded so far."""

    def __init__(self, encoder: RelationEncoder, params, source, pair_encoding: str = 'span_pair'):
        """See `MarkedPairEncoder`; `pair_encoding` is 'span_pair' or 'mention'."""
        self._source, self._relation_dim = source, encoder.relation_dim
        both_ends = pair_encoding == 'mention'
        of_spans = _ends_of_spans if both_ends else _means_of_spans
        self.batched = BatchedEncoder(of_spans, encoder, params)
        self._relate = functools.partial(relate_spans, encoder, pair_encoding, params)
        _, num_mentions = source.records.sizes()
        # Of each passage, among those of all.
        self._first_mention = np.append(0, np.cumsum(num_mentions))
        self._max_mentions = int(num_mentions.max(initial=1))
        self._is_encoded = np.zeros(len(num_mentions), bool)
        # Pages that were never written take no memory.
        shape = self._first_mention[-1], 2 if both_ends else 1, encoder.hidden_size
        self._spans = np.zeros(shape, np.float32)

    def __call__(self, rows) -> np.ndarray:
        """See `MarkedPairEncoder.__call__`."""
        rows, pairs = np.asarray(rows, np.int64), self._source.pairs
        passage, topic, target = (
            pairs[name][rows] for name in ('passage', 'topic_mention', 'target_mention')
        )
        passages = np.unique(passage)
        self._encode_passages(passages[~self._is_encoded[passages]])
        first = self._first_mention[passage]
        columns = self._spans[first + topic], self._spans[first + target], topic > target
        relations = [np.empty((0, self._relation_dim), np.float32)]
        for start in range(0, len(rows), PAIRS_PER_BATCH):
            part = (column[start : start + PAIRS_PER_BATCH] for column in columns)
            # Of one shape, so that one program is compiled.
            padded = [np.resize(x, (PAIRS_PER_BATCH, *x.shape[1:])) for x in part]
            relations.append(np.asarray(self._relate(*padded)))
        return np.concatenate(relations)[: len(rows)]

    def _encode_passages(self, passages) -> None:
        special, records = self._source.special, self._source.records.read(passages)
        texts = [markup.place_mentions(passage, special) for passage in records]
        width = (self._max_mentions,)
        ends = (
            batching.pad_rows([getattr(text, name) for text in texts], len(texts), width)
            for name in ('first', 'last')
        )
        # For a memory it is most of the work, and comes before the first pair.
        batches = self.batched(*token_rows([text.tokens for text in texts], special, *ends))
        for chosen, spans in logged(batches, len(passages), 'new passages encoded', rows_of_batch):
            for i, spans_of_passage in zip(chosen, spans):
                first, end = self._first_mention[passages[i] : passages[i] + 2]
                self._spans[first:end] = spans_of_passage[: end - first]
        self._is_encoded[passages] = True


PAIR_ENCODINGS = ('marked_pair', 'span_pair', 'mention')


def pair_encoder(
    pair_encoding: str, encoder: RelationEncoder, params, source
) -> MarkedPairEncoder | SpanPairEncoder:
    """The encoder of pairs for a `pair_encoding`; other arguments as of `MarkedPairEncoder`."""
    check_choice('pair_encoding', pair_encoding, PAIR_ENCODINGS)
    if pair_encoding == 'marked_pair':
        return MarkedPairEncoder(encoder, params, source)
    return SpanPairEncoder(encoder, params, source, pair_encoding)


def _mention(encoder, params, tokens, position):
    return encoder.apply({'params': params}, tokens, position, method=encoder.mentions)[:, 0]


def encode_mentions(encoder: RelationEncoder, params, source, passage, mention) -> np.ndarray:
    """m = W_e^T h_start [n, d_e] of mentions [n] of passages [n], masked by [ENT] (paper §2.1)."""
    texts = source.records.read_joined(passage)
    masked = markup.MaskedMentions(texts, np.asarray(mention, np.int64), source.special)

    def make_batch(chosen, size, length):
        tokens, position = masked.batch(np.asarray(chosen), size, length)
        return tokens, position[:, None]

    # Fewer lengths than of pairs, as mentions of new entities are few and each length is compiled.
    batched = BatchedEncoder(_mention, encoder, params, batching.BUCKET_LENGTHS)
    return batched.all(masked.lengths, make_batch, encoder.entity_dim)
