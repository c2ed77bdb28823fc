"""The text of the pages of a PDF file, as pypdf reads them; nothing else is imported, as a process is started for it."""

from __future__ import annotations

import contextlib
import logging
import pathlib
from collections.abc import Iterator

from opql_jax.core.errors import InputError


def read_pages(path: pathlib.Path) -> tuple[str, list[str]]:
    """The title in the metadata of a file, '' for none, and the text of each page.

    Raises:
        InputError: the file cannot be read, has a password, or more in it than pypdf reads.
    """
    import pypdf

    try:
        with _warnings() as warnings, pypdf.PdfReader(path) as reader:
            title = reader.metadata.title if reader.metadata else None
            pages = [page.extract_text() for page in reader.pages]
    except (pypdf.errors.FileNotDecryptedError, pypdf.errors.DependencyError) as error:
        raise InputError('encrypted: take off the password first, as with `qpdf --decrypt`') from error
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


class _Warnings(logging.Handler):
    """Silences pypdf, which warns of each oddity in a file, and does not name it.

    Attributes:
        limit: the first warning that a limit was reached, and text therefore left out.
    """

    limit: str | None = None

    def emit(self, record):
        from pypdf.errors import LimitReachedError

        told = record.args if isinstance(record.args, dict) else {}
        if isinstance(told.get('exception'), LimitReachedError) or str(record.msg).startswith('Exceeded '):
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
