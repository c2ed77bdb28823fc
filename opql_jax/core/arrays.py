"""Arrays that are read from a folder, each checked against its schema.

Ids are below the number of what they identify, offsets rise from 0, and numbers can be scored: none
is NaN, infinite, or so large that products would overflow float32.
"""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Mapping
from typing import Literal

import ml_dtypes
import numpy as np
import safetensors.numpy

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import ManifestError

MAX_MAGNITUDE = 1e15
_BLOCK_ROWS = 1 << 10  # which a cache holds
# Of a packed row: the bytes of its scale, and the largest magnitude of its other numbers.
SCALE_BYTES, _LARGEST_PACKED = 4, 127
_NARROW, _WIDE = np.dtype(np.uint16), (np.dtype(np.int32), np.dtype(np.int64))
# numpy parses a header as Python, which Python 3.11 before 3.11.8 cannot do in two threads at a
# time (SystemError).
_HEADER_LOCK = threading.Lock()

# The most that files may decode to: a multiple of their length, and some. Tables decode to at most
# 20 times their length, and the parameters of a checkpoint to about their size on disk.
_EXPANSION, _SLACK = 64, 1 << 26

# A number, or the name of one that the manifest states or another array shows, or 'name + 1'.
Size = int | str


@dataclasses.dataclass(frozen=True)
class ArraySchema:
    """What an array has to be.

    `dtype` and `shape`, None for any size, are of this machine's byte order; a file may hold int32
    and int64 as uint16 (`narrowed`). `ids` are exclusive bounds of integers from 0, one for all or
    one for each column; `offsets` begin at 0 and never fall; integers add up to `total`; and
    `largest` is the largest magnitude of other numbers, None if `bad_row` checks them later.
    """

    dtype: str
    shape: tuple[Size | None, ...]
    ids: tuple[Size, ...] | None = None
    offsets: bool = False
    total: Size | None = None
    largest: float | None = None

    def check_shape(self, array: np.ndarray, sizes: Mapping[str, int]) -> str | None:
        """What is wrong with the type or the shape of an array, if anything."""
        shape = tuple(None if size is None else _number(size, sizes) for size in self.shape)
        sizes_fit = all(size in (None, n) for n, size in zip(array.shape, shape))
        fits = array.ndim == len(shape) and sizes_fit
        dtype = np.dtype(self.dtype)
        if fits and (array.dtype == dtype or (array.dtype == _NARROW and dtype in _WIDE)):
            return None
        expected = ', '.join('any' if size is None else str(size) for size in shape)
        return f'{array.dtype}{list(array.shape)}, expected {self.dtype}[{expected}]'

    def check_values(self, array: np.ndarray, sizes: Mapping[str, int]) -> str | None:
        """What is wrong with the numbers of an array of that type and shape, if anything."""
        for column, size in enumerate(self.ids or ()):
            ids, below = array if array.ndim == 1 else array[:, column], _number(size, sizes)
            if len(ids) and (ids.min() < 0 or ids.max() >= below):
                return f'has numbers from {ids.min()} to {ids.max()}, expected 0 to {below - 1}'
        if self.offsets and (not len(array) or array[0] != 0 or (array[1:] < array[:-1]).any()):
            return 'not offsets that rise from 0'
        if self.total is not None:
            total, expected = int(array.sum(dtype=np.int64)), _number(self.total, sizes)
            if total != expected:
                return f'adds up to {total}, expected {expected}'
        if self.largest is not None and (row := bad_row(array, self.largest)) is not None:
            return f'row {row} has a number that is not finite, or above {self.largest:g}'
        return None


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    name, _, more = size.partition(' + ')
    return sizes[name] + int(more or 0)


