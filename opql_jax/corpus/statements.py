"""Rewrites rows of tables so that each can be read alone, with a heading before each cell.

`| Kestrel | Lucy Brandt | Hull |` below `| Ship | Captain | Home port |` becomes `ship: Kestrel |
captain: Lucy Brandt | home port: Hull`, so that a row that is shown alone can be read alone. Rows
of Markdown, and lines of cells that tabs, semicolons, commas or bars separate, are such; all else
stays.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

# Between cells of a row, and between a heading and its cell.
CELL, LABEL = ' | ', ': '
_RULE = re.compile(r'\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?')
_BAR = re.compile(r'(?<!\\)\|')
_HAS_DIGIT_OR_STOP = re.compile(r'\d|[.!?:]\s|[.!?:]$')
# Fewest lines of a table without a rule below its headings, and fewest cells, except with tabs.
_ROWS, _CELLS = 3, 3
# Headings of two columns of which the first holds labels.
_NAMES_OF_LABELS = frozenset(
    '|attribute|attributes|detail|details|field|key|label|parameter|property'.split('|')
)
_NAMES_OF_VALUES = frozenset(
    '|content|data|description|details|information|value|values'.split('|')
)
# Longest heading, and how many times longer headings may make a table.
_LONGEST_HEADING, _LONGER = 60, 6


def restated(text: str) -> str:
    """An unfilled text in which rows of tables stand with their headings, in linear time.

    Line breaks after headings and rules go, and none is added.
    """
    if not any(mark in text for mark in '|\t;,'):
        return text
    lines: list[str] = []
    for delimiter, group in itertools.groupby(text.split('\n'), _delimiter):
        of_table = list(group)
        lines += _restated(of_table, delimiter[0]) if delimiter else of_table
    return '\n'.join(lines)


def _delimiter(line: str) -> tuple[str, int] | str:
    """The separator of a line's cells, and their number; the same for all lines of a table."""
    stripped = line.strip()
    if '|' in stripped:
        return '|', 0
    if '\t' in stripped:
        return '\t', stripped.count('\t')
    for mark in ';,':
        cells = stripped.split(mark)
        # Prose has a space after each comma, and full stops.
        is_prose = any('. ' in cell or (mark == ',' and cell[:1] == ' ') for cell in cells[1:])
        if len(cells) >= _CELLS and not is_prose:
            return mark, len(cells)
    return ''


def _restated(lines: Sequence[str], mark: str) -> list[str]:
    rows = [_cells(line, mark) for line in lines]
    ruled = mark == '|' and len(lines) > 1 and _RULE.fullmatch(lines[1].strip()) and '-' in lines[1]
    # Headings are distinct words, no number and no sentence among them.
    are_words = all(rows[0]) and not any(map(_HAS_DIGIT_OR_STOP.search, rows[0]))
    are_headings = are_words and len(set(rows[0])) == len(rows[0])
    if ruled:
        headings = rows[0]
        body = [row for row, line in zip(rows[2:], lines[2:]) if not _RULE.fullmatch(line.strip())]
    elif len(rows) >= _ROWS and len(set(map(len, rows))) == 1 and are_headings:
        headings, body = rows[0], rows[1:]
    else:
        return list(lines)
    headings = [_lowered(heading) for heading in headings]
    if not body:
        return [CELL.join(filter(None, rows[0]))]
    if len(headings) == 2 and headings[0] in _NAMES_OF_LABELS and headings[1] in _NAMES_OF_VALUES:
        return [(LABEL if len(row) == 2 else CELL).join(filter(None, row)) for row in body]
    if any(len(heading) > _LONGEST_HEADING for heading in headings):
        return list(lines)
    said = [CELL.join(_labelled(headings, row)) for row in body]
    return said if sum(map(len, said)) <= _LONGER * sum(map(len, lines)) else list(lines)


def _cells(line: str, mark: str) -> list[str]:
    line = line.strip()
    if mark == '|':
        cells = _BAR.split(line.removeprefix('|'))
        cells = cells[:-1] if line.endswith('|') and len(cells) > 1 else cells
        return [cell.strip().replace('\\|', '|') for cell in cells]
    return [cell.strip().strip('"') for cell in line.split(mark)]


def _lowered(heading: str) -> str:
    """A heading as a common noun: in lower case, but for abbreviations."""
    heading = ' '.join(heading.strip('*_` ').split())
    return ' '.join(w.lower() if w[1:].islower() or len(w) > 4 else w for w in heading.split(' '))


def _labelled(headings: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    for heading, cell in itertools.zip_longest(headings, row, fillvalue=''):
        if cell:
            yield f'{heading}{LABEL}{cell}' if heading else cell
