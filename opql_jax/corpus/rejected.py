"""Files whose bad lines do not stop a run, but are kept with reasons in `rejected.jsonl`."""

import contextlib
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO, TypeVar

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import byte_lines, decode, parse

_log = logging.getLogger(__name__)

REASONS_SHOWN = 3
# Longest line, in characters, that rejected.jsonl repeats whole.
MAX_REPEATED = 10_000

R = TypeVar('R')
T = TypeVar('T')


def convert_lines(
    path: str | os.PathLike,
    convert: Callable[[int, object], T],
    rejected_path: str | os.PathLike | None = None,
    max_reject_fraction: float = 0.0,
) -> list[T]:
    """Converts the lines of a JSON Lines file, in order, without blank ones.

    `convert` takes the number of a line, from 1, and its JSON value. Bad lines are added to
    `rejected_path` as `{file, line, reason, record}`, a file that is there even when none is bad;
    None raises InputError for the first. More than the share `max_reject_fraction` raise
    InputError.
    """
    converted, reasons, lines = [], [], 0
    with _added_to(rejected_path) if rejected_path else contextlib.nullcontext() as rejected:
        for number, line in byte_lines(path):
            if not line.strip():
                continue
            lines += 1
            record = None
            try:
                record = parse(decode(line))
                converted.append(convert(number, record))
            except InputError as error:
                if rejected is None:
                    raise InputError(f'{path}:{number}: {error}') from error
                reasons.append(f'line {number}: {error}')
                row = {'file': pathlib.Path(path).name, 'line': number, 'reason': str(error)}
                row['record'] = _repeated(record, line)
                rejected.write(json.dumps(row) + '\n')
    check_rejected(path, reasons, 'lines', lines, max_reject_fraction, rejected_path)
    return converted


def convert_records(
    source: str | os.PathLike,
    records: Iterable[tuple[str, R | InputError]],
    convert: Callable[[str, R], T],
    unit: str,
    rejected_path: str | os.PathLike,
    max_reject_fraction: float,
) -> list[tuple[str, T]]:
    """Converts rows of a table or whole files; gives each with its place.

    `records` are places, and a record or an error if it cannot be read. Messages call them `unit`
    of a `source`; the rest is as in `convert_lines`, with rows `{file, reason}` of the places.
    """
    converted: list[tuple[str, T]] = []
    bad: list[tuple[str, str]] = []
    for place, record in records:
        try:
            if isinstance(record, InputError):
                raise record
            converted.append((place, convert(place, record)))
        except InputError as error:
            bad.append((place, str(error)))
    add_rejected(rejected_path, bad)
    reasons, total = [f'{place}: {reason}' for place, reason in bad], len(converted) + len(bad)
    check_rejected(source, reasons, unit, total, max_reject_fraction, rejected_path)
    return converted


def add_rejected(rejected_path: str | os.PathLike, bad: Iterable[tuple[str, str]]) -> None:
    """Adds documents that are no lines of a file to `rejected.jsonl`, as `{file, reason}`."""
    with _added_to(rejected_path) as rejected:
        for name, reason in bad:
            rejected.write(json.dumps({'file': name, 'reason': reason}) + '\n')


@contextlib.contextmanager
def _added_to(path: str | os.PathLike) -> Iterator[TextIO]:
    """A file to write what is added to the file `path`, which gets it whole."""
    with files.atomic_path(path) as partial:
        if os.path.exists(path):
            shutil.copyfile(path, partial)
        with open(partial, 'a', encoding='utf-8') as file:
            yield file


def check_rejected(
    path, reasons: Sequence[str], unit: str, total: int, max_fraction: float, rejected_path
) -> None:
    """Raises InputError, with the first reasons, if too many of `total` units were rejected."""
    if len(reasons) > max_fraction * total:
        if total == 1:
            raise InputError(f'{path}: {reasons[0].removeprefix(f"{pathlib.Path(path).name}: ")}')
        more = f'; and {len(reasons) - REASONS_SHOWN} more' if len(reasons) > REASONS_SHOWN else ''
        raise InputError(
            f'{path}: {len(reasons)} of {total} {unit} are bad, more than the fraction '
            f'{max_fraction} allowed: {"; ".join(reasons[:REASONS_SHOWN])}{more}. All are listed '
            f'in {rejected_path}: correct them, or raise max_reject_fraction'
        )
    if reasons:
        left_out = f'{len(reasons)} of {total} {unit} are bad and left out'
        _log.warning('%s: %s, see %s', path, left_out, rejected_path)


def _repeated(record: object, line: bytes) -> object:
    """A line as rejected.jsonl shows it: its record, or else its text, cut if it is long."""
    try:
        if record is not None and len(line) <= MAX_REPEATED and json.dumps(record, allow_nan=False):
            return record
    except (ValueError, RecursionError):
        pass  # a record with NaN, or nested deeply
    return line[:MAX_REPEATED].decode('utf-8', 'backslashreplace').rstrip('\r\n')
