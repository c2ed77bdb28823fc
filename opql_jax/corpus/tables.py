"""The tables of a prepared folder: their schemas, and Parquet files that are written atomically and checked when read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core import files, manifest
from opql_jax.corpus.documents import CorpusError

PREPARED = manifest.FolderFormat('opql-prepared', 1, 'a prepared folder', 'prepare')
# The settings of a prepared folder, as long as it is unfinished.
PLAN = 'plan.json'
# The files of a prepared folder; others in it are left alone.
CONTENTS = ('*.parquet', 'questions/*/*.jsonl', 'tokenizer.json', '*.array_record', 'rejected.jsonl')

MENTION = pa.struct([('start', pa.int32()), ('end', pa.int32()), ('entity', pa.int32())])

ENTITIES = pa.schema(
    [
        ('key', pa.string()),
        ('name', pa.string()),
        ('aliases', pa.list_(pa.string())),
        ('count', pa.int32()),
    ]
)

PASSAGES = pa.schema(
    [
        ('doc_id', pa.string()),
        ('title', pa.string()),
        ('title_entity', pa.int32()),
        ('text', pa.string()),
        ('sentence_starts', pa.list_(pa.int32())),
        ('mentions', pa.list_(MENTION)),
    ]
)

PAIRS = pa.schema(
    [
        ('topic', pa.int32()),
        ('target', pa.int32()),
        ('passage', pa.int32()),
        ('topic_mention', pa.int32()),
        ('target_mention', pa.int32()),
        ('is_title', pa.bool_()),
    ]
)


def write_table(path: str | os.PathLike, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Writes record batches (a `pa.Table` through `.to_batches()`) to `path`; returns the row count."""
    rows = 0
    with files.atomic_path(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def read_table(path: str | os.PathLike, schema: pa.Schema, advice: str = PREPARED.advice) -> pa.Table:
    """Reads `path` and returns it with exactly the columns of `schema`; errors end with `advice`.

    Raises:
        CorpusError: the file is missing, truncated or no Parquet, or a column is missing or of another
            type.
    """
    path = Path(path)
    if not path.is_file():
        raise CorpusError(f'{path}: no such file; {advice}')
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorpusError(f'{path}: truncated or not a Parquet file ({error}); {advice}') from error
    for field in schema:
        if field.name not in table.column_names:
            raise CorpusError(f'{path}: column {field.name!r} is missing; it has {table.column_names}; {advice}')
    table = table.select(schema.names)
    if not table.schema.equals(schema):
        try:
            # Only the names of list items may differ between writers; a changed value type is an error.
            if any(_shape(a.type) != _shape(b.type) for a, b in zip(table.schema, schema)):
                raise pa.ArrowInvalid('types differ')
            table = table.cast(schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            wrong = [f'{a.name} is {a.type}, expected {b.type}' for a, b in zip(table.schema, schema) if a.type != b.type]
            raise CorpusError(f'{path}: wrong column types: {"; ".join(wrong)}; {advice}') from error
    return table


def _shape(type_: pa.DataType):
    """A type without the names that writers give to list items."""
    return ['list', _shape(type_.value_type)] if pa.types.is_list(type_) else type_


def mention_array(mentions: Sequence[Sequence[tuple[int, int, int]]]) -> pa.ListArray:
    """Lists of `(start, end, entity)` as an Arrow column of lists of `MENTION`."""
    flat = np.array([m for row in mentions for m in row], np.int32).reshape(-1, 3)
    offsets = np.cumsum([0] + [len(row) for row in mentions], dtype=np.int32)
    items = pa.StructArray.from_arrays([pa.array(flat[:, i].copy()) for i in range(3)], fields=list(MENTION))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def write_manifest(directory: str | os.PathLike, fields: dict) -> dict:
    """Writes the manifest of a prepared folder that is complete but for it; returns what it holds.

    Args:
        directory: the folder, on disk.
        fields: what else the manifest states (counts, settings); JSON values.
    """
    directory = Path(directory)
    paths = sorted(path for pattern in CONTENTS for path in directory.glob(pattern))
    digests = {path.relative_to(directory).as_posix(): files.digest(path) for path in paths}
    return manifest.write_manifest(directory, PREPARED, fields, digests)
