"""Numbers of many ranges at once."""

import numpy as np


def ranges(starts: np.ndarray | int, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of ranges [n], by first numbers (or one) and lengths: each number's range, the number."""
    which = np.repeat(np.arange(len(lengths)), lengths)
    return which, np.arange(len(which)) + np.repeat(
        starts - (np.cumsum(lengths) - lengths), lengths
    )
