"""Work that takes time in proportion to the length of a text, or to another size."""

import gc
import time


def _seconds(function, argument):
    """How long a function takes, twice."""
    gc.disable()
    for _ in range(2):
        started = time.process_time()
        function(argument)
        yield time.process_time() - started
    gc.enable()


def growth(function, make, size):
    """How many times longer 4 times the size takes: 4 if linear, 16 if quadratic."""
    return min(_seconds(function, make(4 * size))) / max(0.01, *_seconds(function, make(size)))


def check(function, text):
    """Eight times the text takes less than 40 times as long; quadratic work takes 64 times."""
    assert min(_seconds(function, text * 8)) < 40 * max(min(_seconds(function, text)), 0.02)
