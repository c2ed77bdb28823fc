"""A process of its own, for what would break the one that the tests run in.

What fails inside a library may leave more behind than an exception: limits, open event loops,
coroutines that nobody awaits and whose warnings come up in whatever runs next.
"""

import concurrent.futures
import contextlib
import multiprocessing


@contextlib.contextmanager
def own_process():
    """Yields `call(function, *args, **kwargs)`, which calls in one fresh process and returns or
    raises what the function does there.

    The function is one of a module; arguments and results are pickled.
    """
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
        yield lambda function, *args, **kwargs: pool.submit(function, *args, **kwargs).result()
