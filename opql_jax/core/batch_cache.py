"""A map over record batches whose results are kept on disk, with which a run that was killed continues where it was."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from opql_jax.core import files

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
