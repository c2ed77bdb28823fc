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
    """How many times longer a function takes for 4 times the size: 4 if its time is linear, 16 if
    it is quadratic.
    """
    return min(_seconds(function, make(4 * size))) / max(0.01, *_seconds(function, make(size)))


def check(function, text):
    """Eight times the text takes less than forty times as long: quadratic work takes 64 times, and
    here seconds.
    """
    assert min(_seconds(function, text * 8)) < 40 * max(min(_seconds(function, text)), 0.02)
