r"""Text of documents, names, paths and errors on its way to a terminal or a log.

Some characters are commands there: they move the cursor, set the clipboard, or reverse what
follows. Programs write within `escaped_output`, which escapes them as JSON does (`\u001b`), so that
JSON keeps its value. Names in lines pass through `one_line`, and sentences through `hanging`, so
that a line break in them cannot pass for a line of ours.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any, cast

# Controls except tabs and line ends, line and paragraph separators, embeddings, overrides and
# isolates of direction, deprecated format characters, surrogates, annotations and tags. Joiners and
# direction marks stay, as ordinary text of many scripts has them.
_UNSAFE = (
    '\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u206f\ud800-\udfff'
    '\ufff9-\ufffb\U000e0000-\U000e007f'
)
_UNSAFE_BUT_ESC = re.compile(f'[{_UNSAFE}]|\r(?!\n)')
_UNSAFE_CHARACTER = re.compile(f'[\x1b{_UNSAFE}]|\r(?!\n)')


def printable(text: str) -> str:
    r"""A text with what a terminal would obey escaped as in JSON, such as `\u001b`."""
    return _UNSAFE_CHARACTER.sub(_escape, text)


def one_line(text: str) -> str:
    r"""`printable` with line breaks as `\n`: a name, title or path within a line."""
    return printable(text.replace('\n', '\\n'))


def hanging(text: str, indent: int) -> str:
    """A text whose further lines are indented: a sentence or passage that begins within a line."""
    return re.sub('\r?\n', '\n' + ' ' * indent, text)


def escape_output() -> None:
    """Makes this process write `printable` text to standard output and error from now on."""
    sys.stdout, sys.stderr = _escaped(sys.stdout), _escaped(sys.stderr)


@contextlib.contextmanager
def escaped_output() -> Iterator[None]:
    """`escape_output` until the context ends."""
    before = {name: getattr(sys, name) for name in ('stdout', 'stderr')}
    escape_output()
    ours = {name: getattr(sys, name) for name in before}
    try:
        yield
    finally:
        for name, stream in before.items():
            if getattr(sys, name) is ours[name]:  # else somebody has put another there to stay
                setattr(sys, name, stream)


def log_handler() -> logging.Handler:
    """A handler that writes each record to standard error as a line that begins with the time."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter('%(asctime)s %(message)s', '%H:%M:%S'))
    return handler


class _LineFormatter(logging.Formatter):
    """Writes a message as one line; a traceback follows in its own lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))


class _Escaped:
    """A text stream that writes `printable` text to another, whose methods it has."""

    _unsafe = _UNSAFE_CHARACTER

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(self._unsafe.sub(_escape, text))

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    @property
    def rich_proxied_file(self) -> _Escaped:
        """Where `rich` writes its colours, which are escapes, around what passed `printable`."""
        return _EscapedButColours(self._stream)

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


class _EscapedButColours(_Escaped):
    _unsafe = _UNSAFE_BUT_ESC


def _escaped(stream: Any):
    return cast(Any, _Escaped(stream))


def _escape(found: re.Match) -> str:
    units = found[0].encode('utf-16-be', 'surrogatepass').hex()
    return ''.join(f'\\u{units[i : i + 4]}' for i in range(0, len(units), 4))
