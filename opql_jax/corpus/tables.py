"""Parquet files and the manifest of a prepared directory, written atomically and checked on reading; arrays."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core import files as storage
from opql_jax.corpus.documents import CorpusError

FORMAT = 'opql-prepared'
VERSION = 1
MANIFEST = 'manifest.json'
PLAN = 'plan.json'
# What `prepare` writes into its directory; other files there are none of its business.
CONTENTS = ('*.parquet', 'questions/*/*.jsonl', 'tokenizer.json', '*.array_record', 'rejected.jsonl')

_AGAIN = 'delete the prepared directory and run prepare again'

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


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike) -> Iterator[Path]:
    """Yields a temporary path beside `path`; a clean exit makes it `path`, an exception removes it.

    The bytes are on disk before the rename, so a reader (or a run after a crash) finds either the
    old file or the whole new one. For a bucket the temporary path is on disk, and its file is copied there.
    """
    if storage.is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            partial = Path(folder, storage.path(path).name)
            yield partial
            storage.put(partial, storage.path(path))
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'.{path.name}.{os.getpid()}.partial')
    try:
        try:
            yield partial
        except OSError as error:
            if error.errno and not error.filename:  # a full disk
                error.filename = str(path)
            raise
        with open(partial, 'rb') as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        partial.unlink(missing_ok=True)


def write_table(path: str | os.PathLike, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Writes record batches (a `pa.Table` through `.to_batches()`) to `path`; returns the row count."""
    rows = 0
    with atomic_path(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def read_table(path: str | os.PathLike, schema: pa.Schema, advice: str = _AGAIN) -> pa.Table:
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


def write_manifest(directory: str | os.PathLike, fields: dict) -> dict:
    """Writes `manifest.json` over the `CONTENTS` of `directory`; returns what it holds.

    Args:
        directory: a prepared directory, complete but for its manifest.
        fields: what else the manifest states (counts, settings); JSON values.
    """
    directory = Path(directory)
    files = {}
    for path in sorted(path for pattern in CONTENTS for path in directory.glob(pattern)):
        files[path.relative_to(directory).as_posix()] = {'bytes': path.stat().st_size, 'sha256': sha256(path)}
    manifest = {'format': FORMAT, 'version': VERSION, **fields, 'files': files}
    with atomic_path(directory / MANIFEST) as partial:
        partial.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    return manifest


def read_manifest(directory: str | os.PathLike) -> dict:
    """Reads and checks `manifest.json`: format, version, and the presence and size of every file.

    Raises:
        CorpusError: naming the directory or the file and what is wrong with it.
    """
    path = Path(directory) / MANIFEST
    if not path.is_file():
        raise CorpusError(f'{path}: no such file; {directory} is not a prepared directory, or prepare did not end')
    try:
        manifest = json.loads(path.read_text(encoding='utf-8'))
    except ValueError as error:
        raise CorpusError(f'{path}: not valid JSON ({error}); {_AGAIN}') from error
    if not isinstance(manifest, dict) or manifest.get('format') != FORMAT:
        raise CorpusError(f'{path}: not the manifest of a prepared directory (no format {FORMAT!r})')
    if manifest.get('version') != VERSION:
        raise CorpusError(f'{path}: format version {manifest.get("version")}, this program reads {VERSION}; {_AGAIN}')
    for name, stated in manifest['files'].items():
        file = path.parent / name
        if not file.is_file():
            raise CorpusError(f'{file}: listed in the manifest but missing; {_AGAIN}')
        if file.stat().st_size != stated['bytes']:
            raise CorpusError(
                f'{file}: {file.stat().st_size} bytes, the manifest says {stated["bytes"]}: truncated or overwritten; {_AGAIN}'
            )
    return manifest


def sha256(path: str | os.PathLike) -> str:
    """The hex digest of a file's bytes."""
    return storage.sha256(path)


# numpy parses a header as Python, which Python 3.11 before 3.11.8 cannot do in two threads at a time (SystemError).
_HEADERS = threading.Lock()


def read_array(file: Path, **options) -> np.ndarray:
    """`np.load` of an array's file, which threads may call at the same time."""
    with _HEADERS:
        return np.load(file, allow_pickle=False, **options)
