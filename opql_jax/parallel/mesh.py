"""The device mesh, and how arrays are split over it.

One mesh with axes ('data', 'model') serves the project, preceded by an axis 'slice' if there are
several slices with slow links between them: TPU slices, or hosts of GPUs. Rows of the entity table
and of a memory are split over all devices of a slice (ROWS), and each slice has all of them; a
batch is split over 'slice' and 'data' (`batch_spec`), the queries of a search over everything.
`fsdp` splits the other large parameters, within a slice, too.
"""

import collections
import math
from collections.abc import Sequence

import jax
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from opql_jax.core import distributed
from opql_jax.core.errors import InputError

SLICE, ROW_AXES = 'slice', ('data', 'model')
ROWS = PartitionSpec(ROW_AXES)


def make_mesh(
    data: int | None = None, model: int = 1, slices: int | None = None, local: bool = False
) -> Mesh:
    """Mesh over the first data * model devices, of each slice where there are several.

    `data` and `model` count devices of a slice along each axis; all that are left by `model` if
    None. Slices are groups of equal size, in the order of `jax.devices()`; those that the devices
    name themselves if None. A `local` mesh is of this process only. InputError: there are too few
    devices, or several processes would leave some unused; `model` does not divide them, or slices
    cannot be of equal size.
    """
    devices = jax.local_devices() if local else jax.devices()
    mesh = mesh_of(devices, data, model, slices)
    if not local and distributed.process_count() > 1 and mesh.size < len(devices):
        raise InputError(
            f'a mesh of {mesh.size} devices was asked for, and {distributed.process_count()} '
            f'processes have {len(devices)}: use all of them, as each process works on its own'
        )
    return mesh


def mesh_of(
    devices: Sequence, data: int | None = None, model: int = 1, slices: int | None = None
) -> Mesh:
    """`make_mesh` of given devices."""
    if slices is None:
        named = collections.defaultdict(list)
        for device in devices:
            named[getattr(device, 'slice_index', 0)].append(device)
        groups = list(named.values())
    elif slices < 1 or len(devices) % slices:
        raise InputError(f'{len(devices)} devices cannot be taken as {slices} slices of equal size')
    else:
        size = len(devices) // slices
        groups = [devices[start : start + size] for start in range(0, len(devices), size)]
    sizes = [len(group) for group in groups]
    fewest, parts = min(sizes), len(groups)
    if data is None:
        if fewest < max(sizes):
            raise InputError(
                f'slices have {sizes} devices: say how many of each make the mesh, at most '
                f'{fewest}, or slices=1'
            )
        if 1 < model < fewest and fewest % model:
            fitting = ', '.join(str(n) for n in range(1, fewest + 1) if not fewest % n)
            raise InputError(
                f'{model} devices along the axis model (model_devices) do not divide {fewest}: '
                f'take {fitting}, or say how many are along data (data_devices)'
            )
        data = max(fewest // max(model, 1), 1)
    if min(data, model) < 1 or data * model > fewest:
        asked, there = f'{data} x {model} devices', f'JAX sees {len(devices)}'
        if parts > 1:
            asked, there = f'{parts} slices of {asked}', f'a slice has {fewest}'
        raise InputError(f'a mesh of {asked} was asked for, but {there}')
    # Auto axes: the newer default (Explicit) rejects gathers whose output sharding it cannot infer.
    grid = np.asarray([group[: data * model] for group in groups]).reshape(parts, data, model)
    if parts == 1:
        return Mesh(grid[0], ROW_AXES, axis_types=(AxisType.Auto,) * 2)
    return Mesh(grid, (SLICE, *ROW_AXES), axis_types=(AxisType.Auto,) * 3)


def platform_of(mesh: Mesh) -> str:
    """The kind of the mesh's devices: 'cpu', 'gpu' or 'tpu'."""
    return mesh.devices.flat[0].platform


def row_devices(mesh: Mesh) -> int:
    """The number of devices that share the rows of a table: those of a slice."""
    return math.prod(mesh.shape[axis] for axis in ROW_AXES)


def batch_devices(mesh: Mesh) -> int:
    """The number of parts that a batch is split into."""
    return mesh.shape.get(SLICE, 1) * mesh.shape['data']


def batch_spec(mesh: Mesh) -> PartitionSpec:
    """How a batch is split: over slices, and within them over 'data'."""
    return PartitionSpec((SLICE, 'data') if SLICE in mesh.shape else ('data',))


def slice_spec(count: int, mesh: Mesh) -> PartitionSpec:
    """How `count` rows that each device of a slice works on are split: over slices, if evenly."""
    if SLICE in mesh.shape and count % mesh.shape[SLICE] == 0:
        return PartitionSpec(SLICE)
    return PartitionSpec()


def sum_over_slices(x, split: PartitionSpec):
    """The sum of what slices compute from rows split by `slice_spec`; for `jax.shard_map`."""
    return lax.psum(x, SLICE) if split != PartitionSpec() else x


def replicate(tree, mesh: Mesh):
    """Places every array of `tree` whole on each device."""
    return jax.tree.map(lambda x: distributed.put(x, NamedSharding(mesh, PartitionSpec())), tree)


def shard_batch(batch, mesh: Mesh):
    """Splits a batch's arrays by their first dimension; replicates those that do not divide."""
    whole = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, batch_spec(mesh))
    parts = batch_devices(mesh)
    divides = lambda array: array.ndim and array.shape[0] % parts == 0
    place = lambda array: distributed.put(array, split if divides(array) else whole)
    return jax.tree.map(lambda array: place(np.asarray(array)), batch)
