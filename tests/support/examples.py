"""Examples as a table of text."""


def examples(table: str) -> list[tuple[str, ...]]:
    """The rows of a table, for `pytest.mark.parametrize`: a line each, its cells between bars."""
    lines = filter(None, map(str.strip, table.splitlines()))
    return [tuple(cell.strip() for cell in line.split('|')) for line in lines]
