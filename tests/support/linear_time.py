"""Work that takes time in proportion to the length of a text."""

import time


def check(function, text):
    """Eight times the text takes less than forty times as long: quadratic work takes 64 times, and here seconds."""

    def seconds(text):
        taken = []
        for _ in range(2):
            started = time.process_time()
            function(text)
            taken.append(time.process_time() - started)
        return min(taken)

    assert seconds(text * 8) < 40 * max(seconds(text), 0.02)
