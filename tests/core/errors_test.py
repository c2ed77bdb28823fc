"""Errors are told in a line that names the file, and says what to do."""

import errno

import pytest

from opql_jax.core.errors import InputError, error_message

FULL = 'No space left on device: make room there, and do the same again'


@pytest.mark.parametrize(
    'error, line',
    [
        (InputError('a.txt: empty'), 'a.txt: empty'),
        (OSError(errno.EACCES, 'Permission denied', 'kb/.lock'), 'kb/.lock: Permission denied'),
        (OSError(errno.ENOSPC, 'No space left on device', 'kb/a.npy'), f'kb/a.npy: {FULL}'),
        (
            OSError(errno.ENOSPC, 'Error writing bytes to file. Detail: [errno 28]', 'a.parquet'),
            f'a.parquet: {FULL}',
        ),
        # Of a copy.
        (OSError(errno.ENOSPC, 'No space left on device', 'from', None, 'to'), f'to: {FULL}'),
        (OSError(errno.ENOSPC, 'No space left on device', b'kb'), f'kb: {FULL}'),
        (OSError(errno.ENOSPC, 'No space left on device'), 'No space left on device'),
        (OSError('of a library, without a number'), 'of a library, without a number'),
        (
            InputError('Ada may be 2 entities; write one of\n  Ada (ship)\n  Ada (film)'),
            'Ada may be 2 entities; write one of\n  Ada (ship)\n  Ada (film)',
        ),
        (InputError('expected )\n  (Ada\n      ^'), 'expected )\n  (Ada\n      ^'),
        (InputError('a\r\nerror: b\x1b[2J: empty'), r'a\u000d\nerror: b\u001b[2J: empty'),
        (
            OSError(errno.EACCES, 'Permission denied', 'a\n\u202eb'),
            r'a\n\u202eb: Permission denied',
        ),
        (OSError(errno.EACCES, 'Permission denied', b'a\xff'), r'a\udcff: Permission denied'),
        (MemoryError(), 'not enough memory: close other programs, or raise the limit (ulimit -v)'),
        (
            MemoryError("Unable to allocate 9 GiB\n  In call to configurable 'Entities'"),
            (
                'not enough memory (Unable to allocate 9 GiB): close other programs, or raise the '
                'limit (ulimit -v)'
            ),
        ),
    ],
)
def test_an_error_is_told_in_a_line(error, line):
    assert error_message(error) == line
