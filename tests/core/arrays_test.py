"""Arrays are what their schemas say; rows with numbers that cannot be scored are found."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from opql_jax.core.arrays import (
    ArraySchema,
    bad_row,
    narrowed,
    packed,
    read_array,
    scales,
    unpacked,
)
from opql_jax.core.manifest import ManifestError


@pytest.mark.parametrize('dtype', [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf, 1e16, -1e16])
@pytest.mark.parametrize('row', [0, 1023, 1024, 2999])
def test_the_first_bad_row_is_found(dtype, value, row):
    rows = np.random.default_rng(0).standard_normal((3000, 3)).astype(dtype)
    rows[0, 2] = 6e4 if dtype == np.float16 else 9.9e14  # the largest that is good, or nearly so
    assert bad_row(rows) is None
    with np.errstate(over='ignore'):  # 1e16 is infinite in float16
        rows[[row, -1], 1] = np.float32(value).astype(dtype)
    assert bad_row(rows) == row


SIZES = {'rows': 3, 'entities': 5}
IDS = ArraySchema('int32', ('rows',), ids=('entities',))
PAIRS = ArraySchema('int32', (None, 2), ids=('entities', 'rows'))
OFFSETS = ArraySchema('int64', ('rows + 1',), offsets=True)
COUNTS = ArraySchema('int32', ('rows',), ids=('entities + 1',), total='entities')
MOST = np.iinfo(np.int64).max
BAD = 'has a number that is not finite, or above 1'
VECTORS = ArraySchema('float16', ('rows', 2), largest=1)


def read(folder, schema, array):
    np.save(folder / 'a.npy', array, allow_pickle=False)
    return read_array(folder / 'a.npy', schema, SIZES, 'make it again')


@pytest.mark.parametrize('mode', [None, 'r'])
@pytest.mark.parametrize(
    ('schema', 'values'),
    [
        (IDS, [0, 4, 4]),
        (PAIRS, [[4, 2], [0, 0]]),
        (OFFSETS, [0, 0, 7, 9]),
        (COUNTS, [5, 0, 0]),
        (VECTORS, [[1, -1], [0, 0.5], [-0.0, 1]]),
    ],
)
def test_an_array_that_is_what_its_schema_says_is_read(tmp_path, schema, values, mode):
    array = np.array(values, schema.dtype)
    for stored in (array, narrowed(array)):
        np.testing.assert_array_equal(read(tmp_path, schema, stored), array)
        found = read_array(tmp_path / 'a.npy', schema, SIZES, '', mode)
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


@pytest.mark.parametrize('dtype', [np.int32, np.int64])
def test_numbers_are_narrowed_where_all_fit_in_16_bits(dtype):
    for numbers in ([], [0], [[1 << 16, 3]], [(1 << 16) - 1, 0], [-1, 2]):
        array = np.array(numbers, dtype)
        fits = all(0 <= number < 1 << 16 for number in array.flat)
        assert narrowed(array).dtype == (np.uint16 if fits else dtype)
        np.testing.assert_array_equal(narrowed(array), array)
    for other in (np.zeros(3, np.int8), np.ones(2, np.float32)):
        assert narrowed(other) is other


@pytest.mark.parametrize(
    ('schema', 'array', 'problem'),
    [
        (IDS, np.array([0, 1], np.int32), r'int32\[2\], expected int32\[3\]'),
        (IDS, np.array([0, 5, 1], np.int32), 'has numbers from 0 to 5, expected 0 to 4'),
        (PAIRS, np.array([[2, 3]], np.int32), 'has numbers from 3 to 3, expected 0 to 2'),
        (OFFSETS, np.array([1, 1, 2, 3]), 'not offsets that rise from 0'),
        (OFFSETS, np.array([0, MOST, -MOST - 1, 3]), 'not offsets that rise from 0'),
        (COUNTS, np.array([5, 1, 0], np.int32), 'adds up to 6, expected 5'),
        (VECTORS, np.array([[0, 0], [0, np.nan], [0, 0]], np.float16), f'row 1 {BAD}'),
    ],
)
def test_an_array_that_is_something_else_is_told(tmp_path, schema, array, problem):
    with pytest.raises(ManifestError, match=rf'a\.npy: {problem}; make it again'):
        read(tmp_path, schema, array)


@pytest.mark.parametrize('shape', ['(1099511627776,)', '(4611686018427387904, 4)', '(-1,)'])
def test_no_more_memory_is_asked_for_than_the_file_is_long(tmp_path, shape):
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + '\n'
    (tmp_path / 'a.npy').write_bytes(
        b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header.encode() + b'\0' * 64
    )
    tracemalloc.start()
    with pytest.raises(ManifestError, match=r'a\.npy: not a readable array .*; make it again'):
        read_array(tmp_path / 'a.npy', ArraySchema('int32', (None,)), SIZES, 'make it again')
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_packed_rows_are_what_was_packed_to_half_a_step_and_packing_them_again_changes_nothing():
    rows = np.random.default_rng(0).normal(size=(50, 3, 17)).astype(np.float32)
    rows *= np.logspace(-20, 15, 50, dtype=np.float32)[:, None, None] / 8
    rows[7, 1], rows[8, 2, 0] = 0, 0
    stored = packed(rows)
    assert stored.dtype == np.int8 and stored.shape == (50, 3, 21)
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    assert (np.abs(unpacked(stored) - rows) <= largest / 253).all()
    np.testing.assert_array_equal(scales(stored), largest[..., 0] / np.float32(127))
    np.testing.assert_array_equal(packed(unpacked(stored))[..., :-4], stored[..., :-4])
    np.testing.assert_allclose(unpacked(packed(unpacked(stored))), unpacked(stored), rtol=3e-7)
    np.testing.assert_array_equal(unpacked(packed(np.full(4, 1e-44))), np.zeros(4))
    assert unpacked(packed(np.zeros((0, 5)))).shape == (0, 5)
