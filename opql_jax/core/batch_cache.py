"""A cache of record batches on disk, with which a run that was killed continues where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from opql_jax.core import files

_DIGEST_BYTES = hashlib.sha256().digest_size


class BatchCache:
    """Caches `function(batch)` on disk, keyed by the SHA-256 of the batch.

    A file holds the SHA-256 of the rest, an Arrow file with one batch. A damaged file is made again. The cache can be sent to
    another process if `function` can.
    """

    def __init__(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], folder: Path):
        """Takes a pure function and the folder of its results, which exists and caches no other function."""
        self._function, self._folder = function, folder

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        file = self._folder / f'{hashlib.sha256(batch.serialize()).hexdigest()}.arrow'
        if file.exists():
            stored = memoryview(file.read_bytes())
            if hashlib.sha256(stored[_DIGEST_BYTES:]).digest() == stored[:_DIGEST_BYTES]:
                return pa.ipc.open_file(pa.py_buffer(stored[_DIGEST_BYTES:])).get_batch(0)
        result = self._function(batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, result.schema, options=pa.ipc.IpcWriteOptions(compression='lz4')) as writer:
            writer.write_batch(result)
        stored = sink.getvalue()
        with files.atomic_path(file) as partial, open(partial, 'wb') as out:
            out.write(hashlib.sha256(stored).digest())
            out.write(stored)
        return result
