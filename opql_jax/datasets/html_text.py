"""The text of an HTML page, as people read it: without tags, scripts, styles and menus."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

_SOFT_HYPHEN = '\xad'
_UNREAD = frozenset({'script', 'style', 'title'})  # the title is read separately
_BLOCKS = frozenset(
    'address article aside blockquote br body dd details div dl dt '
    'fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li '
    'main nav ol p pre section summary table td th tr ul'.split()
)

# Beginnings and ends of markup. All patterns take linear time.
_OPENING = re.compile(r'<(?:!--|!\[CDATA\[|[!?/]|(?=[a-zA-Z]))', re.I)
_TAG_END = re.compile(
    r"""(?:=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+)|/(?!>)|[^>=/]++)*+(?P<closed>/?)>"""
)
_ANY_END = re.compile('(?P<closed>)>')
_ENDS = {'<!--': re.compile(r'--\s*+>'), '<![CDATA[': re.compile(r']\s*+]\s*+>'), '<': _TAG_END}
_NAME = re.compile(r'[a-zA-Z][^\s/>]*+')
# Elements without markup in them, and their ends.
_RAW_ENDS = {tag: re.compile(rf'</\s*+{tag}\s*+>', re.I) for tag in ('script', 'style')}
# A row of a table is a line if none of its cells has more characters, or more than a paragraph.
_LONGEST_CELL = 200
# A number of no character: Python reads none of more than 4,300 digits.
_LONG_REFERENCE = re.compile('&#[0-9]{1000,};?')


def read_html(source: str) -> tuple[str | None, str]:
    """A page's title, the first <h1> or `<title>`, and text, a line for each item or row."""
    tokens = list(_tokens(source))
    page = _Page(menus=tokens.count(('end', 'nav')))
    for kind, content in tokens:
        {'start': page.start_tag, 'end': page.end_tag, 'text': page.add_text}[kind](content)
    page.end()
    return page.heading or ' '.join(''.join(page.title).split()) or None, '\n'.join(page.blocks)


def unescaped(text: str) -> str:
    """Replaces references such as `&amp;` and `&#38;` by characters, invalid ones by U+FFFD."""
    return html.unescape(_LONG_REFERENCE.sub('\N{REPLACEMENT CHARACTER}', text))


def _tokens(source: str) -> Iterator[tuple[str, str]]:
    """Start and end tags, by lower-case names, and text, in linear time; open markup is text."""
    at = text_from = 0
    ended: set[re.Pattern] = set()  # what has no match any more
    while opening := _OPENING.search(source, at):
        start, at = opening.span()
        end = _ENDS.get(opening[0].upper(), _ANY_END)
        # A tag ends behind values in quotes, which may hold '>', or else at the first '>'.
        end = _ANY_END if end is _TAG_END and end in ended else end
        find = end.match if end is _TAG_END else end.search
        if end in ended or not (closing := find(source, at)):
            ended.add(end)
            at = start if end is _TAG_END else at
            continue
        yield 'text', unescaped(source[text_from:start])
        text_from = closing.end()
        name = _NAME.match(source, at) if opening[0] in ('<', '</') else None
        at = text_from
        if not name:
            continue
        tag = name[0].lower()
        if opening[0] == '<':
            yield 'start', tag
        if opening[0] == '</' or closing['closed']:
            yield 'end', tag
        elif tag in _RAW_ENDS:
            raw_end = _RAW_ENDS[tag].search(source, at)
            if not raw_end:
                return
            at = text_from = raw_end.start()
    yield 'text', unescaped(source[text_from:])


class _Cell(NamedTuple):
    """A cell of a table: whether it is a heading, and its paragraphs."""

    is_heading: bool
    blocks: list[str]


class _Page:
    """Collects the blocks of a page: texts, none of which is empty."""

    def __init__(self, menus: int):
        """Takes the number of menus that end."""
        self.blocks: list[str] = []
        self.heading = ''  # the first one of level 1
        self.title: list[str] = []  # pieces of the first `<title>`
        self._unread = ''  # the tag in which nothing is read
        self._menus_left, self._menus_open = menus, 0
        self._in_heading = self._has_title = self._in_drawing = False
        self._pieces: list[str] = []
        self._row: list[_Cell] | None = None  # the cells of the row that is open
        self._rows = 0  # of the table that is open, before that row

    def start_tag(self, tag: str) -> None:
        if tag == 'br' and self._in_heading:
            self._pieces.append(' ')
        elif tag in _BLOCKS:
            self.end_block()
        if tag in ('table', 'tr'):
            self._end_row()
            self._rows = 0 if tag == 'table' else self._rows
            self._row = [] if tag == 'tr' else None
        elif tag in ('td', 'th') and self._row is not None:
            self._row.append(_Cell(tag == 'th', []))
        elif tag == 'dt':
            self._end_row()
            self._row = [_Cell(True, [])]
        elif tag == 'dd' and self._row:
            self._row.append(_Cell(False, []))
        self._in_heading = (self._in_heading or tag == 'h1') and not self.heading
        self._in_drawing = self._in_drawing or tag == 'svg'
        self._unread = tag if tag in _UNREAD else self._unread
        # A menu that never ends would take all of the page with it.
        if tag == 'nav' and self._menus_open < self._menus_left:
            self._menus_open += 1
        elif tag == 'main':
            self._menus_open = 0

    def end_tag(self, tag: str) -> None:
        if tag in _BLOCKS and not (tag == 'br' and self._in_heading):
            self.end_block()
        if tag in ('table', 'tr', 'dd', 'dl'):
            self._end_row()
        if tag == 'title' and self.title:
            self._has_title = True
        if tag == 'svg':
            self._in_drawing = False
        if tag == 'h1':
            self._in_heading = False
        if tag == self._unread:
            self._unread = ''
        if tag == 'nav':
            self._menus_left -= 1
            self._menus_open = max(self._menus_open - 1, 0)

    def add_text(self, data: str) -> None:
        data = data.replace(_SOFT_HYPHEN, '')
        if self._unread == 'title':
            # Drawings in a page have titles, too.
            if not (self._has_title or self._in_drawing) and (self.title or data.strip()):
                self.title.append(data)
        elif not (self._unread or self._menus_open):
            self._pieces.append(data)

    def end_block(self):
        """Ends the paragraph, or what else was read since the last one."""
        block, self._pieces = ' '.join(''.join(self._pieces).split()), []
        if block and self._in_heading:
            self.heading, self._in_heading = block, False
        elif block and self._row:
            self._row[-1].blocks.append(block)
        elif block:
            self.blocks.append(block)

    def end(self):
        """Ends the page."""
        self.end_block()
        self._end_row()

    def _end_row(self):
        """Ends the row of a table that is open, or the term of a list with what defines it."""
        cells, self._row = self._row or [], None
        filled = [cell for cell in cells if cell.blocks]
        is_long = lambda cell: len(cell.blocks) > 1 or len(cell.blocks[0]) > _LONGEST_CELL
        if len(filled) < 2 or any(map(is_long, filled)):
            self.blocks += [block for cell in filled for block in cell.blocks]
        elif len(cells) == 2 and cells[0].is_heading and not cells[1].is_heading:
            self.blocks.append(f'{filled[0].blocks[0].rstrip(": ")}: {filled[1].blocks[0]}')
        else:
            texts = [cell.blocks[0].replace('|', '\\|') if cell.blocks else '' for cell in cells]
            self.blocks.append(f'| {" | ".join(texts)} |')
            if self._rows == 0 and all(cell.is_heading for cell in cells):
                self.blocks.append('|---' * len(cells) + '|')
        self._rows += bool(filled)
