"""The tables of a prepared folder: schemas, and Parquet files written atomically and checked."""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opql_jax.core import files, manifest
from opql_jax.core.arrays import most_bytes
from opql_jax.core.errors import InputError


class SharedSettings(msgspec.Struct):
    """The settings of `prepare` that a folder, and those that continue it, must share."""

    tokenizer: str | None
    wordpieces: int
    max_tokens: int
    title_prefix: bool
    nested: bool


class Settings(SharedSettings):
    """All settings of `prepare`; `readers.identity` adds the options of the reader."""

    drop_above_rate: float
    reader: str
    files: dict[str, str]


class Counts(msgspec.Struct, forbid_unknown_fields=True):
    """The counts of a prepared folder."""

    documents: int
    documents_without_mentions: int
    passages: int
    mentions: int
    entities: int
    entities_mentioned: int
    pair_rows: int
    title_pair_rows: int
    pairs: int


class Extended(msgspec.Struct, forbid_unknown_fields=True):
    """A folder that another one continues: its hash, and how many entities and passages it has."""

    prepared: str
    entities: int
    passages: int


class PreparedManifest(manifest.Manifest, forbid_unknown_fields=True, kw_only=True):
    """The manifest of a prepared folder."""

    settings: dict[str, Any]  # `Settings`, and the reader's options
    dropped_entities: dict[str, float]  # {key: share of documents} of those too frequent to link
    counts: Counts
    extends: list[Extended] = []  # the folders that this one continues, oldest first

    def __post_init__(self):
        # Reports missing fields and wrong types.
        msgspec.convert(self.settings, Settings)

    @property
    def shared_settings(self) -> SharedSettings:
        return msgspec.convert(self.settings, SharedSettings)


class PreparedPlan(manifest.Header, forbid_unknown_fields=True, kw_only=True):
    """Kept while a prepared folder is unfinished; `splits` are its own question sets."""

    settings: dict[str, Any]
    splits: list[str] = []

    def listed(self) -> list[str]:
        """The names of the files that are written, but for those of `PARTS`."""
        others = [name for name in CONTENTS if name != QUESTIONS]
        return [*others, *(f'questions/{split}.jsonl' for split in self.splits)]


PREPARED = manifest.FolderFormat(
    'opql-prepared', 1, 'a prepared folder', 'prepare', PreparedManifest
)
PLAN = manifest.FolderFormat(
    'opql-prepared', 1, 'an unfinished prepared folder', 'prepare', PreparedPlan, 'plan.json'
)
QUESTIONS = 'questions/*-hop/*.jsonl'
# The folder in which a run keeps what it made until all is done.
PARTS = 'parts'
# The documents of plain text as they were read, of which its next version is made.
DOCUMENTS_FILE = 'documents.parquet'
# The files of a prepared folder; others in it are left alone.
CONTENTS = (
    DOCUMENTS_FILE, 'entities.parquet', 'passages.parquet', 'pairs.parquet',
    'passages.array_record', QUESTIONS, 'tokenizer.json', 'rejected.jsonl',
)  # fmt: skip

# Maximum bytes of a number or of the offset of a string, and rows decoded at a time.
_WIDTH, _ROWS = 8, 1 << 16

MENTION = pa.struct([('start', pa.int32()), ('end', pa.int32()), ('entity', pa.int32())])

DOCUMENTS = pa.schema([(name, pa.string()) for name in ('id', 'title', 'text', 'title_entity')])

ENTITIES = pa.schema(
    [
        ('key', pa.string()),
        ('name', pa.string()),
        ('aliases', pa.list_(pa.string())),
        ('count', pa.int32()),
        ('kind', pa.string()),  # not there in folders of text that carries links
    ]
)

PASSAGES = pa.schema(
    [
        ('doc_id', pa.string()), ('title', pa.string()), ('title_entity', pa.int32()),
        ('text', pa.string()), ('sentence_starts', pa.list_(pa.int32())),
        ('mentions', pa.list_(MENTION)),
    ]
)  # fmt: skip

_IDS = ('topic', 'target', 'passage', 'topic_mention', 'target_mention')
PAIRS = pa.schema([*((name, pa.int32()) for name in _IDS), ('is_title', pa.bool_())])


