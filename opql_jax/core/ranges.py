"""Numbers of many ranges at once."""

import numpy as np


def ranges(starts: np.ndarray | int, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of ranges, one after the other: each number's range, and the number.

    Ranges [n] have a first number, one each or one for all, and a length.
    """
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) + np.repeat(
        starts - (np.cumsum(lengths) - lengths), lengths
    )
