"""Batches of a source in step order, made ahead of time by Grain's threads, or in processes."""

from collections.abc import Iterator

import grain

from opql_jax.core import processes
from opql_jax.core.errors import InputError
from opql_jax.data.sources.base import Source

# More than two threads gain little; and how many batches are made ahead.
_THREADS, _AHEAD = 2, 4


def batches(source: Source, start: int, stop: int, *, worker_processes: int = 0) -> Iterator:
    """Yields the batches of the steps start, start + 1, ... stop - 1.

    A batch is a function of its step, so starting at step n yields exactly what a run from step 0
    sees from n on. They are made by threads, or by `worker_processes` in their place, each with the
    source in its own memory. InputError: a number of processes that cannot be. What a source raises
    comes at the step concerned.
    """
    if worker_processes < 0 or worker_processes == 1:
        raise InputError('input_processes: give 0, or at least 2')
    if worker_processes:
        steps, ahead = range(start, stop), -(-_AHEAD // worker_processes)
        return processes.map_ordered(source.__getitem__, steps, worker_processes, ahead)
    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_AHEAD)
    made = grain.MapDataset.range(start, stop).map(source.__getitem__)
    return iter(made.to_iter_dataset(options))
