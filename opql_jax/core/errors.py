"""Exceptions that are told in one line instead of a traceback."""

import errno
import os


class InputError(ValueError):
    """Data, a setting or a file cannot be used; the message says what is wrong, where, and what to do."""


def is_full(error: OSError) -> bool:
    """Whether a disk, or what a user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def told(error: InputError | OSError) -> str:
    """The line that tells a person of an error: which file, what is wrong with it, and what to do where the disk is full."""
    if not isinstance(error, OSError) or not error.errno:
        return str(error)
    full = is_full(error)
    file = (error.filename2 if full else None) or error.filename  # of a copy, where it goes
    if not file:  # standard output
        return str(error.strerror)
    problem = f'{os.strerror(error.errno)}: make room there, and do the same again' if full else error.strerror
    return f'{os.fsdecode(file)}: {problem}'


class Preempted(SystemExit):
    """The process was asked to stop (SIGTERM) and has saved its state; the same command continues from there.

    Binaries exit with `CODE`, upon which the scripts in launch/ run the command again.
    """

    CODE = 75  # EX_TEMPFAIL of sysexits.h

    def __init__(self, message: str):
        super().__init__(self.CODE)
        self.message = message
