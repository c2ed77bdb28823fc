"""Examples as text, a line each, with cells between bars."""

import pytest


def lines(text: str) -> list[str]:
    """An example a line."""
    return list(filter(None, map(str.strip, text.splitlines())))


def examples(text: str) -> list[tuple[str, ...]]:
    """The rows of a table; `# ` begins a sentence about those below it."""
    rows = [line for line in lines(text) if not line.startswith('# ')]
    return [tuple(map(str.strip, line.split('|'))) for line in rows]


def table(text: str) -> pytest.MarkDecorator:
    """Parametrises a test with the rows of a table, below the names of its columns."""
    names, *rows = examples(text)
    return pytest.mark.parametrize(names, rows)
