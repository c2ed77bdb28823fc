"""Functions in other processes: an ordered map, and calls limited in memory and time."""

import collections
import concurrent.futures.process
import contextlib
import itertools
import math
import multiprocessing
import os
import resource
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Self

from opql_jax.core import preemption, terminal
from opql_jax.core.errors import InputError

_function: Callable[[Any], Any]  # in a process of the pool
_hiding = threading.Lock()


def map_ordered(
    function: Callable, items: Iterable, processes: int | None = 1, ahead: int = 2
) -> Iterator:
    """Yields `function(item)` for every item, in the order of the items.

    Function and items can be pickled, and are not defined in the script itself, as processes do not
    run it. Items are drawn as they are needed, `ahead` for each process: if larger, a slow item
    holds up others less. `processes` is one per core if None; 1, or a single item, runs in this
    process. InputError: one of the processes was killed. Exceptions of `function` are raised once
    running items are done.
    """
    processes = os.cpu_count() or 1 if processes is None else processes
    if processes == 1:
        yield from map(function, items)
        return
    items = iter(items)
    first = list(itertools.islice(items, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    items = itertools.chain(first, items)
    _start_tracker()
    # Spawned, because the parent may have threads, which a fork would leave in the middle of
    # something.
    context = multiprocessing.get_context('spawn')
    with concurrent.futures.ProcessPoolExecutor(processes, context, _start, (function,)) as pool:
        waiting = collections.deque()
        try:
            for item in items:
                # Processes that are started here get Ctrl-C, too, and would each print a traceback.
                # They end with their parent.
                with preemption.blocked(signal.SIGINT), _main_hidden():
                    waiting.append(pool.submit(_call, item))
                if len(waiting) >= ahead * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            killed = f'one of {processes} processes was killed'
            raise InputError(f'{killed}, as happens when memory runs out: use fewer') from error
        finally:
            for future in waiting:
                future.cancel()


class LimitedProcess:
    """Calls functions in a process of its own, for parsers that may take any memory and time."""

    def __init__(self, memory: int):
        """Takes the bytes that the process may use besides Python itself."""
        self._memory = memory
        self._process: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.kill()  # it may be at work, on nothing that outlasts it
            self._process.join()
            self._process = None

    def call(self, function: Callable, argument: Any, seconds: float) -> Any:
        """`function(argument)`, within `seconds` of CPU time, rounded up to a whole one.

        The function can be pickled, see `map_ordered`; its process stays as it leaves it. The
        argument, as a pickle, is much smaller than the memory. InputError: `function` raised it, or
        took more memory or time than it may, or the process ended.
        """
        if self._process is None:
            _start_tracker()
            context = multiprocessing.get_context('spawn')
            self._connection, other = context.Pipe()
            process = context.Process(target=_serve, args=(other, self._memory), daemon=True)
            with preemption.blocked(signal.SIGINT), _main_hidden():
                process.start()
            other.close()
            self._process = process
        try:
            self._connection.send((function, argument, seconds))
            raised, result = self._connection.recv()
        except (EOFError, ConnectionError) as error:
            self._process.join()
            code = self._process.exitcode
            self.__exit__()
            reason = f'its process ended with {code}'
            if code == -signal.SIGXCPU:
                reason = f'more than {math.ceil(seconds)} s of CPU time'
            raise InputError(f'cannot be read within limits: {reason}') from error
        if raised:
            raise result
        return result


def _serve(connection: Connection, memory: int) -> None:
    """Answers the calls of a `LimitedProcess`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    calls = 0
    while True:
        try:
            function, argument, seconds = connection.recv()
        except EOFError:
            return
        if not calls:  # what it imports for its work is there now
            _limit(resource.RLIMIT_AS, _address_space() + memory)
        calls += 1
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + math.ceil(seconds))
        try:
            connection.send((False, function(argument)))
        except BrokenPipeError:
            return
        except MemoryError:
            most = f'more than {memory >> 20:,} MiB of memory'
            connection.send((True, InputError(f'cannot be read within limits: {most}')))
        except Exception as error:  # of any kind, for the caller
            connection.send((True, error))


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _address_space() -> int:
    """The bytes of address space of this process, 0 where the system does not tell."""
    try:
        with open('/proc/self/statm') as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """Lets processes that are started meanwhile begin without the program of this one."""
    with _hiding:
        main = sys.modules['__main__']
        sys.modules['__main__'] = types.ModuleType('__main__')
        try:
            yield
        finally:
            sys.modules['__main__'] = main


def _start_tracker() -> None:
    """Starts Python's tracker of semaphores without its warning about those of an ended parent."""
    # The tracker gets the options of this process.
    sys.warnoptions.append('ignore:resource_tracker:UserWarning')
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


def _start(function: Callable) -> None:
    """Initialises a worker: keeps the function, and ends the process when its parent is killed."""
    global _function
    _function = function
    terminal.escape_output()
    parent = multiprocessing.parent_process()
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()


def _exit_with_parent(parent) -> None:
    parent.join()
    os._exit(1)


def _call(item):
    return _function(item)
