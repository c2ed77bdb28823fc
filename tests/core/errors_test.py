"""Errors are told in a line that names the file, and says what to do."""

import errno

import pytest

from opql_jax.core.errors import InputError, error_message

CARET = 'expected )\n  (Ada\n      ^'
CLOSE = 'close other programs, or raise the limit (ulimit -v)'
FULL = 'No space left on device: make room there, and do the same again'


@pytest.mark.parametrize(
    'error, line',
    [
        (OSError(errno.EACCES, 'Permission denied', 'kb/.lock'), 'kb/.lock: Permission denied'),
        (OSError(errno.ENOSPC, 'No space left on device', 'kb/a.npy'), f'kb/a.npy: {FULL}'),
        (OSError(errno.ENOSPC, 'Error. Detail: [errno 28]', 'a.parquet'), f'a.parquet: {FULL}'),
        # Of a copy.
        (OSError(errno.ENOSPC, 'No space left on device', 'from', None, 'to'), f'to: {FULL}'),
        *((InputError(text), text) for text in ('one of\n  Ada (ship)\n  Ada (film)', CARET)),
        (InputError('a\r\nerror: b\x1b[2J: empty'), r'a\u000d\nerror: b\u001b[2J: empty'),
        (MemoryError('9 GiB\n  In call to configurable'), f'not enough memory (9 GiB): {CLOSE}'),
    ],
)
def test_an_error_is_told_in_a_line(error, line):
    assert error_message(error) == line
