"""The newest version of a knowledge base that is open while others change it."""

import os
import threading
from typing import Any

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import MANIFEST
from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.virtual_kb import VirtualKB


class Current:
    """The newest version of a folder's knowledge base, reopened when updated; thread-safe."""

    def __init__(self, folder: str | os.PathLike, **options: Any):
        """Opens it with options of `open_kb`."""
        self.folder, self._options = folder, options
        self._lock = threading.Lock()
        if not KBFolder(folder).manifest.exists():
            KBFolder(folder).read()  # says what is missing
        self._opened = self._version(), open_kb(folder, **options)

    def kb(self) -> VirtualKB:
        """The newest version, or the one before while another opens that; InputError if gone."""
        if self._opened[0] != self._version() and self._lock.acquire(blocking=False):
            try:
                self._open()
            finally:
                self._lock.release()
        return self._opened[1]

    def newest(self) -> VirtualKB:
        """The newest version, also if another thread is opening it; for after one's own change."""
        with self._lock:
            self._open()
        return self._opened[1]

    def _open(self) -> None:
        version = self._version()  # before it is opened: an update in between is seen the next time
        if self._opened[0] != version:
            self._opened = version, open_kb(self.folder, **self._options)

    def _version(self) -> tuple[int, int, bytes]:
        try:
            with files.opened_below(self.folder, MANIFEST) as manifest:
                state = os.fstat(manifest.fileno())
                # With the content, as a file may get the number of one before it, and a clock may
                # be set back.
                return state.st_ino, state.st_mtime_ns, manifest.read()
        except (FileNotFoundError, NotADirectoryError):
            gone = f'{self.folder} is no longer there: it was moved or deleted'
            raise InputError(f'{gone}; put it back, or open another') from None
