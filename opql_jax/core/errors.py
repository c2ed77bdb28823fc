"""Exceptions that are told in one line instead of a traceback."""

import errno
import os
import re
from collections.abc import Collection

from opql_jax.core.terminal import printable


class InputError(ValueError):
    """Data, a setting or a file cannot be used; the message says what, where, and what to do."""


class NotFound(InputError):
    """Nothing has the name or id that was given; the message names it."""


def check_choice(name: str, value: object, choices: Collection) -> None:
    """Raises InputError unless the value of a setting is one of its choices."""
    if value not in choices:
        raise InputError(f'{name}={value!r}: give one of {", ".join(map(repr, choices))}')


def is_full(error: OSError) -> bool:
    """Whether a disk, or what a user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def error_message(error: InputError | OSError | MemoryError) -> str:
    """An error for people: which file, what is wrong, and what to do if space ran out.

    One line, or several if an InputError lists choices, indented by two spaces, or marks a place
    with a `^`. Other line breaks, as in names, are escaped, and so are terminal commands.
    """
    return printable(re.sub(r'\n(?!  \S| +\^$)', r'\\n', _told(error)))


def _told(error: InputError | OSError | MemoryError) -> str:
    if isinstance(error, MemoryError):
        reason = str(error).partition('\n')[0]  # gin adds lines
        missing = f'not enough memory{reason and f" ({reason})"}'
        return f'{missing}: close other programs, or raise the limit (ulimit -v)'
    if not isinstance(error, OSError) or not error.errno:
        return str(error)
    full = is_full(error)
    file = (error.filename2 if full else None) or error.filename  # of a copy, where it goes
    if not file:  # standard output
        return str(error.strerror)
    make_room = f'{os.strerror(error.errno)}: make room there, and do the same again'
    return f'{os.fsdecode(file)}: {make_room if full else error.strerror}'


class Preempted(SystemExit):
    """Asked to stop, state saved: binaries exit with `CODE`, and launch/ runs them again."""

    CODE = 75  # EX_TEMPFAIL of sysexits.h

    def __init__(self, message: str):
        super().__init__(self.CODE)
        self.message = message
