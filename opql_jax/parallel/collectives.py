"""What the devices of a slice exchange, over which rows are split: queries, sums, candidates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from opql_jax.parallel.mesh import ROW_AXES, ROWS, SLICE, slice_spec


def owned(ids, rows):
    """Local rows of ids [...] where a slice shares rows equally (0: others'), and which are own."""
    local = ids - lax.axis_index(ROW_AXES) * rows
    own = (ids >= 0) & (local >= 0) & (local < rows)
    return jnp.where(own, local, 0), own


class QueryLayout(NamedTuple):
    """How queries are placed, for `jax.shard_map`: in equal shares, or else whole everywhere."""

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
