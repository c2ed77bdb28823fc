"""Numbers of many ranges at once."""

import numpy as np


def ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of ranges, one range after the other: the range of each number, and the number.

    Args:
        starts: [n] the first number of each range.
        lengths: [n] how many numbers each has.
    """
    which = np.repeat(np.arange(len(starts)), lengths)
    return which, np.arange(len(which)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
