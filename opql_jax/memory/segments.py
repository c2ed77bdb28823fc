"""Writes the segments of a memory shard by shard, each file whole or not there.

What `memory/build.py` and `memory/update.py` share. Nothing written here is part of a memory until a manifest names it. Each
finished shard leaves `shard-00000.json` with the digests of its files, by which a repetition knows that it need not be made.
"""

import dataclasses
import io
import pathlib
from collections.abc import Callable

import msgspec
import numpy as np
import pyarrow as pa

from opql_jax.core import files
from opql_jax.corpus import tables
from opql_jax.memory import format
from opql_jax.memory.manifest import SegmentInfo

_COLUMNS = ('topic', 'target', 'ids')
_NUMBER = '[0-9]' * 5
_RECORDS = f'shard-{_NUMBER}*.json'


@dataclasses.dataclass(frozen=True)
class Segment:
    """What a segment will hold, besides the relations and the provenance, which are made shard by shard.

    Attributes:
        name: the name of its folder in the memory.
        topic, target: [n] int32, topic rising.
        ids: [n] int64, entry ids.
        num_entities: size of the entity vocabulary.
        shard_rows: entries per shard.
    """

    name: str
    topic: np.ndarray
    target: np.ndarray
    ids: np.ndarray
    num_entities: int
    shard_rows: int


def write(
    directory: pathlib.Path,
    segment: Segment,
    make_shard: Callable[[int, int], tuple[np.ndarray, dict[str, np.ndarray]]],
    part: tuple[int, int] | None = None,
    on_written: Callable[[int, int], None] | None = None,
) -> tuple[SegmentInfo, dict[str, files.Digest]]:
    """Writes a segment, taking over the shards that an earlier run of the same finished.

    Args:
        directory: of the memory.
        segment: what to write.
        make_shard: (start, stop) -> relations [stop - start, d_r] of those rows in the stored dtype, and the columns of
            `format.PROVENANCE`.
        part: (i, n) writes shards i, i + n, i + 2 n and so on, and nothing else, for another call to take over; None for all.
        on_written: called with (start, stop) after each shard that was not there already.

    Returns:
        (the segment as the manifest lists it, {file: digest}).
    """
    digests = {}
    if part is None:
        for column in _COLUMNS:
            digests |= write_array(directory, f'{segment.name}/{column}.npy', getattr(segment, column))
    for number, start, stop in format.shards_of(len(segment.topic), segment.shard_rows):
        if part is not None and number % part[1] != part[0]:
            continue
        record = directory / segment.name / f'shard-{number:05d}.json'
        relations_file, provenance_file = format.shard_files(segment.name, number)
        shard = _finished_shard(directory, record)
        if shard is None or shard.keys() != {relations_file, provenance_file}:
            relations, provenance = make_shard(start, stop)
            shard = write_array(directory, relations_file, relations)
            shard |= _write_provenance(directory, provenance_file, provenance)
            write_json(record, shard)
            if on_written is not None:
                on_written(start, stop)
        digests |= shard
    return SegmentInfo(segment.name, len(segment.topic), segment.num_entities), digests


def remove(folder: pathlib.Path) -> None:
    """Removes the folder of a segment, finished or not; files in it that are none of a segment stay, and so does the folder."""
    columns = (f'{column}.npy' for column in _COLUMNS)
    files.remove_own(folder, *columns, f'relations-{_NUMBER}*.npy', f'provenance-{_NUMBER}*.parquet', _RECORDS)


def remove_records(folder: pathlib.Path) -> None:
    """Removes from the folder of a finished segment what only its repetition would need."""
    for record in folder.glob(_RECORDS):
        record.unlink()


def write_array(directory: pathlib.Path, name: str, array: np.ndarray) -> dict[str, files.Digest]:
    """Writes a .npy file; returns its digest under its name."""
    stored = array.view(np.uint16) if array.dtype == format.DTYPES['bfloat16'] else array
    # numpy writes to a file by a handle of its own, and on a full disk loses the error of its last write.
    buffer = io.BytesIO()
    np.save(buffer, stored, allow_pickle=False)
    with files.atomic_path(directory / name) as partial:
        partial.write_bytes(buffer.getbuffer())
    return {name: files.digest(directory / name)}


def write_json(path: pathlib.Path, value) -> None:
    """Writes JSON, atomically."""
    with files.atomic_path(path) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(value, order='sorted'), indent=1) + b'\n')


def _finished_shard(directory, record):
    """The digests of a shard whose files are all there and whole; None if it has to be made."""
    if not record.exists():
        return None
    try:
        digests = msgspec.json.decode(record.read_bytes(), type=dict[str, files.Digest])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = all((directory / name).is_file() and files.digest(directory / name) == digest for name, digest in digests.items())
    return digests if whole else None


def _write_provenance(directory, name, columns):
    table = pa.table([columns[key] for key in format.PROVENANCE.names], schema=format.PROVENANCE)
    tables.write_table(directory / name, table.to_batches(), format.PROVENANCE)
    return {name: files.digest(directory / name)}
