"""Batches of a source in step order, made ahead of time by Grain's threads."""

from collections.abc import Iterator

import grain

from opql_jax.data.sources.base import Source

# Threads that make batches, and batches made ahead of time. NumPy and the record reader release the GIL in part.
_THREADS, _PREFETCH = 2, 4


def batches(source: Source, start: int, stop: int) -> Iterator:
    """Yields the batches of the steps start, start + 1, ... stop - 1.

    A batch is a function of its step, so starting at step n yields exactly what a run from step 0 sees from n on.

    Args:
        source: makes them.
        start, stop: the first step, and the one after the last.

    Raises:
        Whatever a source raises, at the step concerned.
    """
    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_PREFETCH)
    return iter(grain.MapDataset.range(start, stop).map(source.__getitem__).to_iter_dataset(options))
