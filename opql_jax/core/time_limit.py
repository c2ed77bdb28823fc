"""A time limit for one question's work: it ends between two steps with what was found so far."""

import contextlib
import contextvars
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from opql_jax.core.errors import InputError

# Seconds per answer of a server; commands and programs have no limit.
SERVED = 10.0

T = TypeVar('T')


class TimeLimit:
    """When a question's work ends: in time, or once nobody waits. `is_cut`: some was left out."""

    def __init__(self, seconds: float, stopped: threading.Event | None = None):
        self.seconds, self.is_cut = seconds, False
        self._end, self._stopped = time.monotonic() + seconds, stopped

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end or (
            self._stopped is not None and self._stopped.is_set()
        )


_CURRENT: contextvars.ContextVar[TimeLimit | None] = contextvars.ContextVar('limit', default=None)


@contextlib.contextmanager
def limited(seconds: float, stopped: threading.Event | None = None) -> Iterator[TimeLimit]:
    """Limits this thread's work in the context, to seconds or until `stopped` is set."""
    limit = TimeLimit(seconds, stopped)
    token = _CURRENT.set(limit)
    try:
        yield limit
    finally:
        _CURRENT.reset(token)


def passed() -> bool:
    """Whether the work must end, so that the caller leaves out the rest."""
    limit = _CURRENT.get()
    if limit is None or not limit.is_over:
        return False
    limit.is_cut = True
    return True


def parts(items: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[Sequence[T]]:
    """Items in parts of a total size of `most`, or of one item, until time is up; or at once."""
    if _CURRENT.get() is None:
        yield items
        return
    start, total = 0, 0
    for place, size in enumerate([*sizes, most + 1]):
        if place > start and total + size > most:
            if passed():
                return
            yield items[start:place]
            start, total = place, 0
        total += size


def is_cut() -> bool:
    """Whether some of the work of this thread was left out."""
    limit = _CURRENT.get()
    return limit is not None and limit.is_cut


def check() -> None:
    """Raises InputError if the work has to end: for work of which a part is no answer."""
    if passed():
        limit = _CURRENT.get()
        assert limit is not None
        raise InputError(f'this takes longer than {limit.seconds:g} seconds: ask it in parts')
