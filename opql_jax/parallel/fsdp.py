"""The encoder's matrices and their moments, split over a slice between steps (FSDP, ZeRO-3).

A step begins by gathering them in the type that the encoder computes in. Their gradients, in that
type too, are summed by the device that holds the part, which updates it. So a device exchanges as
many bytes as in a sum of whole gradients, and the optimizer reads and writes a part of each array.
"""

import re

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from opql_jax.parallel.mesh import ROW_AXES, row_devices

# What the encoder uses in its type. Layer norms, biases and W_r and W_e, which it uses in float32,
# are small.
_SPLIT = re.compile(r'\bencoder/(layers_\d+/\w+/kernel|\w+/embedding)$')
_WHOLE = PartitionSpec()


def spec(name: str, shape: tuple[int, ...], mesh: Mesh) -> PartitionSpec:
    """How a parameter, or its moment, is split: by its first axis that divides evenly."""
    axis = next((axis for axis, size in enumerate(shape) if size % row_devices(mesh) == 0), None)
    if axis is None or not _SPLIT.search(name):
        return _WHOLE
    return PartitionSpec(*[None] * axis, ROW_AXES)


def gather(params: dict[str, jax.Array], mesh: Mesh, dtype: str) -> dict[str, jax.Array]:
    """Trained parameters by name, those that are split whole on each device and in `dtype`."""

    def whole(name, value):
        split = spec(name, value.shape, mesh)
        if split == _WHOLE:
            return value
        run = lambda x: lax.all_gather(x.astype(dtype), ROW_AXES, axis=len(split) - 1, tiled=True)
        return jax.shard_map(run, mesh=mesh, in_specs=split, out_specs=_WHOLE, check_vma=False)(
            value
        )

    return {name: whole(name, value) for name, value in params.items()}


def scatter(gradients: dict[str, jax.Array], mesh: Mesh) -> dict[str, jax.Array]:
    """Gradients of gathered parameters by name, split as the parameters are, in float32."""

    def part(name, value):
        split = spec(name, value.shape, mesh)
        if split == _WHOLE:
            return value
        # First whole: for a part the compiler would compute and pass on the gradient in loops.
        whole = lax.with_sharding_constraint(value, NamedSharding(mesh, _WHOLE))
        return lax.with_sharding_constraint(whole, NamedSharding(mesh, split)).astype(jnp.float32)

    return {name: part(name, value) for name, value in gradients.items()}
