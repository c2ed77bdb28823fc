"""The tables of a prepared folder: their schemas, and Parquet files that are written atomically and checked when read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core import files, manifest
from opql_jax.core.errors import InputError


class SharedSettings(msgspec.Struct):
    """The settings of `prepare` that all text of a folder, and of folders that continue it, must share."""

    tokenizer: str | None
    wordpieces: int
    max_tokens: int
    title_prefix: bool
    pair_mode: Literal['all', 'title']
    nested: bool


class Settings(SharedSettings):
    """All settings of `prepare`; `readers.identity` adds the options of the reader."""

    drop_above_rate: float
    reader: str
    files: dict[str, str]


class Counts(msgspec.Struct, forbid_unknown_fields=True):
    """How much of what there is in a prepared folder."""

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
    """The manifest of a prepared folder.

    Attributes:
        settings: `Settings`, and the options of the reader.
        dropped_entities: `{key: share of documents}` of those that are mentioned too often to be linked.
        counts: of the tables.
        extends: the folders that this one continues, oldest first.
    """

    settings: dict[str, Any]
    dropped_entities: dict[str, float]
    counts: Counts
    extends: list[Extended] = []

    def __post_init__(self):
        msgspec.convert(self.settings, Settings)  # so that a field that is missing or of another type is reported

    @property
    def shared_settings(self) -> SharedSettings:
        return msgspec.convert(self.settings, SharedSettings)


class PreparedPlan(manifest.Header, forbid_unknown_fields=True, kw_only=True):
    """What is noted of a prepared folder as long as it is unfinished.

    Attributes:
        settings: as in `PreparedManifest`.
        splits: the question sets that are written, so that a killed run's are told from a user's.
    """

    settings: dict[str, Any]
    splits: list[str] = []

    def listed(self) -> list[str]:
        """The names of the files that are written, but for those of `PARTS`."""
        return [*(name for name in CONTENTS if name != QUESTIONS), *(f'questions/{split}.jsonl' for split in self.splits)]


PREPARED = manifest.FolderFormat('opql-prepared', 1, 'a prepared folder', 'prepare', PreparedManifest)
PLAN = manifest.FolderFormat('opql-prepared', 1, 'an unfinished prepared folder', 'prepare', PreparedPlan, 'plan.json')
QUESTIONS = 'questions/*-hop/*.jsonl'
# The folder in which a run keeps what it made until all is done.
PARTS = 'parts'
# The documents of plain text as they were read, of which its next version is made.
DOCUMENTS_FILE = 'documents.parquet'
# The files of a prepared folder; others in it are left alone.
CONTENTS = (
    DOCUMENTS_FILE,
    'entities.parquet',
    'passages.parquet',
    'pairs.parquet',
    'passages.array_record',
    QUESTIONS,
    'tokenizer.json',
    'rejected.jsonl',
)

MENTION = pa.struct([('start', pa.int32()), ('end', pa.int32()), ('entity', pa.int32())])

DOCUMENTS = pa.schema([('id', pa.string()), ('title', pa.string()), ('text', pa.string()), ('title_entity', pa.string())])

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
        ('doc_id', pa.string()),
        ('title', pa.string()),
        ('title_entity', pa.int32()),
        ('text', pa.string()),
        ('sentence_starts', pa.list_(pa.int32())),
        ('mentions', pa.list_(MENTION)),
    ]
)

PAIRS = pa.schema(
    [
        ('topic', pa.int32()),
        ('target', pa.int32()),
        ('passage', pa.int32()),
        ('topic_mention', pa.int32()),
        ('target_mention', pa.int32()),
        ('is_title', pa.bool_()),
    ]
)


def write_table(path: str | os.PathLike, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Writes record batches as a Parquet file, which appears when it is whole; returns the number of rows."""
    rows = 0
    with files.atomic_path(path) as partial, pq.ParquetWriter(partial, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def read_table(
    path: str | os.PathLike, schema: pa.Schema, advice: str = PREPARED.advice, optional: Collection[str] = ()
) -> pa.Table:
    """Reads a Parquet file: exactly the columns of `schema`, but for the `optional` ones that it lacks.

    Raises:
        InputError: the file is missing, truncated or no Parquet, or a column is missing or its values do not fit its type; the
            message ends with `advice`.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f'{path}: no such file; {advice}')
    try:
        with pq.ParquetFile(path) as file:  # `pq.read_table` imports pyarrow.dataset, and pandas where that is installed
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f'{path}: truncated or not a Parquet file ({error}); {advice}') from error
    try:
        present = [field for field in schema if field.name in table.column_names or field.name not in optional]
        return table.select([field.name for field in present]).cast(pa.schema(present))
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f'{path}: not a table of {", ".join(schema.names)} ({error}); {advice}') from error


def mention_array(mentions: Sequence[Sequence[tuple[int, int, int]]]) -> pa.ListArray:
    """Lists of `(start, end, entity)` as an Arrow column of lists of `MENTION`."""
    flat = np.array([m for row in mentions for m in row], np.int32).reshape(-1, 3)
    offsets = np.cumsum([0] + [len(row) for row in mentions], dtype=np.int32)
    items = pa.StructArray.from_arrays([pa.array(flat[:, i].copy()) for i in range(3)], fields=list(MENTION))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def write_manifest(directory: str | os.PathLike, fields: dict) -> PreparedManifest:
    """Writes the manifest of a prepared folder that is complete but for it; returns what it holds.

    Args:
        directory: the folder, on disk.
        fields: of `PreparedManifest`, but for the files.
    """
    directory = Path(directory)
    names = [name for name in files.names_below(directory, depth=2) if files.matches(name, CONTENTS)]
    digests = {name: files.digest(files.below(directory, name)) for name in names}
    return manifest.write_manifest(directory, PREPARED, fields, digests)
