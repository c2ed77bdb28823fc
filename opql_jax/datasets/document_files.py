"""Reads files of many documents: JSON Lines, Parquet tables and MediaWiki dumps."""

import collections
import logging
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core.errors import InputError
from opql_jax.corpus.rejected import convert_lines, convert_records
from opql_jax.datasets.expansion import Expansion
from opql_jax.datasets.wikipedia import dump
from opql_jax.datasets.wikipedia.reader import Wikipedia

_log = logging.getLogger(__name__)

# Rows of a Parquet file held in memory at a time.
BATCH_ROWS = 256
# Bytes counted per row on top of its text, see `Expansion`.
_ROW_BYTES = 64
# Disambiguation pages are not articles.
_SKIPPED = dump.SkipPatterns(titles='* (disambiguation)', templates=Wikipedia.skip_templates)

T = TypeVar('T')
# A record's place, and the record, or an error if it cannot be read.
Records = Iterator[tuple[str, object]]


def is_document_file(path: pathlib.Path) -> bool:
    """Whether a file is one of many documents: by its name, and XML also by its beginning."""
    return path.suffix.lower() in ('.jsonl', '.parquet') or dump.is_part(path)


def read_document_file(
    path: pathlib.Path,
    convert: Callable[[object], T],
    rejected_path: str | os.PathLike,
    max_reject_fraction: float,
) -> list[tuple[str, T]]:
    """A file's documents with their places, such as 'a.jsonl, line 3'; InputError if unreadable."""
    suffix = path.suffix.lower()
    if suffix == '.jsonl':
        with_place = lambda number, record: (f'{path.name}, line {number}', convert(record))
        return convert_lines(path, with_place, rejected_path, max_reject_fraction)
    records, unit = (_rows(path), 'rows') if suffix == '.parquet' else (_articles(path), 'articles')
    at_place = ((f'{path.name}, {place}', record) for place, record in records)
    each = lambda _, record: convert(record)
    return convert_records(path, at_place, each, unit, rejected_path, max_reject_fraction)


def _rows(path: pathlib.Path) -> Records:
    """The rows of a Parquet file, by their numbers from 1."""
    number = 0
    try:
        expansion = Expansion(path)
        metadata = pq.read_metadata(path)
        found = metadata.schema.to_arrow_schema().names
        if any(found.count(name) != 1 for name in ('id', 'text')):
            listed = ', '.join(found) or 'none'
            raise InputError(f'{path}: expected columns id, text and title?, found {listed}')
        columns = [name for name in ('id', 'title', 'text') if found.count(name) == 1]
        leaves = {metadata.schema.column(i).path for i in range(metadata.num_columns)}
        stated = Expansion(path)  # too much is refused before anything is read
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema.split('.')[0] in columns:
                    stated.add(column.total_uncompressed_size)
        # Rows that share a text share one copy of it.
        shared = [name for name in columns if name in leaves]
        with pq.ParquetFile(path, read_dictionary=shared) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                for i in range(len(batch)):
                    number += 1
                    row = _row(batch, i)
                    values = row.values() if isinstance(row, dict) else ()
                    texts = (value for value in values if isinstance(value, str))
                    expansion.add(_ROW_BYTES + sum(map(len, texts)))
                    yield f'row {number}', row
    except (pa.ArrowException, OSError) as error:
        raise InputError(f'{path}: no Parquet after row {number} ({error})') from error


def _row(batch: pa.RecordBatch, i: int) -> object:
    try:
        return {name: batch[name][i].as_py() for name in batch.schema.names}
    except UnicodeDecodeError as error:  # Parquet does not check what it calls a string
        return InputError(f'not UTF-8 ({error})')


def _articles(path: pathlib.Path) -> Records:
    """The articles of a part of a dump, by their titles; says at the end what it left out."""
    kinds: collections.Counter[str] = collections.Counter()
    for id, title, kind, _, reason, text, _ in dump.rows(dump.pages(path), _SKIPPED):
        if kind == 'article' and not text.strip():
            kind = 'empty'
        kinds[kind] += 1
        if kind == 'article':
            yield f'page {title!r}', {'id': id, 'title': title, 'text': text}
        elif kind == 'rejected':
            yield f'page {title!r}', InputError(reason)
    _log.info(
        '%s: %d articles; left out are %d without text, %d redirects and %d disambiguation pages',
        *(path, kinds['article'], kinds['empty'], kinds['redirect'], kinds['skipped']),
    )