def write_table(
    path: str | os.PathLike, batches: Iterable[pa.RecordBatch], schema: pa.Schema
) -> int:
    """Writes record batches as a Parquet file, whole or not at all; returns the number of rows."""
    rows = 0
    # 40 % smaller than with the defaults, and read as fast; levels up to 9 still write fast.
    how: Any = {'compression': 'zstd', 'compression_level': 9, 'use_dictionary': False}
    with files.atomic_path(path) as partial, pq.ParquetWriter(partial, schema, **how) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def read_table(
    path: str | os.PathLike,
    schema: pa.Schema,
    advice: str = PREPARED.advice,
    optional: Collection[str] = (),
    nullable: Collection[str] = (),
    rows: int | None = None,
) -> pa.Table:
    """Reads a Parquet file of exactly the columns of `schema`, but for missing `optional` ones.

    No cell of other than `nullable` columns may be null, nor anything nested in one; `rows` is how
    many the manifest says, if it does. InputError, which ends with `advice`: missing, truncated or
    no Parquet, another number of rows or more bytes than `most_bytes` of its length, or columns
    that are missing or do not fit their types.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f'{path}: no such file; {advice}')
    problem = lambda what: InputError(f'{path}: {what}; {advice}')
    try:
        metadata = pq.read_metadata(path)
        if rows not in (None, metadata.num_rows):
            raise problem(f'{metadata.num_rows} rows, the manifest says {rows}')
        found = metadata.schema.to_arrow_schema()
        present = [f for f in schema if f.name in found.names or f.name not in optional]
        for field in present:
            is_there = found.get_field_index(field.name) >= 0
            if not is_there or not _is_like(found.field(field.name).type, field.type):
                raise problem(f'not a table of {", ".join(schema.names)}: no such {field.name}')
        table = _decoded(path, metadata, present)
        if table is None:
            raise problem(f'would decode to more than {most_bytes(path.stat().st_size)} bytes')
        table.validate(full=True)  # also that text is UTF-8
    except (pa.ArrowException, OSError) as error:
        expected = f'a table of {", ".join(schema.names)}'
        raise problem(f'truncated, or not {expected} ({error})') from error
    for name in table.column_names:
        if name not in nullable and any(map(_has_null, table[name].chunks)):
            raise problem(f'a cell of {name} has no value')
    return table


def numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A column of integers, without nulls (`to_numpy` would import pandas, for 0.25 s)."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.from_dlpack(column)


def _decoded(path: Path, metadata: pq.FileMetaData, fields: Sequence[pa.Field]) -> pa.Table | None:
    """A file's table of those fields; None if it would be larger than such a file can hold."""
    names, limit = [field.name for field in fields], most_bytes(path.stat().st_size)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(metadata.num_columns)]
    chunks = [chunk for chunk in chunks if chunk.path_in_schema.split('.')[0] in names]
    stated = (max(chunk.total_uncompressed_size, chunk.num_values * _WIDTH) for chunk in chunks)
    if sum(stated) > limit:
        return None
    # A repeated string is stored once. In lists it is read as a number, and elsewhere few rows are
    # decoded at a time, so that even the longest string in each stays within the limit.
    strings = [chunk for chunk in chunks if chunk.physical_type == 'BYTE_ARRAY']
    longest = max((chunk.total_uncompressed_size for chunk in strings), default=1)
    in_lists = {chunk.path_in_schema for chunk in strings if '.' in chunk.path_in_schema}
    batches, size = [], 0
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=list(in_lists)) as file:
        for batch in file.iter_batches(min(max(limit // max(longest, 1), 1), _ROWS), columns=names):
            size += sum(map(_decoded_size, batch.columns))
            if size > limit:
                return None
            batches.append(batch.select(names).cast(pa.schema(fields)))
    table = pa.Table.from_batches(batches, pa.schema(fields))
    return table.combine_chunks() if len(batches) > 1 else table


def _decoded_size(array: pa.Array) -> int:
    """The bytes of an array in which a value that is repeated is stored as often."""
    if isinstance(array, pa.DictionaryArray):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return 4 * len(array) + (pc.sum(lengths).as_py() or 0)
    if isinstance(array, pa.ListArray | pa.LargeListArray):
        return 8 * len(array) + _decoded_size(array.flatten())
    return array.nbytes


def _is_like(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether a type is nested in the same way, with strings in the same places."""
    if pa.types.is_list(expected):
        is_list = pa.types.is_list(found) or pa.types.is_large_list(found)
        return is_list and _is_like(found.value_type, expected.value_type)
    if pa.types.is_struct(expected):
        inner = lambda type: {field.name: field.type for field in type}
        if not pa.types.is_struct(found) or inner(found).keys() != inner(expected).keys():
            return False
        return all(_is_like(inner(found)[name], type) for name, type in inner(expected).items())
    if pa.types.is_dictionary(found):
        found = found.value_type
    is_string = pa.types.is_string(found) or pa.types.is_large_string(found)
    return not pa.types.is_nested(found) and is_string == pa.types.is_string(expected)


def _has_null(array: pa.Array) -> bool:
    """Whether a cell, or anything nested in one, is null."""
    if array.null_count:
        return True
    if isinstance(array, pa.ListArray):
        return _has_null(array.flatten())
    return isinstance(array, pa.StructArray) and any(map(_has_null, array.flatten()))


def check_ids(
    path: str | os.PathLike,
    name: str,
    ids: np.ndarray,
    below: int | np.ndarray,
    least: int = 0,
    advice: str = PREPARED.advice,
) -> None:
    """Raises InputError naming the first id outside of `least` .. `below - 1` (also [n])."""
    bad = np.flatnonzero((ids < least) | (ids >= below))
    if len(bad):
        row, most = bad[0], np.broadcast_to(below, ids.shape)[bad[0]]
        raise InputError(f'{path}: row {row}: {name} {ids[row]} of {most}; {advice}')


def mention_array(mentions: Sequence[Sequence[tuple[int, int, int]]]) -> pa.ListArray:
    """Lists of `(start, end, entity)` as an Arrow column of lists of `MENTION`."""
    flat = np.array([m for row in mentions for m in row], np.int32).reshape(-1, 3)
    offsets = np.cumsum([0] + [len(row) for row in mentions], dtype=np.int32)
    columns = [pa.array(flat[:, i].copy()) for i in range(3)]
    items = pa.StructArray.from_arrays(columns, fields=list(MENTION))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def write_manifest(directory: str | os.PathLike, fields: dict) -> PreparedManifest:
    """Writes the manifest of an otherwise complete prepared folder; returns what it holds."""
    directory = Path(directory)
    names = [n for n in files.names_below(directory, depth=2) if files.matches(n, CONTENTS)]
    digests = {name: files.digest(files.below(directory, name)) for name in names}
    return manifest.write_manifest(directory, PREPARED, fields, digests)
