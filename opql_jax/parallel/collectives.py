"""What devices exchange when rows are split over all of them: queries out, sums and lists of candidates back."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from opql_jax.parallel.rules import axes_of, spec


def owned(ids, rows, axes):
    """Which of some ids this device owns, when rows are split over the devices of `axes` in equal shares.

    Args:
        ids: [...] int32 numbers of rows; -1 is nobody's.
        rows: how many a device has.

    Returns:
        Their places among this device's rows, [...] int32, 0 for those of others; and which are its own, [...] bool.
    """
    place = ids - lax.axis_index(axes) * rows
    own = (ids >= 0) & (place >= 0) & (place < rows)
    return jnp.where(own, place, 0), own


class Batch(NamedTuple):
    """How queries lie on the devices: in equal shares, or all on each where they cannot be shared equally.

    The methods are for use inside `jax.shard_map`.
    """

    axes: tuple[str, ...]
    shared: bool

    @classmethod
    def of(cls, queries: int, mesh):
        """The layout of a number of queries over all devices of a mesh."""
        return cls(axes_of('queries'), queries % mesh.size == 0)

    @property
    def spec(self):
        """The partition of arrays whose first axis are the queries."""
        return spec('queries') if self.shared else spec()

    def gather(self, tree):
        """Arrays [B', ...] of this device's queries -> [B, ...] of all."""
        return jax.tree.map(lambda x: lax.all_gather(x, self.axes, tiled=True), tree) if self.shared else tree

    def sum(self, x):
        """Sums [B, ...] over devices; each gets its share of the queries."""
        return lax.psum_scatter(x, self.axes, tiled=True) if self.shared else lax.psum(x, self.axes)

    def exchange(self, x):
        """What all devices found for one's share of the queries, [B', D k] from [B, k] each, in the order of devices."""
        if self.shared:
            devices = lax.axis_size(self.axes)
            x = lax.all_to_all(x.reshape(devices, -1, x.shape[1]), self.axes, 0, 0)
            return jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)
        return lax.all_gather(x, self.axes, axis=1, tiled=True)
