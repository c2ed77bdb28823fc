"""Folders that a reader has open: a shared lock on each, so that no update removes what it holds."""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterable


def hold(folders: Iterable[pathlib.Path]) -> tuple[int, ...]:
    """Shared locks on folders, for `release`; one that is missing is left out."""
    handles = []
    for folder in folders:
        # What is missing is reported when the files are checked; not every file system has locks.
        with contextlib.suppress(OSError):
            handles.append(os.open(folder, os.O_RDONLY))
            fcntl.flock(handles[-1], fcntl.LOCK_SH)
    return tuple(handles)


def release(handles: Iterable[int]) -> None:
    for handle in handles:
        os.close(handle)


@contextlib.contextmanager
def unless_held(folder: pathlib.Path):
    """Yields whether nobody holds the folder; nobody can while the context lasts."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(handle)
