"""Numbers that cannot be scored: NaN, infinite ones, and such whose products would overflow float32."""

import ml_dtypes
import numpy as np

MAX_MAGNITUDE = 1e15
_BLOCK_ROWS = 1 << 10  # which a cache holds


def bad_row(rows: np.ndarray) -> int | None:
    """The first row [n, d] with a number that is not finite or exceeds MAX_MAGNITUDE; None if there is none."""
    # Without their signs, floating-point numbers are ordered as their bits are, and NaN comes last: comparing the bits takes no
    # conversion, which is slow for half precision.
    unsigned = np.dtype(f'u{rows.dtype.itemsize}')
    largest = np.array(min(MAX_MAGNITUDE, float(ml_dtypes.finfo(rows.dtype).max)), rows.dtype).view(unsigned)
    for start in range(0, len(rows), _BLOCK_ROWS):
        magnitude = rows[start : start + _BLOCK_ROWS].view(unsigned) & (np.iinfo(unsigned).max >> 1)
        if magnitude.max(initial=0) > largest:
            return start + int(np.flatnonzero((magnitude > largest).any(axis=1))[0])
    return None
