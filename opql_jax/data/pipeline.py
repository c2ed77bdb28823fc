"""Batches of a source in step order, made ahead of time by Grain's threads, or in processes."""

from collections.abc import Iterator

import grain

from opql_jax.core import processes
from opql_jax.core.errors import InputError
from opql_jax.data.sources.base import Source


def batches(
    source: Source,
    start: int,
    stop: int,
    *,
    threads: int = 2,
    prefetch: int = 4,
    worker_processes: int = 0,
) -> Iterator:
    """Yields the batches of the steps start, start + 1, ... stop - 1.

    A batch is a function of its step, so starting at step n yields exactly what a run from step 0
    sees from n on. They are made `prefetch` ahead by `threads`, of which more than two gain little,
    or by `worker_processes` in their place, each with the source in its own memory. InputError: a
    number cannot be. What a source raises comes at the step concerned.
    """
    if min(threads, prefetch) < 1 or worker_processes < 0 or worker_processes == 1:
        raise InputError(
            'input_threads, input_prefetch: give at least 1; input_processes: 0, or at least 2'
        )
    if worker_processes:
        steps, ahead = range(start, stop), -(-prefetch // worker_processes)
        return processes.map_ordered(source.__getitem__, steps, worker_processes, ahead)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=prefetch)
    made = grain.MapDataset.range(start, stop).map(source.__getitem__)
    return iter(made.to_iter_dataset(options))
