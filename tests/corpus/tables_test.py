"""Tables are checked when they are read. Small files of much: tests/kb/forged_test.py."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.corpus import tables

SCHEMA = pa.schema([('a', pa.int32()), ('b', pa.list_(pa.string()))])
TABLE = pa.table({'a': [1, 2], 'b': [['x'], []]}, schema=SCHEMA)


def test_names_that_other_writers_give_list_items_do_not_matter(tmp_path):
    lists = pa.array([['x'], []], pa.list_(pa.field('item', pa.string())))
    other = pa.table({'b': lists, 'a': pa.array([1, 2], pa.int32()), 'more': [0, 0]})
    pq.write_table(other, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(TABLE)


def test_what_is_alike_in_many_rows_is_read(tmp_path):
    """As in a memory of few texts: a short name again and again, which is stored once."""
    rows = TABLE.take(np.arange(400_000) % 2)
    pq.write_table(rows, tmp_path / 't.parquet')
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(rows.combine_chunks())
