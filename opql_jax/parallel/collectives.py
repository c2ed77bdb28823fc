"""What devices exchange when rows are split over all of them: queries out, sums and lists of candidates back."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from opql_jax.parallel.mesh import MESH_AXES, ROWS


def owned(ids, rows):
    """Tells which ids belong to this device, when rows are split over all devices in equal shares; for use inside `jax.shard_map`.

    Args:
        ids: [...] int32 row numbers; -1 belongs to no device.
        rows: rows per device.

    Returns:
        The local row numbers [...] int32, 0 for rows of other devices; and which are this device's, [...] bool.
    """
    local = ids - lax.axis_index(MESH_AXES) * rows
    own = (ids >= 0) & (local >= 0) & (local < rows)
    return jnp.where(own, local, 0), own


class QueryLayout(NamedTuple):
    """How queries are placed on all devices: in equal shares, or whole on each where they cannot be shared equally.

    The methods are for use inside `jax.shard_map`.

    Attributes:
        shared: whether each device has an equal share.
    """

    shared: bool

    @classmethod
    def of(cls, queries: int, mesh):
        """The layout of a number of queries over a mesh."""
        return cls(queries % mesh.size == 0)

    @property
    def spec(self):
        """The partition of arrays whose first dimension counts queries."""
        return ROWS if self.shared else PartitionSpec()

    def gather(self, tree):
        """Arrays [B', ...] of this device's queries -> [B, ...] of all."""
        return jax.tree.map(lambda x: lax.all_gather(x, MESH_AXES, tiled=True), tree) if self.shared else tree

    def sum(self, x):
        """Sums [B, ...] over devices; each device gets its share of the queries."""
        return lax.psum_scatter(x, MESH_AXES, tiled=True) if self.shared else lax.psum(x, MESH_AXES)

    def exchange(self, x):
        """Candidates [B, k] of every device -> those for this device's queries, [B', D k], in the order of devices."""
        if self.shared:
            devices = lax.axis_size(MESH_AXES)
            x = lax.all_to_all(x.reshape(devices, -1, x.shape[1]), MESH_AXES, 0, 0)
            return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)
        return lax.all_gather(x, MESH_AXES, axis=1, tiled=True)
