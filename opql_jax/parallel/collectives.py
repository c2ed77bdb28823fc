"""What the devices of a slice exchange, over which rows are split: queries, sums, candidates."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from opql_jax.parallel.mesh import ROW_AXES, ROWS, SLICE, slice_spec

# Rows that a device looks up at once, whether they are its own or not.
_FEW = 512


def owned(ids, rows):
    """Local rows of ids [...] where a slice shares rows equally (0: others'), and which are own."""
    local = ids - lax.axis_index(ROW_AXES) * rows
    own = (ids >= 0) & (local >= 0) & (local < rows)
    return jnp.where(own, local, 0), own


def of_all(compute, vectors, row, own):
    """`compute(vectors [B, d], row [B, k])`, a pytree of [B, k], with 0 where `own` is false."""
    return jax.tree.map(lambda x: jnp.where(own, x, 0), compute(vectors, row))


def of_owned(compute, vectors, row, own):
    """`of_all` without gradient, for a TPU, to which looking up a row is slow whosever it is.

    Of D devices each owns about one row in D. It takes its own first, as queries of one row, twice
    that share at a time, until none is left. For use inside `jax.shard_map`.
    """
    size, k = row.size, row.shape[1]
    chunk = max(_FEW, 2 * size // lax.axis_size(ROW_AXES))
    if chunk >= size:
        return of_all(compute, vectors, row, own)
    order = jnp.arange(size, dtype=jnp.int32) + jnp.where(own.reshape(-1), 0, size)
    order, rows = lax.sort((order, row.reshape(-1)), num_keys=1, is_stable=False)
    places = order % size
    # Of this form a TPU reads single vectors, of the other eight at a time.
    lanes = vectors.reshape(len(vectors), -1, math.gcd(vectors.shape[1], 128))

    def step(i, found):
        start = jnp.minimum(i * chunk, size - chunk)  # the last overlaps the one before
        part = lambda x: lax.dynamic_slice_in_dim(x, start, chunk)
        vector = lanes[part(places) // k].reshape(chunk, -1)
        new = compute(vector, part(rows)[:, None])
        write = lambda all, x: lax.dynamic_update_slice_in_dim(all, x[:, 0], start, 0)
        return jax.tree.map(write, found, new)

    shapes = jax.eval_shape(compute, vectors, row)
    empty = jax.tree.map(lambda x: jnp.zeros(size, x.dtype), shapes)
    found = lax.fori_loop(0, -(-own.sum() // chunk), step, empty)
    parts, tree = jax.tree.flatten(found)
    _, *parts = lax.sort((places, *parts), num_keys=1, is_stable=False)
    return jax.tree.unflatten(tree, [jnp.where(own, x.reshape(row.shape), 0) for x in parts])


class QueryLayout(NamedTuple):
    """How queries are placed: in equal shares, or whole on each device where that fails.

    The methods are for use inside `jax.shard_map`.
    """

    spec: PartitionSpec  # of arrays whose first dimension counts queries
    spec_of_slice: PartitionSpec  # of such arrays where each device has all queries of its slice

    @classmethod
    def of(cls, queries: int, mesh):
        """The layout of a number of queries over a mesh."""
        if queries % mesh.size:
            return cls(PartitionSpec(), PartitionSpec())
        everywhere = PartitionSpec((SLICE, *ROW_AXES)) if SLICE in mesh.shape else ROWS
        return cls(everywhere, slice_spec(queries, mesh))

    @property
    def shared(self) -> bool:
        """Whether each device has an equal share."""
        return self.spec != PartitionSpec()

    def gather(self, tree):
        """Arrays [B', ...] of this device's queries -> [B, ...] of all of its slice."""
        if self.shared:
            return jax.tree.map(lambda x: lax.all_gather(x, ROW_AXES, tiled=True), tree)
        return tree

    def sum(self, x):
        """Sums [B, ...] over the devices of a slice; each device gets its share of the queries."""
        return lax.psum_scatter(x, ROW_AXES, tiled=True) if self.shared else lax.psum(x, ROW_AXES)

    def exchange(self, x):
        """Candidates [B, k] of a slice's devices -> [B', D k] for this one's queries, by device."""
        if self.shared:
            devices = lax.axis_size(ROW_AXES)
            x = lax.all_to_all(x.reshape(devices, -1, x.shape[1]), ROW_AXES, 0, 0)
            return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)
        return lax.all_gather(x, ROW_AXES, axis=1, tiled=True)
