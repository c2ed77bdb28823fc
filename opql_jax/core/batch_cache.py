"""A map over record batches that keeps results on disk, so that a killed run resumes."""

from __future__ import annotations

import collections
import functools
import hashlib
import itertools
import json
import logging
import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from opql_jax.core import files

_log = logging.getLogger(__name__)

# The column of a file with the keys of its rows.
_KEY = 'key'
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME = re.compile(r'[0-9a-f]{64}\.arrow')

Stage = Callable[[pa.RecordBatch], pa.RecordBatch]
# Yields a pure stage of every batch, in their order: `functools.partial(processes.map_ordered,
# processes=8)`, or Spark.
MapBatches = Callable[[Stage, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_cached(
    map_batches: MapBatches,
    stage: Stage,
    schema: pa.Schema,
    folder: pathlib.Path,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yields `stage(batch)` in order; maps only the batches whose results are not in the folder.

    The stage is a pure function, whose results have the `schema`; `folder` exists, and keeps those
    of no other. Its files, read and written in this process, are named by the SHA-256 of the batch,
    and hold that of the rest, an Arrow file; a damaged one is made again. InputError: one is a
    link, or no file.
    """
    # Names of files, and whether they are being made.
    drawn: collections.deque[tuple[str, bool]] = collections.deque()

    def missing():
        for batch in batches:
            name = f'{hashlib.sha256(batch.serialize()).hexdigest()}.arrow'
            is_missing = _read(folder, name, schema) is None
            drawn.append((name, is_missing))
            if is_missing:
                yield batch

    for result in map_batches(stage, missing()):
        while not drawn[0][1]:
            yield _read(folder, drawn.popleft()[0], schema)
        _write(folder, drawn.popleft()[0], result)
        yield result
    while drawn:
        yield _read(folder, drawn.popleft()[0], schema)


def map_rows_cached(
    map_batches: MapBatches,
    stage: Stage,
    schema: pa.Schema,
    folder: pathlib.Path,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """`map_cached` row by row: rows are found whatever they stood beside when they were stored.

    The stage maps each row on its own. Results are stored as by `map_cached`, with the SHA-256 of
    the rows that they were made of.
    """
    schema = schema.append(pa.field(_KEY, pa.binary()))
    places: dict[bytes, tuple[str, int]] = {}
    for name in filter(_NAME.fullmatch, files.names_below(folder, depth=0)):
        if (stored := _read(folder, name, schema)) is not None:
            places |= {key: (name, row) for row, key in enumerate(stored[_KEY].to_pylist())}
    # Keys of a batch, and its rows that are being made.
    drawn: collections.deque[tuple[list[bytes], list[int]]] = collections.deque()

    def missing():
        for batch in batches:
            keys = [hashlib.sha256(json.dumps(row).encode()).digest() for row in batch.to_pylist()]
            rows = [row for row, key in enumerate(keys) if key not in places]
            drawn.append((keys, rows))
            if rows:
                yield batch.take(pa.array(rows))

    @functools.lru_cache(maxsize=8)
    def read(name: str) -> pa.RecordBatch:
        stored = _read(folder, name, schema)
        assert stored is not None  # it was read, or written, a moment ago
        return stored

    def stored_rows(keys: list[bytes]) -> pa.RecordBatch:
        found = list(dict.fromkeys(places[key][0] for key in keys))
        lengths = [len(read(name)) for name in found]
        first = dict(zip(found, itertools.accumulate(lengths, initial=0)))
        rows = pa.array([first[name] + row for name, row in (places[key] for key in keys)])
        taken = pa.Table.from_batches([read(name) for name in found]).drop_columns(_KEY).take(rows)
        return taken.combine_chunks().to_batches()[0]

    for result in map_batches(stage, missing()):
        while not drawn[0][1]:
            yield stored_rows(drawn.popleft()[0])
        keys, rows = drawn.popleft()
        made = [keys[row] for row in rows]
        name = f'{hashlib.sha256(b"".join(made)).hexdigest()}.arrow'
        columns, names = [*result.columns, pa.array(made, pa.binary())], result.schema.names
        _write(folder, name, pa.RecordBatch.from_arrays(columns, names=[*names, _KEY]))
        places |= {key: (name, row) for row, key in enumerate(made)}
        yield result if len(rows) == len(keys) else stored_rows(keys)
    while drawn:
        yield stored_rows(drawn.popleft()[0])


def remove(folder: str | os.PathLike, name: str) -> int:
    """Removes results from the folder `name`; returns the bytes freed. InputError: a link."""
    removed = []
    for each in files.names_below(folder, name):
        whole = files.whole_name(each)
        if _NAME.fullmatch((whole or each).rpartition('/')[2]):
            if whole or _content(folder, each) is not None:
                removed.append(each)
            else:
                path = os.path.join(folder, each)
                _log.warning('%s was left: it is damaged, or of somebody else', path)
    freed = files.remove_below(folder, removed)
    files.remove_empty(folder, name)
    return freed


def _content(folder, name) -> memoryview | None:
    """What a file holds after its digest; None if it is missing, unreadable or damaged."""
    try:
        stored = memoryview(files.read_below(folder, name))
    except OSError:
        return None
    if hashlib.sha256(stored[_DIGEST_BYTES:]).digest() == stored[:_DIGEST_BYTES]:
        return stored[_DIGEST_BYTES:]
    return None


def _read(folder: pathlib.Path, name: str, schema: pa.Schema) -> pa.RecordBatch | None:
    """The batch in a file; None if there is none of that schema, or it is damaged."""
    if (content := _content(folder, name)) is None:
        return None
    try:
        batch = pa.ipc.open_file(pa.py_buffer(content)).get_batch(0)
        batch.validate(full=True)  # whoever forges a file can write a digest that fits
    except (pa.ArrowException, OSError):
        return None
    return batch if batch.schema.equals(schema) else None


def _write(folder: pathlib.Path, name: str, batch: pa.RecordBatch) -> None:
    sink, options = pa.BufferOutputStream(), pa.ipc.IpcWriteOptions(compression='zstd')
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    stored = sink.getvalue()
    with files.atomic_path(folder / name) as partial, open(partial, 'wb') as out:
        out.write(hashlib.sha256(stored).digest())
        out.write(stored)
