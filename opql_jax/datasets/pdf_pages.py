"""The text of a PDF file's pages by pypdf, in a process that imports nothing else."""

import bisect
import collections
import contextlib
import itertools
import logging
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opql_jax.core.errors import InputError

# Prose in columns: fewest lines of a column, most columns, least mean length of a line, and least
# share of lines that begin in lower case.
_LINES, _COLUMNS, _LONG, _GO_ON = 3, 4, 16, 0.3


def read_pages(path: pathlib.Path) -> tuple[str, list[str]]:
    """The title in a file's metadata, or '', and each page's text; InputError if unreadable."""
    import pypdf

    try:
        with _warnings() as warnings, pypdf.PdfReader(path) as reader:
            title = reader.metadata.title if reader.metadata else None
            pages = [_page_text(page) for page in reader.pages]
    except (pypdf.errors.FileNotDecryptedError, pypdf.errors.DependencyError) as error:
        raise InputError('encrypted: take off the password (`qpdf --decrypt`)') from error
    except OSError as error:
        raise InputError(f'cannot be read: {error}') from error
    except MemoryError:
        raise
    except pypdf.errors.LimitReachedError as error:
        raise InputError(f'cannot be read within limits: {error}') from error
    except Exception as error:  # of any kind, where a file is damaged
        raise InputError(f'cannot be read as PDF: truncated or damaged ({error})') from error
    if warnings.limit:
        raise InputError(f'cannot be read within limits: {warnings.limit}')
    return title.strip() if isinstance(title, str) else '', pages


class Piece(NamedTuple):
    """Text that a page shows in one go, and where: points from the left and the bottom."""

    x: int
    y: int
    text: str


def _page_text(page) -> str:
    pieces: list[Piece] = []

    def add(text, user_matrix, text_matrix, *_) -> None:
        if text.strip():
            a, b, c, d, e, f = user_matrix
            x, y = text_matrix[4:]
            pieces.append(Piece(round(a * x + c * y + e), round(b * x + d * y + f), text))

    text = page.extract_text(visitor_text=add)
    return ''.join(p.text.removesuffix('\n') + '\n' for p in by_columns(pieces)) or text


def by_columns(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of a page column by column, if it shows prose line by line across; else []."""
    starts = collections.Counter(piece.x for piece in pieces)
    columns = sorted(x for x, count in starts.items() if count >= _LINES)
    if not 2 <= len(columns) <= _COLUMNS:
        return []
    column_of = [max(bisect.bisect_right(columns, piece.x) - 1, 0) for piece in pieces]
    of_row = collections.defaultdict(set)
    for piece, column in zip(pieces, column_of):
        of_row[piece.y].add(column)
    shared = [i for i, piece in enumerate(pieces) if len(of_row[piece.y]) > 1]
    changes = sum(column_of[i] != column_of[j] for i, j in itertools.pairwise(shared))
    if len(shared) < _LINES * len(columns) or changes < len(shared) / 2:
        return []
    first, last = shared[0], shared[-1] + 1
    inner = [pieces[i] for i in sorted(range(first, last), key=lambda i: column_of[i])]
    length = sum(len(piece.text) for piece in inner)
    going_on = sum(piece.text.lstrip()[0].islower() for piece in inner[1:])
    if length < _LONG * len(inner) or going_on < _GO_ON * len(inner):
        return []
    return [*pieces[:first], *inner, *pieces[last:]]


class _Warnings(logging.Handler):
    """Silences pypdf; `limit` is its first warning that text was left out at a limit."""

    limit: str | None = None

    def emit(self, record):
        from pypdf.errors import LimitReachedError

        told = record.args if isinstance(record.args, dict) else {}
        is_limit = isinstance(told.get('exception'), LimitReachedError)
        if is_limit or str(record.msg).startswith('Exceeded '):
            self.limit = self.limit or record.getMessage()


@contextlib.contextmanager
def _warnings() -> Iterator[_Warnings]:
    logger, handler = logging.getLogger('pypdf'), _Warnings()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.setLevel(before[0])
        logger.propagate = before[1]
        logger.removeHandler(handler)
