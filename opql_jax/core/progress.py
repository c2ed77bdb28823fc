"""How far long work has come, in the log."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

_log = logging.getLogger(__name__)

# Seconds between two lines.
SECONDS = 10.0
T = TypeVar('T')


def logged(
    parts: Iterable[T], total: int, what: str, count: Callable[[Any], int] = len
) -> Iterator[T]:
    """Yields the parts of some work, and logs '512/4773 passages encoded  85.2/s  ETA 50s'."""
    done, started = 0, time.monotonic()
    last = started
    for part in parts:
        yield part
        done, now = done + count(part), time.monotonic()
        if now - last >= SECONDS or done == total:
            last, spent = now, now - started
            eta = spent * (total - done) / done if done else math.inf
            _log.info(
                '%d/%d %s  %.1f/s  ETA %.0fs', done, total, what, done / max(spent, 1e-9), eta
            )
