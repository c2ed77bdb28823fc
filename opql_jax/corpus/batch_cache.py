"""Results of long work, kept in files until all of it is done, so that a run that was killed works on from where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from opql_jax.corpus import tables


class Kept:
    """`function` of record batches; what it made of a batch is found again by the contents of that batch.

    A file holds the SHA-256 of what follows, the result as an Arrow file. One that is damaged is made again.
    """

    def __init__(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], folder: Path):
        """Takes a function and the folder of its results, which exists and is of no other function.

        Both can be sent to another process if `function` can.
        """
        self._function, self._folder = function, folder

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        file = self._folder / f'{hashlib.sha256(batch.serialize()).hexdigest()}.arrow'
        if file.exists():
            stored = memoryview(file.read_bytes())
            if hashlib.sha256(stored[_DIGEST:]).digest() == stored[:_DIGEST]:
                return pa.ipc.open_file(pa.py_buffer(stored[_DIGEST:])).get_batch(0)
        made = self._function(batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, made.schema, options=pa.ipc.IpcWriteOptions(compression='lz4')) as writer:
            writer.write_batch(made)
        stored = sink.getvalue()
        with tables.atomic_path(file) as partial, open(partial, 'wb') as out:
            out.write(hashlib.sha256(stored).digest())
            out.write(stored)
        return made


_DIGEST = hashlib.sha256().digest_size