def read_array(
    file: pathlib.Path,
    schema: ArraySchema,
    sizes: Mapping[str, int],
    advice: str,
    mmap_mode: Literal['r'] | None = None,
) -> np.ndarray:
    """The array in an .npy file whose digest was compared; threads may call it at the same time.

    `sizes` are those that the schema names, and `advice` is what to do about a damaged folder. 'r'
    maps the file, and reads only the numbers that the schema bounds. ManifestError: it is none, or
    not what the schema says, which is told before more memory is allocated than the
    file, widened, is long.
    """
    with _HEADER_LOCK, np.errstate(over='raise'):  # of a size
        try:
            array = np.load(file, 'r', allow_pickle=False)
        except (Exception, RecursionError) as error:  # of any type, as a header is parsed as Python
            raise ManifestError(f'{file}: not a readable array ({error}); {advice}') from error
    problem = schema.check_shape(array, sizes)
    # Of narrowed integers; relations in bfloat16 are 16 bits wide, and stay mapped.
    if problem is None and (mmap_mode is None or array.dtype != np.dtype(schema.dtype)):
        array = np.array(array, schema.dtype)
    problem = problem or schema.check_values(array, sizes)
    if problem:
        raise ManifestError(f'{file}: {problem}; {advice}')
    return array


def read_tensors(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file by name; InputError if it is none."""
    try:
        return safetensors.numpy.load(content)
    except safetensors.SafetensorError as error:
        raise InputError(f'not a readable safetensors file ({error})') from error


def narrowed(array: np.ndarray) -> np.ndarray:
    """An array as a file holds it: int32 or int64 as uint16, if all numbers fit."""
    if array.dtype not in _WIDE or array.min(initial=0) < 0 or array.max(initial=0) >= 1 << 16:
        return array
    return array.astype(_NARROW)


def packed(rows: np.ndarray) -> np.ndarray:
    """Finite rows [..., d] in 8 bits a number: [..., d + 4] int8.

    The last four are the bytes of a float32 (little-endian), the scale of the row, and the row is
    that times its other numbers, to 1/254 of its largest magnitude.
    """
    rows = np.asarray(rows, np.float32)
    scale = np.abs(rows).max(axis=-1, keepdims=True, initial=0).astype('<f4') / _LARGEST_PACKED
    scale[scale < np.finfo(np.float32).tiny] = 0  # which could not be divided by
    numbers = np.divide(rows, scale, out=np.zeros_like(rows), where=scale > 0)
    return np.concatenate([np.rint(numbers).astype(np.int8), scale.view(np.int8)], axis=-1)


def scales(packed_rows: np.ndarray) -> np.ndarray:
    """The scales [...] float32 of packed rows."""
    return np.ascontiguousarray(packed_rows[..., -SCALE_BYTES:]).view('<f4')[..., 0]


def unpacked(packed_rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """The rows [..., d] float32 of packed ones."""
    numbers = packed_rows[..., :-SCALE_BYTES]
    out = np.empty(numbers.shape, np.float32) if out is None else out
    out[...] = numbers
    out *= scales(packed_rows)[..., None]
    return out


def most_bytes(length: int) -> int:
    """The most bytes that files of this length are trusted to decode to."""
    return length * _EXPANSION + _SLACK


def bad_row(rows: np.ndarray, largest: float = MAX_MAGNITUDE) -> int | None:
    """The first row [n] or [n, d] with a number not finite or above `largest`; None if none."""
    # Without signs floating-point numbers are ordered as their bits, and NaN comes last: comparing
    # bits avoids conversion, which is slow for half precision.
    unsigned = np.dtype(f'u{rows.dtype.itemsize}')
    most = min(largest, float(ml_dtypes.finfo(rows.dtype).max))
    limit = np.array(most, rows.dtype).view(unsigned)
    for start in range(0, len(rows), _BLOCK_ROWS):
        magnitude = rows[start : start + _BLOCK_ROWS].view(unsigned) & (np.iinfo(unsigned).max >> 1)
        if magnitude.max(initial=0) > limit:
            bad = magnitude > limit
            return start + int(np.flatnonzero(bad if bad.ndim == 1 else bad.any(axis=1))[0])
    return None
