"""The device mesh, and how arrays are split over it.

One mesh with axes ('data', 'model') serves the project. Rows of the entity table and of a memory, and the queries of a search, are
split over all devices (ROWS); a batch over 'data' (BATCH). Of the other parameters `fsdp` splits those that are large.
"""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from opql_jax.core import distributed
from opql_jax.core.errors import InputError

MESH_AXES = ('data', 'model')
BATCH, ROWS = PartitionSpec(('data',)), PartitionSpec(MESH_AXES)


def make_mesh(data: int | None = None, model: int = 1, local: bool = False) -> Mesh:
    """Mesh with axes ('data', 'model') over the first data * model devices.

    Args:
        data: devices along 'data'; all that are left by `model` if None.
        model: devices along 'model'.
        local: of this process only, for work that it does by itself.

    Raises:
        InputError: more devices were asked for than there are, or fewer, where they are those of several processes.
    """
    devices = jax.local_devices() if local else jax.devices()
    data = data or len(devices) // model
    if data * model > len(devices) or data < 1:
        raise InputError(f'a mesh of {data} x {model} devices was asked for, but JAX sees {len(devices)}')
    if not local and distributed.process_count() > 1 and data * model < len(devices):
        raise InputError(
            f'a mesh of {data} x {model} devices was asked for, and {distributed.process_count()} processes have {len(devices)}: use all of'
            ' them, as each process works on its own'
        )
    # Auto axes: the newer default (Explicit) rejects gathers whose output sharding it cannot infer.
    grid = np.asarray(devices[: data * model]).reshape(data, model)
    return Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * 2)


def platform_of(mesh: Mesh) -> str:
    """The kind of the mesh's devices: 'cpu', 'gpu' or 'tpu'."""
    return mesh.devices.flat[0].platform


def replicate(tree, mesh: Mesh):
    """Places every array of `tree` whole on each device."""
    return jax.tree.map(lambda x: distributed.put(x, NamedSharding(mesh, PartitionSpec())), tree)


def shard_batch(batch, mesh: Mesh):
    """Splits the first dimension of every array of a batch; arrays that do not divide evenly are replicated.

    Replication changes the place of the work, never the result, so a batch of any size is accepted. Of several processes each
    gives its share, and the batch is theirs one after the other.
    """
    whole, split, parts = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, BATCH), mesh.shape['data']
    return jax.tree.map(lambda array: distributed.put_local_shards(np.asarray(array), whole, split, parts), batch)
