"""Numbers of many ranges at once."""

import numpy as np


def ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of ranges, one after the other: each number's range, and the number.

    Ranges [n] have a first number and a length.
    """
    which = np.repeat(np.arange(len(starts)), lengths)
    return which, np.arange(len(which)) + np.repeat(
        starts - (np.cumsum(lengths) - lengths), lengths
    )
