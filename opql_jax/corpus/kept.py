"""Results of long work, kept in files until all of it is done, so that a run that was killed works on from where it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from opql_jax.corpus import tables


class Kept:
    """`function` of record batches, each given with its number: `kept((number, batch))`.

    A result is found again by its number alone. Whoever gives the folder knows that function and batches are those of the
    run that filled it.
    """

    def __init__(self, function: Callable[[pa.RecordBatch], pa.RecordBatch], folder: Path | None):
        """Keeps results of `function`, which can be sent to another process, in a folder that exists; None keeps none."""
        self._function, self._folder = function, folder

    def __call__(self, numbered: tuple[int, pa.RecordBatch]) -> pa.RecordBatch:
        number, batch = numbered
        if self._folder is None:
            return self._function(batch)
        file = self._folder / f'{number:06}.arrow'
        with contextlib.suppress(OSError, pa.ArrowInvalid):  # a damaged file is made again
            with pa.OSFile(str(file)) as source, pa.ipc.open_file(source) as reader:
                return reader.get_batch(0)
        made = self._function(batch)
        with tables.atomic_path(file) as partial:
            with pa.OSFile(str(partial), 'wb') as sink, pa.ipc.new_file(sink, made.schema, options=_COMPRESSED) as writer:
                writer.write_batch(made)
        return made


_COMPRESSED = pa.ipc.IpcWriteOptions(compression='lz4')
