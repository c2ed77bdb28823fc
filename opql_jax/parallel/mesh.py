"""The device mesh and how a batch lies on it.

One mesh with axes ('data', 'model') serves the project. Batches are split over 'data'; parameters are replicated.
"""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from opql_jax.corpus.errors import InputError


def make_mesh(data: int | None = None, model: int = 1) -> Mesh:
    """Mesh with axes ('data', 'model') over the first data * model devices.

    Args:
        data: devices along 'data'; all that are left by `model` if None.
        model: devices along 'model'.

    Raises:
        InputError: more devices were asked for than there are, or there are several hosts.
    """
    if jax.process_count() > 1:
        raise InputError(
            f'{jax.process_count()} hosts see each other, and this program runs on one: take a TPU or node of one host'
        )
    devices = jax.devices()
    data = data or len(devices) // model
    if data * model > len(devices) or data < 1:
        raise InputError(f'a mesh of {data} x {model} devices was asked for, but JAX sees {len(devices)}')
    # Auto axes: the newer default (Explicit) rejects gathers whose output sharding it cannot infer.
    grid = np.asarray(devices[: data * model]).reshape(data, model)
    return Mesh(grid, ('data', 'model'), axis_types=(AxisType.Auto,) * 2)


def replicate(tree, mesh: Mesh):
    """Places every array of `tree` whole on each device."""
    return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))


def shard_batch(batch: dict, mesh: Mesh) -> dict:
    """Splits the first dimension of every array over 'data'; arrays that do not divide evenly are replicated.

    Replication changes the place of the work, never the result, so a batch of any size is accepted.
    """
    shards = mesh.shape['data']

    def place(array):
        array = np.asarray(array)
        even = array.ndim > 0 and array.shape[0] % shards == 0
        return jax.device_put(array, NamedSharding(mesh, PartitionSpec('data') if even else PartitionSpec()))

    return {name: place(array) for name, array in batch.items()}
