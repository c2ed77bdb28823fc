"""A map over record batches whose results are kept on disk, with which a run that was killed continues where it was."""

from __future__ import annotations

import collections
import functools
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from opql_jax.core import files

# The column of a file with the keys of its rows.
_KEY = 'key'
_DIGEST_BYTES = hashlib.sha256().digest_size

Stage = Callable[[pa.RecordBatch], pa.RecordBatch]
# Yields a pure stage of every batch, in their order: `functools.partial(processes.map_ordered, processes=8)`, or Spark.
MapBatches = Callable[[Stage, Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_cached(
    map_batches: MapBatches, stage: Stage, folder: Path, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yields `stage(batch)` for every batch in order, and maps only those whose results are not in the folder.

    The files are read and written in this process, wherever the stage runs. A file is named by the SHA-256 of the batch, and holds the
    SHA-256 of the rest, an Arrow file with one batch. A damaged file is made again.

    Args:
        map_batches: what runs the stage.
        stage: a pure function.
        folder: of its results; it exists and keeps those of no other function.
        batches: drawn as they are needed.
    """
    drawn: collections.deque[tuple[Path, bool]] = collections.deque()  # files, and whether they are being made

    def missing():
        for batch in batches:
            file = folder / f'{hashlib.sha256(batch.serialize()).hexdigest()}.arrow'
            is_missing = _read(file) is None
            drawn.append((file, is_missing))
            if is_missing:
                yield batch

    for result in map_batches(stage, missing()):
        while not drawn[0][1]:
            yield _read(drawn.popleft()[0])
        _write(drawn.popleft()[0], result)
        yield result
    while drawn:
        yield _read(drawn.popleft()[0])


def map_rows_cached(
    map_batches: MapBatches, stage: Stage, folder: Path, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """`map_cached` row by row: maps only those rows of the batches whose results are not in the folder, whatever they stood beside then.

    The stage makes a row of each row, independently of the others. Results are stored as by `map_cached`, with the SHA-256 of the row that
    each was made of.
    """
    places: dict[bytes, tuple[Path, int]] = {}
    for file in sorted(folder.glob('*.arrow')):
        if (stored := _read(file)) is not None:
            places |= {key: (file, row) for row, key in enumerate(stored[_KEY].to_pylist())}
    drawn: collections.deque[tuple[list[bytes], list[int]]] = (
        collections.deque()
    )  # keys of a batch, and rows that are being made

    def missing():
        for batch in batches:
            keys = [hashlib.sha256(json.dumps(row).encode()).digest() for row in batch.to_pylist()]
            rows = [row for row, key in enumerate(keys) if key not in places]
            drawn.append((keys, rows))
            if rows:
                yield batch.take(pa.array(rows))

    @functools.lru_cache(maxsize=8)
    def read(file: Path) -> pa.RecordBatch:
        stored = _read(file)
        assert stored is not None  # it was read, or written, a moment ago
        return stored

    def stored_rows(keys: list[bytes]) -> pa.RecordBatch:
        found = list(dict.fromkeys(places[key][0] for key in keys))
        first = dict(zip(found, itertools.accumulate((len(read(file)) for file in found), initial=0)))
        rows = pa.array([first[file] + row for file, row in (places[key] for key in keys)])
        taken = pa.Table.from_batches([read(file) for file in found]).drop_columns(_KEY).take(rows)
        return taken.combine_chunks().to_batches()[0]

    for result in map_batches(stage, missing()):
        while not drawn[0][1]:
            yield stored_rows(drawn.popleft()[0])
        keys, rows = drawn.popleft()
        made = [keys[row] for row in rows]
        file = folder / f'{hashlib.sha256(b"".join(made)).hexdigest()}.arrow'
        columns = [*result.columns, pa.array(made, pa.binary())]
        _write(file, pa.RecordBatch.from_arrays(columns, names=[*result.schema.names, _KEY]))
        places |= {key: (file, row) for row, key in enumerate(made)}
        yield result if len(rows) == len(keys) else stored_rows(keys)
    while drawn:
        yield stored_rows(drawn.popleft()[0])


def _read(file: Path) -> pa.RecordBatch | None:
    """The batch in a file; None if there is none, or it is damaged."""
    if not file.exists():
        return None
    stored = memoryview(file.read_bytes())
    if hashlib.sha256(stored[_DIGEST_BYTES:]).digest() != stored[:_DIGEST_BYTES]:
        return None
    return pa.ipc.open_file(pa.py_buffer(stored[_DIGEST_BYTES:])).get_batch(0)


def _write(file: Path, batch: pa.RecordBatch) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression='lz4')) as writer:
        writer.write_batch(batch)
    stored = sink.getvalue()
    with files.atomic_path(file) as partial, open(partial, 'wb') as out:
        out.write(hashlib.sha256(stored).digest())
        out.write(stored)
