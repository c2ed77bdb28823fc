"""Tables are whole or absent, and checked when they are read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import read_manifest
from opql_jax.corpus import tables

import tiny_prepared

SCHEMA = pa.schema([('a', pa.int32()), ('b', pa.list_(pa.string()))])
TABLE = pa.table({'a': [1, 2], 'b': [['x'], []]}, schema=SCHEMA)


def test_a_table_comes_back_as_written(tmp_path):
    assert tables.write_table(tmp_path / 'new' / 't.parquet', TABLE.to_batches(), SCHEMA) == 2
    assert tables.read_table(tmp_path / 'new' / 't.parquet', SCHEMA).equals(TABLE)


def test_names_that_other_writers_give_list_items_do_not_matter(tmp_path):
    other = pa.list_(pa.field('item', pa.string()))
    pq.write_table(
        pa.table({'b': pa.array([['x'], []], other), 'a': pa.array([1, 2], pa.int32()), 'more': [0, 0]}), tmp_path / 't.parquet'
    )
    assert tables.read_table(tmp_path / 't.parquet', SCHEMA).equals(TABLE)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / 't.parquet'
    tables.write_table(path, TABLE.to_batches(), SCHEMA)

    def broken():
        yield from TABLE.to_batches()
        raise RuntimeError('killed')

    with pytest.raises(RuntimeError, match='killed'):
        tables.write_table(path, broken(), SCHEMA)
    assert tables.read_table(path, SCHEMA).equals(TABLE)
    assert [p.name for p in tmp_path.iterdir()] == ['t.parquet']


def test_broken_files_are_errors_that_name_them(tmp_path):
    path = tmp_path / 't.parquet'
    with pytest.raises(InputError, match=r't\.parquet: no such file'):
        tables.read_table(path, SCHEMA)
    tables.write_table(path, TABLE.to_batches(), SCHEMA)
    whole = path.read_bytes()
    for size in (0, 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r't\.parquet: truncated, or not a table of a, b'):
            tables.read_table(path, SCHEMA)


def test_wrong_columns_are_errors(tmp_path):
    path = tmp_path / 't.parquet'
    pq.write_table(pa.table({'a': pa.array([1], pa.int32())}), path)
    with pytest.raises(InputError, match='t.parquet: not a table of a, b: no such b'):
        tables.read_table(path, SCHEMA)
    pq.write_table(pa.table({'a': pa.array([1.5]), 'b': pa.array([['x']])}), path)
    with pytest.raises(InputError, match='t.parquet: not a table of a, b .*1.5'):
        tables.read_table(path, SCHEMA)


def test_the_manifest_lists_every_file_of_a_prepared_folder_and_no_other(tmp_path):
    (tmp_path / 'questions' / '1-hop').mkdir(parents=True)
    (tmp_path / 'questions' / '1-hop' / 'dev.jsonl').write_bytes(b'12345')
    (tmp_path / 'tokenizer.json').write_text('{}')
    (tmp_path / 'notes.txt').write_text('not ours')
    counts = dict.fromkeys(tables.Counts.__struct_fields__, 3)
    fields = {'counts': counts, 'settings': tiny_prepared.SETTINGS, 'dropped_entities': {'film': 0.75}}
    manifest = tables.write_manifest(tmp_path, fields)
    assert read_manifest(tmp_path, tables.PREPARED) == manifest
    assert (manifest.format, manifest.version, manifest.counts.passages) == ('opql-prepared', 1, 3)
    assert list(manifest.files) == ['questions/1-hop/dev.jsonl', 'tokenizer.json']
    assert tables.write_manifest(tmp_path, fields) == manifest
