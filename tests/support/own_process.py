"""A process of its own, for what may leave limits, open event loops and coroutines behind."""

import concurrent.futures
import contextlib
import multiprocessing


@contextlib.contextmanager
def own_process():
    """Yields `call(function, ...)`, which calls a function of a module in a new process."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
        yield lambda function, *args, **kwargs: pool.submit(function, *args, **kwargs).result()
