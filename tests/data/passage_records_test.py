"""Tokenised passages in a random-access file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from opql_jax.data import markup, passage_records
from opql_jax.data.markup import TokenisedPassage

INT32 = st.integers(-(2**31), 2**31 - 1)


@st.composite
def passages(draw):
    m = draw(st.integers(0, 5))
    tokens = draw(hnp.arrays(np.int32, st.integers(0, 20), elements=INT32))
    column = hnp.arrays(np.int32, m, elements=INT32)
    return TokenisedPassage(tokens, *(draw(column) for _ in range(3)))


def assert_same(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)
        assert y.dtype == np.int32


@given(st.lists(passages(), max_size=6))
def test_records_are_read_as_they_were_written_one_by_one_and_joined(some):
    records = [passage_records.encode_passage(p) for p in some]
    for passage, read in zip(some, passage_records.decode_passages(records), strict=True):
        assert_same(passage, read)
    joined = passage_records.decode_joined(records)
    assert_same(markup.join(some)[:4], joined[:4])
    np.testing.assert_array_equal(joined.sizes, markup.join(some).sizes)


def test_the_layout_is_little_endian_int32():
    passage = TokenisedPassage(*(np.array(x, np.int32) for x in ([5, 6, 7], [1], [2], [9])))
    assert passage_records.encode_passage(passage) == record(3, 1, 5, 6, 7, 1, 2, 9)


def test_passages_are_read_by_id_in_any_order_and_counted(tmp_path, monkeypatch):
    rng, path = np.random.default_rng(0), tmp_path / passage_records.FILE_NAME
    draw = lambda n: rng.integers(0, 9000, n, dtype=np.int32)
    written = [TokenisedPassage(*map(draw, (k % 130, k % 5, k % 5, k % 5))) for k in range(1000)]
    made = map(passage_records.encode_passage, written)
    assert passage_records.write_passages(path, made) == 1000
    read = passage_records.PassageRecords(path)
    assert len(read) == 1000
    for i in (0, 999, 17):
        assert_same(written[i], read[i])
    for i, passage in zip([5, 998, 5, 0], read.read([5, 998, 5, 0])):
        assert_same(written[i], passage)
    assert read.read([]) == []
    monkeypatch.setattr(passage_records, 'SCAN', 128)
    found = [column.tolist() for column in read.sizes()]
    assert found == [[k % 130 for k in range(1000)], [k % 5 for k in range(1000)]]
    with pytest.raises(IndexError, match='0..999, not 1000'):
        read[1000]


def record(*numbers):
    return np.array(numbers, '<i4').tobytes()


GOOD = record(1, 0, 7)


@pytest.mark.parametrize('record', [b'', b'12345678901', record(5, 0, 1), record(-1, 1, 1, 1)])
def test_a_record_of_something_else_is_refused(record):
    for decode in (passage_records.decode_passages, passage_records.decode_joined):
        with pytest.raises(passage_records.RecordsError, match='record'):
            decode([GOOD, record, GOOD])
