"""Text, JSON and JSON Lines, and fields of their records; errors name file, line and field."""

import codecs
import contextlib
import json
import numbers
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from opql_jax.core import files
from opql_jax.core.errors import InputError

_MIB = 1 << 20
MAX_LINE = 64 * _MIB  # bytes; books have less
_OTHER_ENCODINGS = {
    # Before UTF-16, whose mark it begins with.
    'UTF-32': (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    'UTF-16': (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100


def short_repr(value: object) -> str:
    """The `repr` of a value for messages, shortened: a bad value may be long or deeply nested."""
    return _short.repr(value)


@contextlib.contextmanager
def errors_at(place: object) -> Iterator[None]:
    """Lets an InputError say where it arose, such as 'file:line'."""
    try:
        yield
    except InputError as error:
        raise InputError(f'{place}: {error}') from error


def byte_lines(path: str | os.PathLike) -> Iterator[tuple[int, bytes]]:
    """Yields number, from 1, and bytes of each line, for `decode`, without UTF-8's mark.

    Lines end at line feeds only, not at U+2028. Too long ones are kept cut off. InputError: the
    file is unreadable, or UTF-16 or UTF-32.
    """
    try:
        source = files.path(path).open('rb')
    except OSError as error:
        raise InputError(f'{path}: cannot be read ({error.strerror or error})') from error
    with source:
        number, read = 0, lambda: source.readline(MAX_LINE + 1)
        while line := read():
            number += 1
            rest = line
            while len(rest) > MAX_LINE and not rest.endswith(b'\n'):
                rest = read()
            yield number, _without_mark(path, line) if number == 1 else line


def _without_mark(path: str | os.PathLike, start: bytes) -> bytes:
    """A file's first bytes without UTF-8's mark; InputError if they begin UTF-16 or UTF-32."""
    for encoding, marks in _OTHER_ENCODINGS.items():
        if start.startswith(marks):
            raise InputError(f'{path}: this is {encoding}: use iconv -f {encoding} -t UTF-8')
    return start.removeprefix(codecs.BOM_UTF8)


def decode(line: bytes) -> str:
    """A line's text without its line break; InputError if not UTF-8 or longer than MAX_LINE."""
    if len(line) > MAX_LINE:
        raise InputError(f'the line is longer than {MAX_LINE // _MIB} MiB')
    try:
        return line.decode('utf-8').rstrip('\r\n')
    except UnicodeDecodeError as error:
        raise InputError(f'not UTF-8 ({error}): convert the file') from error


def parse(text: str) -> Any:
    """The value of a JSON text; InputError when it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f'not a JSON value ({error})') from error
    except RecursionError as error:
        raise InputError('not a JSON value that can be read (nested too deeply)') from error


def read_json(path: str | os.PathLike) -> Any:
    """The value of a JSON file; InputError when it cannot be read."""
    text = read_text(path)
    with errors_at(path):
        return parse(text)


def write_json(path: str | os.PathLike, value: Any) -> None:
    """Writes a JSON file, whole or not at all; NaN, which other programs reject, is refused."""
    with files.atomic_path(path) as partial:
        partial.write_text(json.dumps(value, indent=2, allow_nan=False) + '\n', encoding='utf-8')


def read_text(path: str | os.PathLike) -> str:
    """The text of a file; InputError when it cannot be read, or is not UTF-8."""
    try:
        return _without_mark(path, files.path(path).read_bytes()).decode('utf-8')
    except OSError as error:
        raise InputError(f'{path}: cannot be read ({error.strerror or error})') from error
    except UnicodeDecodeError as error:
        raise InputError(f'{path}: not UTF-8 ({error}): convert the file') from error


def read_lines(path: str | os.PathLike) -> Iterator[tuple[int, str]]:
    """Yields number, from 1, and text of each line; InputError names file and line."""
    for number, line in byte_lines(path):
        with errors_at(f'{path}:{number}'):
            text = decode(line)
        yield number, text


def read_json_lines(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """Yields number and value of each line that is not blank; InputError names file and line."""
    for number, line in read_lines(path):
        if line.strip():
            with errors_at(f'{path}:{number}'):
                value = parse(line)
            yield number, value


def write_json_lines(path: str | os.PathLike, records: Iterable[Mapping]) -> None:
    """Writes JSON Lines, which `read_json_lines` reads; the file appears whole or not at all."""
    with (
        files.atomic_path(path) as partial,
        open(partial, 'w', encoding='utf-8', newline='\n') as file,
    ):
        file.writelines(json.dumps(r, ensure_ascii=False, allow_nan=False) + '\n' for r in records)


def map_records(
    path: str | os.PathLike,
    records: Iterable[tuple[int, Any]],
    convert: Callable[[dict], object],
    separator: str = ':',
) -> Iterator[tuple[int, Any]]:
    """Yields number and `convert(record)` of JSON objects; an InputError begins with its place."""
    for number, record in records:
        with errors_at(f'{path}{separator}{number}'):
            check_object(record)
            converted = convert(record)
        yield number, converted


def check_object(value: Any, *fields: str) -> None:
    """Raises InputError unless a value is a JSON object that has some fields."""
    if not isinstance(value, dict):
        raise InputError(f'expected a JSON object, found {short_repr(value)}')
    if missing := [field for field in fields if field not in value]:
        raise InputError(f'{missing[0]}: missing')


def check_string(field: str, value: object) -> None:
    """Raises InputError unless a value is a string, not blank, without NUL, and valid UTF-8."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f'{field}: expected a string that is not blank, found {short_repr(value)}')
    if (at := value.find('\0')) >= 0:
        raise InputError(f'{field}: code point {at} is NUL, as in binary data')
    try:
        value.encode('utf-8')
    except UnicodeEncodeError as error:
        raise InputError(f'{field}: code point {error.start} is half a surrogate pair') from error


def id_of(record: dict) -> str:
    """The `id` of a record, which may be a number; InputError if it is no string that names it."""
    name = str(record['id']) if type(record['id']) is int else record['id']
    check_string('id', name)
    return name


def check_count(field: str, value: object) -> int:
    """A number of at least 1, else InputError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InputError(f'{field}: expected a number of at least 1, found {short_repr(value)}')
    return int(value)


def string_field(record: dict, field: str, default: str | None = None, prefix: str = '') -> str:
    """A string; `default` if missing or null, without one not blank. Errors begin with `prefix`."""
    value = record.get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise InputError(f'{prefix}{field}: expected a string, found {short_repr(value)}')
    return value


def string_list_field(record: dict, field: str, prefix: str = '') -> list[str]:
    """A field that is a list of strings; empty where missing or null, without blank strings."""
    values = record.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise InputError(f'{prefix}{field}: expected a list of strings, found {short_repr(values)}')
    return [value for value in values if value.strip()]


def object_field(record: dict, field: str, prefix: str = '') -> dict:
    """A field that is an object."""
    value = record.get(field)
    if not isinstance(value, dict):
        raise InputError(f'{prefix}{field}: expected an object, found {short_repr(value)}')
    return value


def object_list_field(record: dict, field: str, prefix: str = '') -> list[tuple[str, dict]]:
    """A field that is a list of objects, each with the prefix of its own fields in errors."""
    values = record.get(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError(f'{prefix}{field}: expected a list of objects, found {short_repr(values)}')
    return [(f'{prefix}{field}[{i}].', value) for i, value in enumerate(values)]
