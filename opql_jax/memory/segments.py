"""Writes the segments of a memory shard by shard, each file whole or not there.

Nothing written here is part of a memory until a manifest names it. Each finished shard leaves
`shard-00000.json` with the digests of its files, so that a repetition does not make it again.
"""

import dataclasses
import io
import pathlib
from collections.abc import Callable

import msgspec
import numpy as np
import pyarrow as pa

from opql_jax.core import files
from opql_jax.core.arrays import narrowed
from opql_jax.corpus import tables
from opql_jax.memory import format
from opql_jax.memory.manifest import SegmentInfo
from opql_jax.memory.relations import Halves

_COLUMNS = ('topic', 'target', 'ids')
_NUMBER = '[0-9]' * 5
_RECORDS = f'shard-{_NUMBER}*.json', f'halves-{_NUMBER}*.json'
# The names of the files in the folder of a segment, finished or not, as patterns.
_FILES = (
    *(f'{column}.npy' for column in (*_COLUMNS, 'mentions')),
    f'relations-{_NUMBER}*.npy',
    f'halves-{_NUMBER}*.npy',
    f'provenance-{_NUMBER}*.parquet',
    *_RECORDS,
)


@dataclasses.dataclass(frozen=True)
class Segment:
    """What a segment will hold, rows rising by topic; the rest is made shard by shard."""

    name: str  # of its folder in the memory
    topic: np.ndarray
    target: np.ndarray
    ids: np.ndarray
    num_entities: int
    shard_rows: int  # entries per shard, and mentions
    halves: Halves | None = None  # sums of which relations are; None: made with the provenance


def write(
    directory: pathlib.Path,
    segment: Segment,
    make_shard: Callable[[int, int], tuple[np.ndarray | None, dict[str, np.ndarray]]],
    part: tuple[int, int] | None = None,
) -> tuple[SegmentInfo, dict[str, files.Digest]]:
    """Writes a segment, taking over the shards that an earlier run of the same finished.

    `make_shard(start, stop)` gives relations [stop - start, d_r] of those rows in the stored dtype,
    None where halves are stored, and the columns of `format.PROVENANCE`. With a `part` (i, n) only
    shards i, i + n, i + 2 n and so on are written, for another call to take over. Returns (the
    segment as the manifest lists it, {file: digest}).
    """
    digests, num_mentions, schema = {}, 0, format.PROVENANCE
    columns = {column: getattr(segment, column) for column in _COLUMNS}
    if segment.halves is not None:
        # Only mentions of these entries, in their order: a merge leaves out those of deleted ones.
        is_used = np.zeros(segment.halves.mentions.max() + 1, bool)
        is_used[segment.halves.mentions] = True
        mentions = np.flatnonzero(is_used)
        num_mentions = len(mentions)
        columns['mentions'] = (np.cumsum(is_used, dtype=np.int32) - 1)[segment.halves.mentions]
        for number, start, stop in _own_shards(num_mentions, segment.shard_rows, part):
            name = format.halves_file(segment.name, number)
            record = f'{segment.name}/halves-{number:05d}.json'
            shard = _finished_shard(directory, record, {name})
            if shard is None:
                shard = write_array(directory, name, segment.halves.of(mentions[start:stop]))
                write_json(directory, record, shard)
            digests |= shard
    if np.array_equal(segment.ids, np.arange(len(segment.ids))):
        del columns['ids']
    if part is None:
        for column, values in columns.items():
            digests |= write_array(directory, f'{segment.name}/{column}.npy', narrowed(values))
    for number, start, stop in _own_shards(len(segment.topic), segment.shard_rows, part):
        record = f'{segment.name}/shard-{number:05d}.json'
        relations_file, provenance_file = format.shard_files(segment.name, number)
        shard = _finished_shard(
            directory,
            record,
            {provenance_file} if segment.halves else {relations_file, provenance_file},
        )
        if shard is None:
            relations, provenance = make_shard(start, stop)
            shard = {} if relations is None else write_array(directory, relations_file, relations)
            table = pa.table([provenance[key] for key in schema.names], schema=schema)
            path = files.below(directory, provenance_file)
            tables.write_table(path, table.to_batches(), schema)
            shard[provenance_file] = files.digest(directory / provenance_file)
            write_json(directory, record, shard)
        digests |= shard
    return SegmentInfo(
        segment.name, len(segment.topic), segment.num_entities, num_mentions
    ), digests


def _own_shards(
    rows: int, shard_rows: int, part: tuple[int, int] | None
) -> list[tuple[int, int, int]]:
    """The shards of so many rows that are written, see `write`."""
    index, count = part or (0, 1)
    return [shard for shard in format.shards_of(rows, shard_rows) if shard[0] % count == index]


def names_of(directory: pathlib.Path, segment: str) -> list[str]:
    """A segment's files in a memory's folder, finished or not; InputError if that is a link."""
    names = files.names_below(directory, segment, depth=0)
    whole = lambda name: (files.whole_name(name) or name).removeprefix(f'{segment}/')
    return [name for name in names if files.matches(whole(name), _FILES)]


def remove(directory: pathlib.Path, segment: str) -> None:
    """Removes a segment's files, finished or not, and its folder if no others are in it."""
    files.remove_below(directory, names_of(directory, segment))
    files.remove_empty(directory, segment)


def remove_records(directory: pathlib.Path, segment: str) -> None:
    """Removes from the folder of a finished segment what only its repetition would need."""
    records = [f'*/{record}' for record in _RECORDS]
    files.remove_below(
        directory, [name for name in names_of(directory, segment) if files.matches(name, records)]
    )


def write_array(directory: pathlib.Path, name: str, array: np.ndarray) -> dict[str, files.Digest]:
    """Writes a .npy file; returns its digest under its name."""
    # numpy writes to a file by a handle of its own, and on a full disk loses the error of its last
    # write.
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    files.write_bytes(files.below(directory, name), buffer.getbuffer())
    return {name: files.digest(directory / name)}


def write_json(directory: pathlib.Path, name: str, value) -> None:
    """Writes JSON, atomically."""
    encoded = msgspec.json.format(msgspec.json.encode(value, order='sorted'), indent=1)
    files.write_bytes(files.below(directory, name), encoded + b'\n')


def _finished_shard(directory, record, names):
    """The digests of a shard whose files are all there and whole; None if it has to be made."""
    try:
        digests = msgspec.json.decode(
            files.read_below(directory, record), type=dict[str, files.Digest]
        )
        if digests.keys() != names:
            return None
        for name, digest in digests.items():
            with files.opened_below(directory, name) as file:
                if files.digest_of(file) != digest:
                    return None
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return digests
