"""Rows with numbers that cannot be scored are found, in every stored type."""

import ml_dtypes
import numpy as np
import pytest

from opql_jax.core.arrays import bad_row


@pytest.mark.parametrize('dtype', [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize('value', [np.nan, -np.nan, np.inf, -np.inf, 1e16, -1e16])
@pytest.mark.parametrize('row', [0, 1023, 1024, 2999])
def test_the_first_bad_row_is_found(dtype, value, row):
    rows = np.random.default_rng(0).standard_normal((3000, 3)).astype(dtype)
    assert bad_row(rows) is None
    with np.errstate(over='ignore'):  # 1e16 is infinite in float16
        rows[[row, -1], 1] = np.float32(value).astype(dtype)
    assert bad_row(rows) == row


def test_the_largest_numbers_are_good():
    for dtype, largest in ((np.float32, 1e15), (np.float16, 65504), (ml_dtypes.bfloat16, 9.9e14)):
        assert bad_row(np.array([[largest, -largest, 0.0, -0.0]], dtype)) is None
    assert bad_row(np.zeros((0, 0), np.float32)) is None
