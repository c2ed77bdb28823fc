"""Text, JSON and JSON Lines files and the fields of their records, read with errors that name the file, the line and the field."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opql_jax.core import files
from opql_jax.corpus.documents import CorpusError


def read_json(path: str | os.PathLike) -> Any:
    """The value of a JSON file; CorpusError when it cannot be read."""
    try:
        return json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise CorpusError(f'{path}: cannot be read as JSON ({error})') from error


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yields the number, from 1, and the text of each line of a file, blank ones too, without line breaks.

    Raises:
        CorpusError: the file cannot be read, or a line is not UTF-8.
    """
    try:
        source = files.path(path).open('rb')
    except OSError as error:
        raise CorpusError(f'{path}: cannot be read ({error.strerror or error})') from error
    with source:
        # Lines are split as bytes: text mode would also split at characters such as U+2028.
        for number, line in enumerate(source, 1):
            try:
                yield number, line.decode('utf-8').rstrip('\r\n')
            except UnicodeDecodeError as error:
                raise CorpusError(f'{path}:{number}: not UTF-8 ({error})') from error


def read_json_lines(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """Yields the line number, from 1, and the JSON value of each line that is not blank.

    Raises:
        CorpusError: the file cannot be read, or a line is not JSON in UTF-8.
    """
    for number, line in read_lines(path):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise CorpusError(f'{path}:{number}: not a JSON value ({error})') from error


def map_records(
    path: str | os.PathLike, records: Iterable[tuple[int, object]], convert: Callable[[dict], object], separator: str = ':'
) -> Iterator[tuple[int, Any]]:
    """Yields the number of each record and `convert(record)`; a CorpusError names path and number, with `separator` between.

    Raises:
        CorpusError: a record is no JSON object, or `convert` raised one.
    """
    for number, record in records:
        try:
            if not isinstance(record, dict):
                raise CorpusError(f'expected an object, found {record!r}')
            converted = convert(record)
        except CorpusError as error:
            raise CorpusError(f'{path}{separator}{number}: {error}') from error
        yield number, converted


def string_field(record: dict, field: str, default: str | None = None, prefix: str = '') -> str:
    """A string field; `default` where it is missing or null. Without a default it must not be blank.

    `prefix` stands before the field in errors, such as 'answers[0].'.
    """
    value = record.get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise CorpusError(f'{prefix}{field}: expected a string, found {value!r}')
    return value


def string_list_field(record: dict, field: str, prefix: str = '') -> list[str]:
    """A field that is a list of strings, empty where it is missing or null; blank strings are left out."""
    values = record.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CorpusError(f'{prefix}{field}: expected a list of strings, found {values!r}')
    return [value for value in values if value.strip()]


def object_list_field(record: dict, field: str, prefix: str = '') -> list[tuple[str, dict]]:
    """A field that is a list of objects, each with the prefix of its own fields in errors."""
    values = record.get(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise CorpusError(f'{prefix}{field}: expected a list of objects, found {values!r}')
    return [(f'{prefix}{field}[{i}].', value) for i, value in enumerate(values)]
