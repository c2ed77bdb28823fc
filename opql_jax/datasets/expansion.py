"""Limits how far a compressed file may expand: a few KB can hold gigabytes of repeated text."""

import os

from opql_jax.core.errors import InputError

# A file may hold FREE bytes and TIMES its own size: text compresses to a fifth, copies of one text
# rarely below a hundredth.
TIMES, FREE = 200, 16 << 20


class Expansion:
    """Counts the bytes read from a compressed file."""

    def __init__(self, path: str | os.PathLike):
        self._path, self._taken = path, 0
        self._most = FREE + TIMES * os.stat(path).st_size

    def add(self, count: int) -> None:
        """Counts some more; InputError when it is too many."""
        self._taken += count
        if self._taken > self._most:
            raise InputError(
                f'{self._path}: {os.stat(self._path).st_size:,} bytes hold more than '
                f'{self._most:,}, as only a file does that is made to fill up memory: leave it '
                'out, or give its text as it is, in a .jsonl file'
            )
