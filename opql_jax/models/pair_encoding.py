"""Encoding of many pairs with a trained encoder, on all devices: short rows together, so that little is padding."""

import collections
import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh

from opql_jax.core.errors import InputError
from opql_jax.data import batching, markup
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.mesh import make_mesh, replicate
from opql_jax.parallel.rules import spec

# Finer than in training, where every length has a place in every batch. Each one that occurs is compiled once.
LENGTHS = tuple(range(16, max(batching.BUCKET_LENGTHS) + 1, 8))
# Tokens a device encodes at a time. On a CPU the activations should stay in its cache.
CPU_TOKENS, ACCELERATOR_TOKENS = 2048, 16384
# Batches a device may have waiting, so that it does not idle while the next one is marked.
AHEAD = 4
# Pairs whose relations are computed at a time from the places of their mentions.
RELATED = 4096


class _Batches:
    """Applies an encoder to batches of about as many tokens, each padded to the bucket of its longest row.

    A device encodes one batch at a time, whatever the number of devices: so the results have the same bits on 1 and on 8
    devices of a kind.
    """

    def __init__(self, apply, params, bucket_lengths, tokens_per_batch, mesh):
        self._lengths = np.sort(bucket_lengths)
        mesh = mesh or make_mesh(local=True)
        self._devices = mesh.shape['data']
        on_cpu = mesh.devices.flat[0].platform == 'cpu'
        self._tokens = tokens_per_batch or (CPU_TOKENS if on_cpu else ACCELERATOR_TOKENS)
        self._params = replicate(params, mesh)
        whole, split = spec(), spec('batch')
        # Not left to the partitioner: each device must run the program that a single one would.
        self._apply = jax.jit(jax.shard_map(apply, mesh=mesh, in_specs=(whole, split, split, split), out_specs=split))

    def __call__(self, lengths, batch, take) -> None:
        """Encodes rows of the given lengths [n], in tokens.

        Args:
            lengths: [n].
            batch: the three inputs of some rows: `(indices [m], places for rows, tokens a place) -> arrays`.
            take: is given `(indices [m], results [m, ...])` of each batch.
        """
        running = collections.deque()

        def finish():
            chosen, results = running.popleft()
            take(chosen, np.asarray(results)[: len(chosen)])

        for chosen, size, length in self.plan(lengths):
            running.append((chosen, self._apply(self._params, *batch(chosen, size, length))))
            if len(running) > AHEAD:
                finish()
        while running:
            finish()

    def plan(self, lengths):
        """How rows of the given lengths [n] are encoded: (indices of rows, places for rows, tokens a place) of every batch."""
        order = np.argsort(-lengths, kind='stable')
        falling = -lengths[order]
        start = 0
        while start < len(order):
            length = batching.bucket_of(-int(falling[start]), self._lengths)
            size = max(self._tokens // length, 1)
            # As many batches as begin with a row of this bucket, at most one a device.
            shorter = self._lengths[self._lengths < length].max(initial=0)
            of_bucket = np.searchsorted(falling, -shorter) - start
            batches = min(-(-of_bucket // size), self._devices)
            yield order[start : start + batches * size], self._devices * size, length
            start += batches * size


class PairEncoder:
    """Encodes rows of the pair table, each marked in its passage: `encoder(row_ids [n]) -> relations [n, d_r] float32`.

    Rows are sorted by length, longest first. They share nothing with the other rows of a call but the length they are padded
    to, which changes rounding only.
    """

    def __init__(
        self,
        encoder: RelationEncoder,
        params,
        records,
        pairs,
        special,
        bucket_lengths: Sequence[int] = LENGTHS,
        tokens_per_batch: int | None = None,
        mesh: Mesh | None = None,
        masked: bool = True,
    ):
        """Places the parameters on every device.

        Args:
            encoder: the module.
            params: its parameters.
            records: the passages, `PassageRecords` or anything with `read(ids) -> list[TokenisedPassage]`.
            pairs: columns passage, topic_mention, target_mention [rows].
            special: marker ids.
            bucket_lengths: what rows may be padded to, in tokens.
            tokens_per_batch: of one device, padding included; None for what suits the kind of device.
            mesh: its 'data' axis shares the batches; all devices of the process if None.
            masked: whether [ENT] takes the place of a pair's names.
        """
        self._records, self._pairs, self._special, self._masked = records, pairs, special, masked
        self._dim = encoder.relation_dim
        apply = lambda params, tokens, r1, r2: encoder.apply({'params': params}, tokens, r1, r2)
        self._encode = _Batches(apply, params, bucket_lengths, tokens_per_batch, mesh)

    def __call__(self, rows) -> np.ndarray:
        """Relations of pair rows.

        Args:
            rows: [n] indices of `pairs`, in any order, with repetition or without.

        Returns:
            [n, d_r] float32.

        Raises:
            InputError: a row is longer than the longest bucket, or than the encoder takes.
        """
        rows = np.asarray(rows, np.int64)
        passages, passage = np.unique(self._pairs['passage'][rows], return_inverse=True)
        topic, target = self._pairs['topic_mention'][rows], self._pairs['target_mention'][rows]
        marked = markup.MarkedPairs(self._records.read(passages), passage, topic, target, self._special, self._masked)
        out = np.empty((len(rows), self._dim), np.float32)
        self._encode(marked.lengths, marked.batch, out.__setitem__)
        return out

    def batches(self, lengths):
        """How rows of the given lengths [n] are encoded: (indices of rows, places for rows, tokens a place) of every batch."""
        return self._encode.plan(lengths)


class PassageEncoder:
    """Encodes rows of the pair table as `PairEncoder` does, but each passage only once, for all of its pairs.

    What was encoded is kept: `hidden_size` numbers, or twice as many, for each mention of the passages that were asked for,
    float32. Takes what `PairEncoder` takes, and `entry`, see `RelationEncoder.relate`.
    """

    def __init__(
        self,
        encoder: RelationEncoder,
        params,
        records,
        pairs,
        special,
        bucket_lengths: Sequence[int] = LENGTHS,
        tokens_per_batch: int | None = None,
        mesh: Mesh | None = None,
        entry: str = 'places',
    ):
        self._records, self._pairs, self._special, self._dim = records, pairs, special, encoder.relation_dim

        def ends(params, tokens, first, last):
            spans = encoder.apply({'params': params}, tokens, first, last, method=encoder.spans)
            return spans if entry == 'mention' else spans.mean(axis=2, keepdims=True)

        self._encode = _Batches(ends, params, bucket_lengths, tokens_per_batch, mesh)
        self._relate = jax.jit(lambda *pairs: encoder.apply({'params': params}, *pairs, entry, method=encoder.relate))
        _, mentions = records.sizes()
        self._first = np.append(0, np.cumsum(mentions))
        self._most = int(mentions.max(initial=1))
        self._known = np.zeros(len(mentions), bool)
        # Memory that nothing was written to yet costs nothing.
        self._ends = np.zeros((self._first[-1], 2 if entry == 'mention' else 1, encoder.hidden_size), np.float32)

    def __call__(self, rows) -> np.ndarray:
        """See `PairEncoder.__call__`."""
        rows = np.asarray(rows, np.int64)
        passage = self._pairs['passage'][rows]
        new = np.unique(passage)
        self._read(new[~self._known[new]])
        places = [self._pairs[f'{side}_mention'][rows] for side in ('topic', 'target')]
        topic, target = (self._ends[self._first[passage] + place] for place in places)
        columns = topic, target, places[0] > places[1]
        # Few shapes, so that few programs are compiled.
        parts = range(0, len(rows), RELATED)
        padded = [[np.resize(x[i : i + RELATED], (RELATED, *x.shape[1:])) for x in columns] for i in parts]
        related = [np.asarray(self._relate(*part)) for part in padded]
        return np.concatenate([np.empty((0, self._dim), np.float32), *related])[: len(rows)]

    def _read(self, passages) -> None:
        placed = [markup.place_mentions(passage, self._special) for passage in self._records.read(passages)]

        def batch(chosen, size, length):
            tokens = batching.pad_tokens([placed[i].tokens for i in chosen], size, length, self._special)
            places = np.zeros((2, size, self._most), np.int32)
            for row, i in enumerate(chosen):
                places[:, row, : len(placed[i].first)] = placed[i].first, placed[i].last
            return tokens, *places

        def take(chosen, spans):
            for i, of_passage in zip(chosen, spans):
                first, end = self._first[passages[i] : passages[i] + 2]
                self._ends[first:end] = of_passage[: end - first]

        self._encode(np.array([len(p.tokens) for p in placed], np.int64), batch, take)
        self._known[passages] = True


# What an entry of a memory is encoded from: a pair marked in its text (OPQL), the places of a pair in a text that is encoded
# once for all of them, or the place of its target alone (DrKIT).
ENTRIES = {
    'relation': PairEncoder,
    'places': functools.partial(PassageEncoder, entry='places'),
    'mention': functools.partial(PassageEncoder, entry='mention'),
}


def encoder_of(entry: str):
    """What encodes the rows of a model's memories; InputError if there is no such entry."""
    if entry not in ENTRIES:
        raise InputError(f'entry={entry!r} must be one of {", ".join(ENTRIES)}')
    return ENTRIES[entry]
