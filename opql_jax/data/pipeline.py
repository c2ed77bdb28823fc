"""Batches of a source in step order, made ahead of time by Grain's threads."""

from collections.abc import Iterator, Sequence

import grain
import numpy as np

from opql_jax.data.sources import Source


def joined(shards: Sequence[Source], start_step: int = 0) -> Iterator[dict[str, np.ndarray]]:
    """Batches of several shards of a source, one after the other in every array, as `batches` makes those of one.

    Numbers, such as how many hops a step has, are the same in all shards.
    """
    if len(shards) == 1:
        return batches(shards[0], start_step)
    join = lambda arrays: np.concatenate(arrays) if np.ndim(arrays[0]) else arrays[0]
    parts = zip(*(batches(shard, start_step) for shard in shards))
    return ({name: join([part[name] for part in of_step]) for name in of_step[0]} for of_step in parts)


def batches(source: Source, start_step: int = 0, num_threads: int = 2, prefetch: int = 4) -> Iterator[dict[str, np.ndarray]]:
    """Yields `source[start_step]`, `source[start_step + 1]`, ... to the source's last step.

    A batch is a function of its step, so starting at step n yields exactly what a run from step 0 sees from n on.

    Args:
        source: see `sources`.
        start_step: the first step.
        num_threads: threads that make batches; NumPy and the record reader release the GIL in part.
        prefetch: batches made ahead, at least `num_threads`.

    Raises:
        ValueError: if `start_step` lies outside 0 .. len(source).
        Whatever the source raises, at the step concerned.
    """
    if not 0 <= start_step <= len(source):
        raise ValueError(f'start_step is {start_step}, but the source has steps 0..{len(source)}')
    options = grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=prefetch)
    return iter(grain.MapDataset.source(source)[start_step:].to_iter_dataset(options))
