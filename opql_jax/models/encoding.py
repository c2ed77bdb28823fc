"""Encoding of many pairs with a trained encoder, on all devices: short rows together, so that little is padding."""

import collections
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from opql_jax.data import buckets, markup
from opql_jax.models.encoder import RelationEncoder
from opql_jax.parallel.mesh import make_mesh, replicate

# Finer than in training, where every length has a place in every batch. Each one that occurs is compiled once.
LENGTHS = tuple(range(16, max(buckets.BUCKET_LENGTHS) + 1, 8))
# Tokens a device encodes at a time. On a CPU the activations should stay in its cache.
CPU_TOKENS, ACCELERATOR_TOKENS = 2048, 16384
# Batches a device may have waiting, so that it does not idle while the next one is marked.
AHEAD = 4


class PairEncoder:
    """Encodes rows of the pair table: `encoder(row_ids [n]) -> relations [n, d_r] float32`.

    Rows are sorted by length, longest first, and cut into batches of about `tokens_per_batch` tokens, each padded to the
    bucket of its longest row. A device encodes one batch at a time, whatever the number of devices: so the relations of
    a call have the same bits on 1 and on 8 devices of a kind. Rows share nothing with the other rows of a call but the
    length they are padded to, which changes rounding only.
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
        entry: str = 'relation',
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
            mesh: its 'data' axis shares the batches; all devices if None.
            entry: what a row is encoded from, see `markup.ENTRIES`.
        """
        _, self._mark = markup.ways_to_mark(entry)
        self._records, self._pairs, self._special = records, pairs, special
        self._lengths = np.sort(bucket_lengths)
        mesh = mesh or make_mesh()
        self._devices = mesh.shape['data']
        on_cpu = mesh.devices.flat[0].platform == 'cpu'
        self._tokens = tokens_per_batch or (CPU_TOKENS if on_cpu else ACCELERATOR_TOKENS)
        self._dim = encoder.relation_dim
        self._params = replicate(params, mesh)
        whole, split = PartitionSpec(), PartitionSpec('data')
        # Not left to the partitioner: each device must run the program that a single one would.
        self._apply = jax.jit(
            jax.shard_map(
                lambda params, tokens, r1, r2: encoder.apply({'params': params}, tokens, r1, r2),
                mesh=mesh,
                in_specs=(whole, split, split, split),
                out_specs=split,
            )
        )

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
        marked = self._mark(self._records.read(passages), passage, topic, target, self._special)
        out = np.empty((len(rows), self._dim), np.float32)
        running = collections.deque()

        def finish():
            chosen, relations = running.popleft()
            out[chosen] = np.asarray(relations)[: len(chosen)]

        for chosen, size, length in self.batches(marked.lengths):
            running.append((chosen, self._apply(self._params, *marked.batch(chosen, size, length))))
            if len(running) > AHEAD:
                finish()
        while running:
            finish()
        return out

    def batches(self, lengths):
        """How rows of the given lengths [n] are encoded: (indices of rows, places for rows, tokens a place) of every batch."""
        order = np.argsort(-lengths, kind='stable')
        falling = -lengths[order]
        start = 0
        while start < len(order):
            length = buckets.bucket_of(-int(falling[start]), self._lengths)
            size = max(self._tokens // length, 1)
            # As many batches as begin with a row of this bucket, at most one a device.
            shorter = self._lengths[self._lengths < length].max(initial=0)
            of_bucket = np.searchsorted(falling, -shorter) - start
            batches = min(-(-of_bucket // size), self._devices)
            yield order[start : start + batches * size], self._devices * size, length
            start += batches * size
