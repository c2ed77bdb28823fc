"""Times several functions against each other, fairly on a busy machine."""

import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

import jax

Name = TypeVar('Name', bound=Hashable)


def medians(
    functions: Mapping[Name, Callable[[], object]],
    calls: int = 5,
    limit: float = 60,
) -> dict[Name, float]:
    """Median seconds of each function.

    They are called in turn, so that a busy moment of the machine falls on all of them.

    Args:
        functions: what to time; the first call of each, which may compile, is not counted.
        calls: timed calls of each, at most.
        limit: no further round of calls begins once this many seconds were measured in all.
    """
    seconds: dict[Name, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        jax.block_until_ready(function())
    for _ in range(calls):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            seconds[name].append(time.perf_counter() - start)
        if sum(map(sum, seconds.values())) > limit:
            break
    return {name: statistics.median(times) for name, times in seconds.items()}
