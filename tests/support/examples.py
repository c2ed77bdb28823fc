"""Examples as text, for `pytest.mark.parametrize`."""


def lines(text: str) -> list[str]:
    """An example a line."""
    return list(filter(None, map(str.strip, text.splitlines())))


def examples(table: str) -> list[tuple[str, ...]]:
    """The rows of a table: a line each, its cells between bars."""
    return [tuple(map(str.strip, line.split('|'))) for line in lines(table)]
