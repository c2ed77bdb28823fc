"""A function over many items in several processes: in order, with few of them in memory at a time."""

from __future__ import annotations

import collections
import concurrent.futures.process
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opql_jax.core.errors import InputError

_function: Callable[[Any], Any]  # in a process of the pool


def in_order(function: Callable, items: Iterable, processes: int | None = 1, ahead: int = 2) -> Iterator:
    """`function(item)` of every item, in the order of the items.

    Args:
        function: what a process of its own can receive: at the top of a module, or a `functools.partial` of such.
        items: taken as they are needed, some ahead of the results.
        processes: how many; 1 for this one, None for one per core.
        ahead: items a process that are handed out before the first of their results is taken. The more, the longer one
            item may take without keeping others back, and the more results lie in memory.

    Raises:
        What `function` raises, once the items that were being worked on are done.
        InputError: one of the processes was killed.
    """
    processes = os.cpu_count() or 1 if processes is None else processes
    if processes == 1:
        yield from map(function, items)
        return
    # Spawned, because the parent may have threads, which a fork would leave in the middle of something.
    context = multiprocessing.get_context('spawn')
    with concurrent.futures.ProcessPoolExecutor(processes, context, _start, (function,)) as pool:
        waiting = collections.deque()
        try:
            for item in items:
                waiting.append(pool.submit(_call, item))
                if len(waiting) >= ahead * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise InputError(f'one of {processes} processes was killed, as happens when memory runs out: use fewer') from error
        finally:
            for future in waiting:
                future.cancel()


def _start(function: Callable) -> None:
    """Keeps the function, and lets this process end when its parent is killed; it would wait for items for ever."""
    global _function
    _function = function
    parent = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _call(item):
    return _function(item)
