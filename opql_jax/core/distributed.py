"""Several processes that work as one: where they meet, what they place together, and where they wait for each other.

Each holds the devices of its host. All run the same program on the same arrays, which are made of what every process has whole
(`put`) or of each one's share (`mesh.shard_batch`).
"""

import functools
import os
from collections.abc import Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils

from opql_jax.core.errors import InputError

# Of a split array, gathered at a time: a device need not have room for all of it.
_ROWS = 1 << 16


def meet(environ: Mapping[str, str] = os.environ) -> None:
    """Joins the other processes, before anything else uses JAX.

    OPQL_DISTRIBUTED=1 lets JAX find them, as it can on Cloud TPU and under Slurm. OPQL_COORDINATOR (HOST:PORT of process 0),
    OPQL_PROCESSES (their number) and OPQL_PROCESS (from 0) name them.

    Raises:
        InputError: a variable is missing or no number, or JAX finds no others.
    """
    if 'OPQL_PROCESSES' not in environ:
        try:
            jax.distributed.initialize()
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f'OPQL_DISTRIBUTED=1, and JAX does not find what this process belongs to: {reason}') from error
        return
    try:
        meeting = environ['OPQL_COORDINATOR'], int(environ['OPQL_PROCESSES']), int(environ['OPQL_PROCESS'])
    except KeyError as error:
        raise InputError(f'OPQL_PROCESSES is set and {error.args[0]} is not: launch/run_local.sh sets all three') from None
    except ValueError as error:
        raise InputError(f'OPQL_PROCESSES and OPQL_PROCESS have to be whole numbers: {error}') from None
    jax.distributed.initialize(*meeting)


def count() -> int:
    """How many processes there are."""
    return jax.process_count()


def index() -> int:
    """Which of them this one is, from 0."""
    return jax.process_index()


def first() -> bool:
    """Whether this is the process that writes what only one may write."""
    return index() == 0


def wait(for_what: str) -> None:
    """Returns when all processes have come here."""
    if count() > 1:
        multihost_utils.sync_global_devices(for_what)


def agreed(number: int) -> int:
    """What the first process says, in all of them."""
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def put(array, sharding: jax.sharding.Sharding) -> jax.Array:
    """Places an array that every process has whole, or one that lies on their devices already."""
    if sharding.is_fully_addressable or (isinstance(array, jax.Array) and not array.is_fully_addressable):
        return jax.device_put(array, sharding)
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def share(array: np.ndarray, whole: jax.sharding.Sharding, split: jax.sharding.Sharding, parts: int) -> jax.Array:
    """Places the shares of all processes one after the other, along the first dimension.

    Args:
        array: this process's share, of the same shape in each; of no dimension, the same number in each.
        whole, split: where the result lies on every device, and where each of `parts` devices has an equal part of it; the
            second if it can be.
    """
    if array.ndim and array.shape[0] * count() % parts == 0:
        if count() == 1:
            return jax.device_put(array, split)
        return jax.make_array_from_process_local_data(split, array)
    if array.ndim and count() > 1:
        array = multihost_utils.process_allgather(array, tiled=True)
    return put(array, whole)


def gathered(array, mesh: jax.sharding.Mesh):
    """An array whose rows are split over devices, in main memory if some of them are another process's."""
    if not isinstance(array, jax.Array) or array.is_fully_addressable or array.is_fully_replicated:
        return array
    out, size = np.empty(array.shape, array.dtype), min(len(array), _ROWS)
    for start in range(0, len(array), size):
        start = min(start, len(array) - size)
        out[start : start + size] = _rows_of(jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()), size)(array, start)
    return out


@functools.cache
def _rows_of(whole, size):
    return jax.jit(lambda array, start: jax.lax.dynamic_slice_in_dim(array, start, size), out_shardings=whole)
