"""Tables are whole or absent, and checked when they are read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import read_manifest
from opql_jax.corpus import tables

import tiny_prepared

SCHEMA = pa.schema([('a', pa.int32()), ('b', pa.list_(pa.string()))])
TABLE = pa.table({'a': [1, 2], 'b': [['x'], []]}, schema=SCHEMA)


@pytest.mark.parametrize('chunks', [[], [[]], [[3, 1]], [[3], [], [1, 2]]])
def test_numbers_are_those_of_the_column(chunks):
    column = pa.chunked_array(chunks, pa.int32())
    for part in (column, column.slice(1), column.combine_chunks()[1:]):
        np.testing.assert_array_equal(tables.numbers(part), part.to_numpy(), strict=True)


def test_names_that_other_writers_give_list_items_do_not_matter(tmp_path):
    lists = pa.array([['x'], []], pa.list_(pa.field('item', pa.string())))
    other = pa.table({'b': lists, 'a': pa.array([1, 2], pa.int32()), 'more': [0, 0]})
    pq.write_table(other, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(TABLE)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / 't.parquet'
    assert tables.write_table(path, TABLE.to_batches(), SCHEMA) == 2

    def broken():
        yield from TABLE.to_batches()
        raise RuntimeError('killed')

    with pytest.raises(RuntimeError, match='killed'):
        tables.write_table(path, broken(), SCHEMA)
    assert tables.read_table(path, SCHEMA).equals(TABLE)
    assert [p.name for p in tmp_path.iterdir()] == ['t.parquet']


def test_wrong_columns_are_errors(tmp_path):
    path = tmp_path / 't.parquet'
    pq.write_table(pa.table({'a': pa.array([1], pa.int32())}), path)
    with pytest.raises(InputError, match='t.parquet: not a table of a, b: no such b'):
        tables.read_table(path, SCHEMA)
    pq.write_table(pa.table({'a': pa.array([1.5]), 'b': pa.array([['x']])}), path)
    with pytest.raises(InputError, match='t.parquet: truncated, or not a table of a, b .*1.5'):
        tables.read_table(path, SCHEMA)


def test_the_manifest_lists_every_file_of_a_prepared_folder_and_no_other(tmp_path):
    (tmp_path / 'questions' / '1-hop').mkdir(parents=True)
    (tmp_path / 'questions' / '1-hop' / 'dev.jsonl').write_bytes(b'12345')
    (tmp_path / 'tokenizer.json').write_text('{}')
    (tmp_path / 'notes.txt').write_text('not ours')
    fields = {'settings': tiny_prepared.SETTINGS, 'dropped_entities': {'film': 0.75}}
    fields['counts'] = dict.fromkeys(tables.Counts.__struct_fields__, 3)
    manifest = tables.write_manifest(tmp_path, fields)
    assert read_manifest(tmp_path, tables.PREPARED) == manifest
    assert (manifest.format, manifest.version, manifest.counts.passages) == ('opql-prepared', 1, 3)
    assert list(manifest.files) == ['questions/1-hop/dev.jsonl', 'tokenizer.json']
    assert tables.write_manifest(tmp_path, fields) == manifest


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
