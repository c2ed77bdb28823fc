"""The text of an HTML page, as people read it: without scripts, menus, footers and banners."""

import collections
import contextlib
import datetime
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

# What is beside the text of a page: elements, and roles of any element.
_BESIDE = frozenset({'nav', 'footer', 'aside', 'dialog'})
_ROLES_BESIDE = frozenset(
    {'navigation', 'contentinfo', 'complementary', 'dialog', 'alertdialog', 'search'}
)
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s"'<>/=]++)(?:\s*+=\s*+(?:"(?P<a>[^"]*+)"|'(?P<b>[^']*+)'|(?P<c>[^\s>]++)))?+"""
)
# Names under which pages state when they were published.
_PUBLISHED = frozenset(
    'article:published_time og:published_time date dc.date dc.date.issued dc.date.created '
    'dcterms.date dcterms.issued dcterms.created datepublished pubdate publish-date '
    'citation_publication_date citation_date'.split()
)
# What may stand before a date that is the page's, rather than one that a sentence is about.
_BYLINE = re.compile(r'\W*(?:(?:by|published|posted|updated)\b[^.]*|date\W*)?', re.I)
# Elements `<time>` that are looked at: a byline is at the top.
_TIMES = 8
_DAY = re.compile(r'\s*(\d{4})[-/](\d\d)[-/](\d\d)(?!\d)')

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


class HtmlPage(NamedTuple):
    """What a page says.

    Attributes:
        title: its first <h1>, or else its `<title>`.
        text: a line for each item or row.
        date: the day, in ISO form, on which it says that it was published.
    """

    title: str | None
    text: str
    date: str | None = None


class _Token(NamedTuple):
    """A start or end tag, by its lower-case name, or text; attributes as they are written."""

    kind: str
    content: str
    written: str = ''

    @property
    def attributes(self) -> dict[str, str]:
        """Their values, by lower-case names; of a name that comes twice, the first one."""
        found = reversed(list(_ATTRIBUTE.finditer(self.written)))
        return {
            one['name'].lower(): unescaped(one['a'] or one['b'] or one['c'] or '') for one in found
        }


def read_html(source: str) -> HtmlPage:
    """Reads a page, without what stands beside its text unless it has nothing else."""
    tokens = list(_tokens(source))
    page = _Page()
    beside = _beside(tokens)
    page.read(tokens, beside)
    if beside and not page.blocks:
        page = _Page()
        page.read(tokens, {})
    title = page.heading or ' '.join(''.join(page.title).split()) or None
    return HtmlPage(title, '\n'.join(page.blocks), page.published or page.dated)


def _beside(tokens: list[_Token]) -> dict[int, int]:
    """Where what is beside the text changes: by place, how many more such elements are open.

    An element that never ends is text: it would take all of the page with it. `<main>` ends all.
    """
    changes: collections.Counter[int] = collections.Counter()
    started: dict[str, list[tuple[int, bool]]] = {}
    for place, token in enumerate(tokens):
        if token.kind == 'start' and token.content == 'main':
            left = [
                start for starts in started.values() for start, is_beside in starts if is_beside
            ]
            started = {}
        elif token.kind == 'start':
            started.setdefault(token.content, []).append((place, _is_beside(token)))
            continue
        elif token.kind == 'end' and started.get(token.content):
            start, is_beside = started[token.content].pop()
            left = [start] if is_beside else []
        else:
            continue
        changes.update(left)
        changes.subtract({place: len(left)} if left else {})
    return dict(changes)


def _is_beside(tag: _Token) -> bool:
    written = tag.written.lower()
    if tag.content in _BESIDE:
        return 'infobox' not in written
    if 'role' not in written and 'aria-hidden' not in written:
        return False
    stated = tag.attributes
    is_hidden = stated.get('aria-hidden', '').strip().lower() == 'true'
    return is_hidden or not _ROLES_BESIDE.isdisjoint(stated.get('role', '').lower().split())


def _day(written: str) -> str | None:
    """The day that a date begins with, in ISO form."""
    if found := _DAY.match(written):
        with contextlib.suppress(ValueError):  # there is no such day
            return datetime.date(*map(int, found.groups())).isoformat()
    return None


def unescaped(text: str) -> str:
    """Replaces references such as `&amp;` and `&#38;` by characters, invalid ones by U+FFFD."""
    return html.unescape(_LONG_REFERENCE.sub('\N{REPLACEMENT CHARACTER}', text))


def _tokens(source: str) -> Iterator[_Token]:
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
        yield _Token('text', unescaped(source[text_from:start]))
        text_from = closing.end()
        name = _NAME.match(source, at) if opening[0] in ('<', '</') else None
        at = text_from
        if not name:
            continue
        tag = name[0].lower()
        if opening[0] == '<':
            yield _Token('start', tag, source[name.end() : closing.start('closed')])
        if opening[0] == '</' or closing['closed']:
            yield _Token('end', tag)
        elif tag in _RAW_ENDS:
            raw_end = _RAW_ENDS[tag].search(source, at)
            if not raw_end:
                return
            at = text_from = raw_end.start()
    yield _Token('text', unescaped(source[text_from:]))


class _Cell(NamedTuple):
    """A cell of a table: whether it is a heading, and its paragraphs."""

    is_heading: bool
    blocks: list[str]


class _Page:
    """Collects the blocks of a page: texts, none of which is empty."""

    def __init__(self):
        self.blocks: list[str] = []
        self.heading = ''  # the first one of level 1
        self.title: list[str] = []  # pieces of the first `<title>`
        self._unread = ''  # the tag in which nothing is read
        self.published: str | None = None  # the day that its head or its markup states
        self.dated: str | None = None  # that of the first `<time>`, above all sentences
        self._times = 0  # elements `<time>` that were looked at
        self._beside = 0  # open elements that are beside its text
        self._in_heading = self._has_title = self._in_drawing = False
        self._pieces: list[str] = []
        self._row: list[_Cell] | None = None  # the cells of the row that is open
        self._rows = 0  # of the table that is open, before that row

    def read(self, tokens: list[_Token], beside: dict[int, int]) -> None:
        """Reads all of a page, but what is beside its text, see `_beside`."""
        for place, token in enumerate(tokens):
            self._beside += beside.get(place, 0)
            if token.kind == 'start':
                self.start_tag(token)
            else:
                (self.end_tag if token.kind == 'end' else self.add_text)(token.content)
        self.end()

    def start_tag(self, token: _Token) -> None:
        tag = token.content
        if tag in ('meta', 'time') and not self._beside:
            self._note_date(tag, token.attributes)
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

    def add_text(self, data: str) -> None:
        data = data.replace(_SOFT_HYPHEN, '')
        if self._unread == 'title':
            # Drawings in a page have titles, too.
            if not (self._has_title or self._in_drawing) and (self.title or data.strip()):
                self.title.append(data)
        elif not (self._unread or self._beside):
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

    def _note_date(self, tag: str, stated: dict[str, str]) -> None:
        names = ' '.join(stated.get(name, '') for name in ('name', 'property', 'itemprop'))
        is_marked = not _PUBLISHED.isdisjoint(names.lower().split()) or 'pubdate' in stated
        day = _day(stated.get('content' if tag == 'meta' else 'datetime', ''))
        if is_marked:
            self.published = self.published or day
        elif tag == 'time' and self._times < _TIMES:
            self._times += 1
            is_above = not any(block.endswith(('.', '!', '?')) for block in self.blocks)
            if is_above and _BYLINE.fullmatch(''.join(self._pieces)):
                self.dated = self.dated or day

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
