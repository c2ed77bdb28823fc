"""Tables are checked when they are read, before they take memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables

SCHEMA = pa.schema([('a', pa.int32()), ('b', pa.list_(pa.string()))])
TABLE = pa.table({'a': [1, 2], 'b': [['x'], []]}, schema=SCHEMA)


def test_names_that_other_writers_give_list_items_do_not_matter(tmp_path):
    lists = pa.array([['x'], []], pa.list_(pa.field('item', pa.string())))
    other = pa.table({'b': lists, 'a': pa.array([1, 2], pa.int32()), 'more': [0, 0]})
    pq.write_table(other, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(TABLE)


def test_wrong_columns_are_errors(tmp_path):
    path = tmp_path / 't.parquet'
    pq.write_table(pa.table({'a': pa.array([1], pa.int32())}), path)
    with pytest.raises(InputError, match='t.parquet: not a table of a, b: no such b'):
        tables.read_table(path, SCHEMA)
    pq.write_table(pa.table({'a': pa.array([1.5]), 'b': pa.array([['x']])}), path)
    with pytest.raises(InputError, match='t.parquet: truncated, or not a table of a, b .*1.5'):
        tables.read_table(path, SCHEMA)


WORDS = pa.schema([('word', pa.string()), ('words', pa.list_(pa.string())), ('number', pa.int64())])
LONG = 'x' * 1_000_000


def often(count, text=LONG):
    """A text in so many cells, which is stored once."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [text])


NO_WORDS = pa.array([[]], WORDS.field('words').type)


def cells(word, words=NO_WORDS):
    """A table of `WORDS` with these words; the other columns are the same in all rows."""
    row = np.zeros(len(word), np.int64)
    return pa.table({'word': word, 'words': words.take(row), 'number': row})


# Small files that hold gigabytes.
HUNDRED = pa.array(['a'] * 100).dictionary_encode()
BOMBS = {
    'a text in many rows': lambda: cells(often(4000)),
    'a text after others': lambda: cells(pa.concat_arrays([HUNDRED, often(3900)])),
    'a text often in one row': lambda: cells(
        pa.array(['a']), pa.ListArray.from_arrays(np.array([0, 4000], np.int32), often(4000))
    ),
    'many numbers': lambda: cells(often(20_000_000, '')),
}


@pytest.mark.parametrize('as_dictionary', [True, False], ids=['as a dictionary', 'as strings'])
@pytest.mark.parametrize('name', BOMBS)
def test_a_small_file_of_much_is_told_before_it_takes_memory(tmp_path, name, as_dictionary):
    pq.write_table(
        BOMBS[name](), tmp_path / 't.parquet', compression='zstd', store_schema=as_dictionary
    )
    assert (tmp_path / 't.parquet').stat().st_size < 200_000
    pool = pa.default_memory_pool()
    most = max(pool.max_memory(), pool.bytes_allocated() + (1 << 29))
    with pytest.raises(InputError, match='t.parquet: would decode to more than .* bytes'):
        tables.read_table(tmp_path / 't.parquet', WORDS)
    assert pool.max_memory() <= most


def test_what_is_alike_in_many_rows_is_read(tmp_path):
    """As in a memory of few texts: a short name again and again, which is stored once."""
    table = cells(pa.array(['a name', 'another name'])).take(np.arange(400_000) % 2)
    pq.write_table(table, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', WORDS).equals(table.combine_chunks())
