"""Rewrites rows of tables so that each can be read alone, with a heading before each cell.

`| Kestrel | Lucy Brandt | Hull |` below `| Ship | Captain | Home port |` becomes `ship: Kestrel |
captain: Lucy Brandt | home port: Hull`. Rows of Markdown, and lines of cells that tabs, semicolons,
commas or bars separate, are such. An infobox that runs together, as in `Born 1 May 1833 Ely Died 3
June 1896 Hull`, becomes lines `Born: 1 May 1833 Ely` and `Died: 3 June 1896 Hull`.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

from opql_jax.corpus.layout import goes_on
from opql_jax.corpus.words import word_list

# Between cells of a row, and between a heading and its cell.
CELL, LABEL = ' | ', ': '
_RULE = re.compile(r'\|?(?:[ \t]*:?-+:?[ \t]*\|)*[ \t]*:?-+:?[ \t]*\|?')
_BAR = re.compile(r'(?<!\\)\|')
_HAS_DIGIT_OR_STOP = re.compile(r'\d|[.!?:]\s|[.!?:]$')
# Fewest lines of a table without a rule below its headings, and fewest cells, except with tabs.
_ROWS, _CELLS = 3, 3
# Headings of two columns of which the first holds labels.
_NAMES_OF_LABELS = word_list('headings_of_labels') | {''}
_NAMES_OF_VALUES = word_list('headings_of_values') | {''}
# Longest heading, and how many times longer headings may make a table.
_LONGEST_HEADING, _LONGER = 60, 6
# Labels of infoboxes; without a colon before a value that begins as a name or a number does.
_LABEL = re.compile(
    r'(?<!\S)(?:[-–•*] )?(?:(?:(?:Sub|Super|Infra)?(?:kingdom|phylum|class|order|family|tribe|genus'
    r'|species)|Kingdom|Phylum|Class|Order|Family|Tribe|Genus|Species|Division|Established|Height'
    r'|Weight|Length|Width|Mass|Duration|(?:Launch|Mission) \w+|Organi[sz]ation|Webpage'
    r'|Nearest city|Governing body):(?=\s)'
    r'|(?:Born|Died|Birth name|(?:Place|Date) of (?:birth|death)|Resting place'
    r'|Buri(?:ed|al)|Residence|Nationality|Citizenship|Religion|Occupation|Profession|Spouse'
    r'|Alma [Mm]ater|Fields?|Institutions?|(?:Doctoral|Academic) (?:[Aa]dvisor|[Ss]tudents)|Awards'
    r'|Notable (?:[Ss]tudents|[Pp]rizes|[Aa]wards|[Ww]orks?|[Ii]deas)|Known for|Influence[ds]|Reign'
    r'|Predecessor|Successor|(?:Preced|Succeed)ed by|Coronation|Consort|Political party|Genre'
    r'|Years active|Author|Illustrator|Publisher|Released|Country|Language|Written by|Starring'
    r'|(?:Direct|Produc|Distribut)ed by|Music by|Running time|Date|Location|Result|Combatants'
    r'|Commanders|Strength|Casualties|Capital|Largest city|Official languages|Currency|Time zone'
    r'|Calling code|Mayor|Population|Area|Density|Elevation|Coordinates|Website|Founded|Founders?'
    r'|Headquarters|Key people|Industry|Products|Revenue|Employees)(?:\(s\))?'
    r'(?::(?=\s)|(?=\s+[^\W_a-z])))'
)
# Ends a sentence or a cell, of which an infobox has none between its first and last label.
_NO_BOX = re.compile(r'[^\W\d_]{3}[.!?]\s+[A-Z]|[\t|]')
# Fewest labels of an infobox, its longest text, and the share of words in lower case that only
# prose has more of.
_LABELS, _LONGEST_BOX, _PROSE = 3, 4000, 0.28
# Between a label and its value, and between paragraphs.
_GAP = re.compile(r'(?<=[\w).]) {2,}')
_BETWEEN = re.compile(r'(\n\s*\n)')
# A line that says something twice, such as the caption of a picture.
_TWICE = re.compile(r'^(\S.{8,250}) \1$', re.M)


def restated(text: str) -> str:
    """An unfilled text in which rows stand by themselves, with their headings, in linear time."""
    text = _TWICE.sub(r'\1', ''.join(map(_box, _BETWEEN.split(text))))
    if not any(mark in text for mark in '|\t;,'):
        return text
    lines: list[str] = []
    for delimiter, group in itertools.groupby(text.split('\n'), _delimiter):
        of_table = list(group)
        lines += _restated(of_table, delimiter[0]) if delimiter else of_table
    return '\n'.join(lines)


def _box(text: str) -> str:
    """A paragraph; if it is an infobox, with each row on a line of its own."""
    labels: dict[str, re.Match] = {}
    end = 0
    if len(text) > _LONGEST_BOX:
        return text
    for label in _LABEL.finditer(text):
        start, name = label.start(), label[0].strip('-–•*: ')
        has_value = not labels or text[end:start].strip()  # the label before this one
        is_new = has_value and name not in labels
        if is_new and not goes_on(text[max(0, start - 20) : start].rstrip()):
            labels[name], end = label, label.end()
    starts = [label.start() for label in labels.values()]
    if len(labels) < _LABELS or _NO_BOX.search(text, starts[0], starts[-1]):
        return text
    words = re.findall(r'[^\W\d_]\w*', text[starts[0] :])
    if sum(word[0].islower() for word in words) > _PROSE * len(words):
        return text
    is_run_on = any('\n' not in text[a:b] for a, b in itertools.pairwise(starts))
    rows = [text[: starts[0]].strip()]
    for (name, label), end in zip(labels.items(), [*starts[1:], len(text)]):
        value, *others = text[label.end() : end].split('\n')
        rows.append(f'{name}{LABEL}{value.strip()}')
        column = label.end() - text.rfind('\n', 0, label.start()) - 1 + _indent(value)
        for line in others:
            said = line.strip()
            if is_run_on or goes_on(rows[-1]) or said[:1].islower() or rows[-1].endswith(LABEL):
                rows[-1] = f'{rows[-1].rstrip()} {said}'.rstrip()
            elif _indent(line) == column:  # below the value
                rows[-1] += f', {said}'
            else:
                rows.append(_GAP.sub(LABEL, said, count=1))
    return '\n'.join(filter(None, rows))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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
