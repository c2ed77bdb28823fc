"""Writing the files of a memory: segments shard by shard, each file whole or not there, one writer at a time.

What `memory/build.py` and `memory/update.py` share. Nothing written here is part of a memory until a manifest names it.
"""

import contextlib
import io
import json
import pathlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from opql_jax.core import files as storage
from opql_jax.core import locks
from opql_jax.corpus import tables
from opql_jax.memory import format
from opql_jax.memory.format import MemoryFormatError


def write(
    directory: pathlib.Path,
    name: str,
    *,
    topic: np.ndarray,
    target: np.ndarray,
    num_entities: int,
    shard_rows: int,
    shard: Callable[[int, int], tuple[np.ndarray, dict[str, np.ndarray]]],
    first_entry: int | None = None,
    ids: np.ndarray | None = None,
    written: Callable[[int, int], None] | None = None,
    part: tuple[int, int] | None = None,
) -> tuple[dict, dict]:
    """Writes one segment, taking over the shards that an earlier run of the same finished.

    Args:
        directory: of the memory.
        name: of the segment, a folder in it.
        topic, target: [n] int32, topic rising.
        num_entities: size of the entity vocabulary.
        shard_rows: entries per shard.
        shard: (start, stop) -> relations [stop - start, d_r] of those rows in the stored dtype, and the columns of
            `store.PROVENANCE`.
        first_entry: id of the first row, the others following; or else
        ids: [n] int64, the id of every row.
        written: called with (start, stop) after each shard that was not there already.
        part: (i, n) writes shards i, i + n, i + 2 n and so on, and nothing else, for another call to take over; None for all.

    Returns:
        (the segment as the manifest lists it, {file: {'bytes', 'sha256'}}).
    """
    arrays = {
        'topic': topic,
        'target': target,
        'offsets': np.searchsorted(topic, np.arange(num_entities + 1)).astype(np.int64),
    }
    segment = {'num_entries': len(topic), 'shards': []}
    if ids is None:
        segment['first_entry'] = first_entry
    else:
        arrays['ids'] = ids
    files = {}
    for key, array in arrays.items() if part is None else ():
        segment[key] = f'{name}/{key}.npy'
        files |= write_array(directory, segment[key], array)
    for number, start in enumerate(range(0, len(topic), shard_rows)):
        if part is not None and number % part[1] != part[0]:
            continue
        stop = min(start + shard_rows, len(topic))
        listed = {
            'num_entries': stop - start,
            'relations': f'{name}/relations-{number:05d}.npy',
            'provenance': f'{name}/provenance-{number:05d}.parquet',
        }
        segment['shards'].append(listed)
        record = directory / name / f'shard-{number:05d}.json'
        digests = _finished(directory, record)
        if digests is None:
            relations, columns = shard(start, stop)
            digests = write_array(directory, listed['relations'], relations)
            digests |= _write_provenance(directory, listed['provenance'], columns)
            write_json(record, digests)
            if written is not None:
                written(start, stop)
        files |= digests
    return segment, files


def write_array(directory: pathlib.Path, name: str, array: np.ndarray) -> dict:
    """Writes a .npy file; returns its digest under its name."""
    with storage.atomic_path(directory / name) as partial, open(partial, 'wb') as file:
        stored = array.view(np.uint16) if array.dtype == format.DTYPES['bfloat16'] else array
        # numpy writes to a file by a handle of its own, and on a full disk loses the error of its last write.
        buffer = io.BytesIO()
        np.save(buffer, stored, allow_pickle=False)
        file.write(buffer.getbuffer())
    return {name: storage.digest(directory / name)}


def write_json(path: pathlib.Path, value) -> None:
    """Writes JSON, atomically."""
    with storage.atomic_path(path) as partial:
        partial.write_text(json.dumps(value, indent=1, sort_keys=True) + '\n', encoding='utf-8')


@contextlib.contextmanager
def only_writer(directory: pathlib.Path):
    """Holds a lock on the directory, which the system releases however the process ends; a bucket has none.

    Raises:
        MemoryFormatError: another process, or another call in this one, holds it.
    """
    with locks.try_exclusive(directory) as locked:
        if not locked:
            raise MemoryFormatError(f'another process is building or changing the memory in {directory}')
        yield


def _finished(directory, record):
    """The digests of a shard whose files are all there and whole; None if it has to be made."""
    if not record.exists():
        return None
    digests = json.loads(record.read_text(encoding='utf-8'))
    whole = all((directory / name).is_file() and storage.digest(directory / name) == stated for name, stated in digests.items())
    return digests if whole else None


def _write_provenance(directory, name, columns):
    table = pa.table([columns[key] for key in format.PROVENANCE.names], schema=format.PROVENANCE)
    tables.write_table(directory / name, table.to_batches(), format.PROVENANCE)
    return {name: storage.digest(directory / name)}
