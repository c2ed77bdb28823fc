"""Rows of E that names make, against the sum written out."""

import math

import numpy as np
import pytest

from opql_jax.data.entity_names import table_of_names
from opql_jax.data.tokenizer import train_wordpiece

NAMES = ['the red house', 'the blue house', 'house red the', 'the house', 'Ōkami 狼', 'red red house', 'blue', '\u200b', '狼']


@pytest.fixture(scope='module')
def tokenizer():
    return train_wordpiece(NAMES * 3, 200)


def test_a_row_is_the_weighted_sum_of_its_pieces_at_length_1(tokenizer):
    unknown = [tokenizer.token_to_id('[UNK]')]
    pieces = [tokenizer.encode(name, add_special_tokens=False).ids or unknown for name in NAMES]
    assert pieces[NAMES.index('\u200b')] == unknown  # a row of nothing would have no direction
    vectors = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 16))
    for row, ids in zip(table_of_names(tokenizer, NAMES, 16), pieces):
        expected = np.zeros(16)
        for piece in ids:
            expected += math.log(1 + len(NAMES) / sum(piece in other for other in pieces)) * vectors[piece]
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), rtol=1e-5, atol=1e-6)
        assert row.dtype == np.float32


def test_names_with_pieces_in_common_are_near(tokenizer):
    table = table_of_names(tokenizer, NAMES, 256)
    near = table @ table.T
    assert near[0, 2] == pytest.approx(1, abs=1e-6)  # the same pieces
    assert near[0, 1] > 0.3 > abs(near[0, 4])
    np.testing.assert_array_equal(table_of_names(tokenizer, NAMES, 256), table)
    assert table_of_names(tokenizer, [], 8).shape == (0, 8)
