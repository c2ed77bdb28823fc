"""Advisory locks on folders, which the system releases however a process ends.

Readers of a memory hold a shared lock on its segments; whoever removes or changes a folder takes the exclusive one first. A
bucket has no locks.
"""

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterable, Iterator

from opql_jax.core import files


def shared(folders: Iterable[pathlib.Path]) -> contextlib.ExitStack:
    """Takes shared locks on folders; closing the result releases them. Folders that are missing are left out."""
    locks = contextlib.ExitStack()
    for folder in folders:
        # A missing folder is reported when its files are checked; not every file system has locks.
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            locks.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_SH)
    return locks


@contextlib.contextmanager
def try_exclusive(folder: str | os.PathLike) -> Iterator[bool]:
    """Yields whether nobody else holds a lock on a folder; if so nobody can take one while the context lasts."""
    if files.is_remote(folder):
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
