"""Times of several ways to do one thing, fairly on a machine that does other things too."""

import statistics
import time
from collections.abc import Callable, Mapping

import jax


def medians(ways: Mapping[str, Callable[[], object]], repeats: int = 5, seconds: float = 60) -> dict[str, float]:
    """Median seconds of each way, called in turn, so that a busy moment falls on all of them.

    Args:
        ways: what to call; the first call of each, which may compile, is not counted.
        repeats: calls of each, at most.
        seconds: no further round begins once this much time was measured in all.
    """
    spent = {name: [] for name in ways}
    for way in ways.values():
        jax.block_until_ready(way())
    while len(next(iter(spent.values()))) < repeats:
        for name, way in ways.items():
            start = time.perf_counter()
            jax.block_until_ready(way())
            spent[name].append(time.perf_counter() - start)
        if sum(map(sum, spent.values())) > seconds:
            break
    return {name: statistics.median(times) for name, times in spent.items()}
