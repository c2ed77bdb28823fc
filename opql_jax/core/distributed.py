"""One program in several JAX processes, each of a host; one alone communicates with nobody."""

import contextlib
import os
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jax.experimental import multihost_utils

from opql_jax.core import locks
from opql_jax.core.errors import InputError


def initialize(environ: Mapping[str, str] = os.environ, handle_preemption: bool = True) -> None:
    """Joins the other processes; to be called before anything else uses JAX.

    With OPQL_DISTRIBUTED=1 JAX finds the others, as on Cloud TPU and under Slurm; or
    OPQL_COORDINATOR (HOST:PORT of process 0), OPQL_PROCESSES (their number) and OPQL_PROCESS (from
    0) name them. With `handle_preemption` JAX takes SIGTERM, for a `PreemptionGuard`. InputError: a
    variable is missing or no number, or JAX finds no others.
    """
    jax.config.update('jax_enable_preemption_service', handle_preemption)
    if 'OPQL_PROCESSES' not in environ:
        try:
            jax.distributed.initialize()
        except ValueError as error:
            said = 'OPQL_DISTRIBUTED=1, and JAX does not find what this process belongs to: '
            raise InputError(said + str(error).splitlines()[0]) from error
        return
    try:
        count, index = int(environ['OPQL_PROCESSES']), int(environ['OPQL_PROCESS'])
        cluster = environ['OPQL_COORDINATOR'], count, index
    except KeyError as error:
        missing = error.args[0]
        raise InputError(f'OPQL_PROCESSES is set and {missing} is not: set all three') from None
    except ValueError as error:
        numbers = 'OPQL_PROCESSES and OPQL_PROCESS have to be whole numbers'
        raise InputError(f'{numbers}: {error}') from None
    jax.distributed.initialize(*cluster)


def process_count() -> int:
    """The number of processes."""
    return jax.process_count()


def process_index() -> int:
    """The number of this process, from 0."""
    return jax.process_index()


def is_primary() -> bool:
    """Whether this is process 0, which writes what only one process may write."""
    return process_index() == 0


def describe_devices() -> str:
    """The devices in words, such as '1 x NVIDIA H200' or '16 x TPU v5 lite in 4 processes'."""
    devices = jax.devices()
    cores = f', {os.cpu_count()} cores' if devices[0].platform == 'cpu' else ''
    if process_count() > 1:
        cores = f' in {process_count()} processes'
    return f'{len(devices)} x {devices[0].device_kind}{cores}'


def device_memory() -> int | None:
    """Bytes of memory that a device has for arrays; None on CPUs."""
    return (jax.local_devices()[0].memory_stats() or {}).get('bytes_limit')


def barrier(name: str) -> None:
    """Returns when all processes have reached the barrier of this name."""
    if process_count() > 1:
        multihost_utils.sync_global_devices(name)


def broadcast(number: int) -> int:
    """The number that process 0 passes, in all processes."""
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


@contextlib.contextmanager
def writer(folder: str | os.PathLike) -> Iterator[None]:
    """`locks.writer` of the primary process for all; all raise if another program writes there."""
    refused: Exception | None = None
    # Connects the processes, which would not wait as long as process 0 may for a lease.
    barrier(f'writer of {folder}')
    with contextlib.ExitStack() as held:
        if is_primary():
            try:
                held.enter_context(locks.writer(folder))
            except (InputError, OSError) as error:
                refused = error
        if process_count() > 1 and broadcast(refused is not None) and refused is None:
            refused = InputError(f'{folder} is not locked: the log of process 0 says why')
        if refused is not None:
            raise refused
        yield


def put(array, sharding: jax.sharding.Sharding) -> jax.Array:
    """Places an array that every process has whole, or one that lies on their devices already."""
    lies_there = isinstance(array, jax.Array) and not array.is_fully_addressable
    if sharding.is_fully_addressable or lies_there:
        return jax.device_put(array, sharding)
    array = np.asarray(array)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])
