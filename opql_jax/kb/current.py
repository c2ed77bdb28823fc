"""The newest version of a knowledge base that is open while others change it."""

import os
import threading

from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.virtual_kb import VirtualKB


class Current:
    """The newest version of the knowledge base in a folder, opened again when it has been updated; for any number of threads."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = folder
        self._manifest = os.fspath(KBFolder(folder).manifest)
        self._lock = threading.Lock()
        self._opened: tuple[tuple[int, ...], VirtualKB] | None = None
        self.kb()

    def kb(self) -> VirtualKB:
        """The newest version.

        Raises:
            InputError: the folder is there no more, or holds no knowledge base that can be opened.
        """
        with self._lock:
            if self._opened is None or self._opened[0] != self._version():
                version = self._version()  # before it is opened: an update in between is seen the next time
                self._opened = version, VirtualKB.open(self.folder)
            return self._opened[1]

    def _version(self) -> tuple[int, ...]:
        try:
            state = os.stat(self._manifest)
        except (FileNotFoundError, NotADirectoryError):
            if self._opened is None:
                KBFolder(self.folder).read()  # says what is missing
            raise InputError(
                f'{self.folder} is no longer there: it was moved or deleted; put it back, or open another'
            ) from None
        return state.st_ino, state.st_mtime_ns, state.st_size
