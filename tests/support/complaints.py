"""How tests state what a binary must say about bad input."""

import re

import pytest

PROGRESS = re.compile(r'\d\d:\d\d:\d\d ')


def complaint(done) -> str:
    """The one line on stderr, apart from progress, of a command that fails for bad input."""
    assert 'Traceback' not in done.stderr, done.stderr
    lines = [line for line in done.stderr.splitlines() if not PROGRESS.match(line)]
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert lines[0].startswith('error: ')
    return lines[0]


def cases(**rows):
    """Parametrises a test by (what makes the command, a pattern for its complaint), with ids."""
    params = [pytest.param(*row, id=name.replace('_', ' ')) for name, row in rows.items()]
    return pytest.mark.parametrize('command, said', params)
