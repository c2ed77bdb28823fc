"""Text as it comes: one form of each letter, no invisible characters, true line breaks only.

A line break of a paragraph that was filled to a width is a space. All that are left are borders,
which no name and no sentence crosses: those of headings, list items, rows of tables, captions,
lines of a chat or a poem, quoted mail, addresses and front matter.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# Soft hyphens (and the line break after one), marks without width or meaning in English, escape
# sequences of terminals, and control characters but for NUL, which no text has.
_INVISIBLE = re.compile(
    '\u00ad\\s*\n\\s*|[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f'
    '\ufeff\ufff9-\ufffb]|[\U000e0000-\U000e007f]|(?<=[a-zA-Z])[\u200c\u200d]'
    '|[\u200c\u200d](?=[a-zA-Z])|\x1b\\[[0-?]*[ -/]*[@-~]|[\x01-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]'
)
_LINE_ENDS = re.compile('\r\n?|[\u0085\u2028\x0b]')
_PAGE_ENDS = re.compile('[\u2029\f]')
# Spaces that keep words together or have a width of their own.
_SPACES = re.compile('[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]')
_LIGATURES = str.maketrans(dict(zip('ﬀﬁﬂﬃﬄﬅﬆ', ['ff', 'fi', 'fl', 'ffi', 'ffl', 'st', 'st'])))

_FENCE = re.compile(r'\s*(?:```|~~~)')
_FRONT_MATTER = re.compile(r'(?:---|\+\+\+)[ \t]*')
_UNDERLINE = re.compile(r'={3,}|-{3,}|\*{3,}|_{3,}|~{3,}|[-=+ ]{5,}')
_HEADING = re.compile(r'\s{0,3}(?:#{1,6}(?:\s|$)|(={1,6})[^=\n]{1,200}\1\s*$)')
_ITEM = re.compile(
    r'(?P<indent>\s*)(?P<mark>[-*+•‣◦–—·]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|\^\d{1,3}'
    r'|\[\d{1,3}\])[ \t]+(?=\S)'
)
_QUOTE = re.compile(r'\s*(?P<marks>>(?:[ \t]*>)*)[ \t]?')
# Lines by themselves: of tables, of a chat ('[12:03] ana: ...', '12:03 <ana> ...'), 'Label: value'.
_COLUMNS = re.compile(r'\t|\S {3,}\S|^\s*\||\|\s*$|(?:\|[^|\n]*){2}')
TIME = (
    r'[\[(]?(?:\d{4}-\d\d-\d\d[ T,]*|\d{1,2}[./]\d{1,2}[./]\d{2,4},? *)?\d{1,2}:\d\d(?::\d\d)?(?: ?'
    r'[AaPp]\.?[Mm]\.?)?[\])]?'
)
_CHAT = re.compile(rf'\s*(?:{TIME}[\s,-]+\S|<[^<>\n]{{1,60}}>\s)')
_LABEL = re.compile(
    r'\s*(?:\*\*|__)?(?P<label>[^\W\d_][\w ()/&.’\'-]{0,39}?)(?:\*\*|__)?:(?:\*\*|__)?(?:[ \t]|$)'
)
_LABEL_WORDS = 4
_LONGEST_STATEMENT = 120
# Widths of filled lines: least, sufficient without other evidence, and greatest.
_NARROW, _WIDE, _WIDEST = 40, 55, 160
# Least share of line breaks before lower case in a filled paragraph; prose has about 0.8.
_LOWER = 0.3
# Ends only lines inside filled paragraphs.
_GOES_ON = re.compile(
    r'(?:\b(?:a|an|and|as|at|by|for|from|her|his|in|is|its|of|on|or|that|the|their|to|was|were'
    r'|which|who|with)|,)$'
)
_LONGEST_GOING_ON = 12
_STOP = re.compile(r'[.!?:;]["”’)\]]*$')
# The button of a picture, between two copies of its caption.
_BUTTON = re.compile(r'(?<=\S)\s{1,9}(?:Enlarge|Magnify|Zoom)\s{1,9}(?=\S)')
_LONGEST_CAPTION = 500
_SHORTEST_CAPTION = 8  # letters: 'on Zoom on' is none
_WORD, _NO_LETTERS = re.compile(r'\S+'), re.compile(r'[\W_]+')


class _Line(NamedTuple):
    """A line of a text, without quotation marks of mail and space around it."""

    start: int
    end: int
    depth: int  # how often it is quoted
    kind: str  # 'blank', 'alone' (joined to none), 'item' or 'label' (begin something), or 'plain'
    is_lower: bool  # whether it begins with a letter in lower case
    indent: int
    width: int  # in characters, with the indentation
    hard: bool  # whether Markdown keeps the line break after it


def cleaned(text: str) -> str:
    """A text in NFC with line feeds and plain spaces, without invisible characters; idempotent."""
    if text.isascii() and not _INVISIBLE.search(text) and not re.search('[\r\x0b\f]', text):
        return text
    text = _PAGE_ENDS.sub('\n\n', _LINE_ENDS.sub('\n', text))
    text = _SPACES.sub(' ', _INVISIBLE.sub('', text)).translate(_LIGATURES)
    return unicodedata.normalize('NFC', text)


def unfilled(text: str, is_markdown: bool = False) -> str:
    """A cleaned text with each filled paragraph on one line, in linear time.

    Markdown fills what it does not mark. Elsewhere lines are filled that are wide, end where the
    next word would not have fitted, and of which some begin in lower case.
    """
    lines = list(_lines(text))
    pieces: list[str] = []
    at = first = 0
    while first < len(lines):
        last = first + 1
        while last < len(lines) and _may_go_on(lines[last - 1], lines[last]):
            last += 1
        paragraph = lines[first:last]
        for line, after in _filled(text, paragraph, is_markdown):
            # Nothing stands where a word was divided.
            letter, mark = text[line.end - 2 : line.end - 1], text[line.end - 1]
            is_divided = mark == '-' and letter.isalpha() and text[after.start].isalpha()
            pieces += [text[at : line.end], '' if is_divided else ' ']
            at = after.start
        first = last
    return _with_captions(''.join([*pieces, text[at:]]))


def _with_captions(text: str) -> str:
    """A text with each caption that stands before and behind a button once, on its own line."""
    pieces, at = [], 0
    for button in _BUTTON.finditer(text):
        start, end = button.span()
        before = text[max(at, start - _LONGEST_CAPTION) : start].rpartition('\n\n')[2]
        after = text[end : end + _LONGEST_CAPTION].partition('\n\n')[0]
        if found := _doubled(before, after):
            begin = start - len(before) + found[0]
            prose, caption = text[at:begin].rstrip(' '), ' '.join(text[begin:start].split())
            pieces += [prose, '\n' if prose and prose[-1] != '\n' else '', caption]
            at = end + found[1]
            if text.startswith(' ', at):
                pieces.append('\n')
                at += 1
    return ''.join([*pieces, text[at:]])


def _doubled(before: str, after: str) -> tuple[int, int] | None:
    """Where the longest end of one text begins that begins another, and where it ends there."""
    words = [
        [(_NO_LETTERS.sub('', word[0]), word) for word in _WORD.finditer(part)]
        for part in (before, after)
    ]
    said, again = (''.join(letters for letters, _ in of) for of in words)
    begins: dict[int, int] = {}  # by the letters from there to the button
    ends: dict[int, int] = {}  # by those from the button to there
    size = 0
    for letters, word in reversed(words[0]):
        size += len(letters)
        begins.setdefault(size, word.start())
    size = 0
    for letters, word in words[1]:
        size += len(letters)
        ends[size] = word.end()
    sizes = sorted(begins.keys() & ends.keys(), reverse=True)
    sizes = [size for size in sizes if size >= _SHORTEST_CAPTION]
    size = next((size for size in sizes if said.endswith(again[:size])), None)
    return (begins[size], ends[size]) if size else None


def _lines(text: str) -> Iterator[_Line]:
    start, fenced, front = 0, False, None
    raw_lines = text.split('\n')
    underlined = [bool(_UNDERLINE.fullmatch(line.strip())) for line in raw_lines]
    for number, raw in enumerate(raw_lines):
        quote = _QUOTE.match(raw)
        depth = quote['marks'].count('>') if quote else 0
        begin = quote.end() if quote else 0
        words = raw[begin:]
        stripped = words.strip()
        indent = len(words) - len(words.lstrip())
        if number == 0 and _FRONT_MATTER.fullmatch(raw):
            front = raw.strip() if raw.strip() in map(str.strip, raw_lines[1:60]) else None
        kind = 'plain'
        if not stripped:
            kind = 'blank'
        elif front or fenced or _FENCE.match(words) or any(underlined[number : number + 2]):
            kind = 'alone'
        elif _HEADING.match(words) or _COLUMNS.search(words.rstrip()):
            kind = 'alone'
        elif _ITEM.match(words) or _CHAT.match(words):
            kind = 'item'
        elif is_label(words):
            kind = 'label'
        if front and number and raw.strip() == front:
            front = None
        if not front and _FENCE.match(words):
            fenced = not fenced
        place = start + begin + indent
        hard = words.endswith(('  ', '\\'))
        end, width, is_lower = place + len(stripped), len(words.rstrip()), stripped[:1].islower()
        yield _Line(place, end, depth, kind, is_lower, indent, width, hard)
        start += len(raw) + 1


def is_label(line: str) -> bool:
    """Whether a line begins with a label of few words, as 'Founder: Beatrice Lowe' does."""
    label = _LABEL.match(line)
    if label is None or '://' in line[: label.end() + 2]:
        return False
    return len(label['label'].split()) <= _LABEL_WORDS


def is_item_number(text: str, start: int, end: int) -> bool:
    """Whether text[start:end] numbers an item of a list, as the '3' of '3. Report damage.' does."""
    item = _ITEM.match(text, text.rfind('\n', 0, start) + 1)
    return bool(item and item['mark'].strip('().[]^') == text[start:end] and start < item.end())


def goes_on(line: str) -> bool:
    """Whether a line ends where no sentence, item or heading does, as behind "the"; else it may."""
    return _GOES_ON.search(line, max(0, len(line) - _LONGEST_GOING_ON)) is not None


def is_statement(line: str) -> bool:
    """Whether a line is a row of a table, or a label with a value that is no sentence."""
    is_short = len(line) <= _LONGEST_STATEMENT and '. ' not in line
    return ' | ' in line or (is_short and is_label(line) and not _STOP.search(line.rstrip()))


def _may_go_on(line: _Line, after: _Line) -> bool:
    if line.kind in ('blank', 'alone') or line.depth != after.depth:
        return False
    # A line of prose may begin with "sub-kingdoms: ".
    may_be_prose = after.is_lower and line.kind == 'plain' and line.width >= _NARROW
    return after.kind == 'plain' or (after.kind == 'label' and may_be_prose)


def _filled(
    text: str, paragraph: Sequence[_Line], is_markdown: bool
) -> Iterator[tuple[_Line, _Line]]:
    """The lines of a paragraph that a filled line break ends, each with the next."""
    breaks = list(zip(paragraph, paragraph[1:]))
    if not breaks:
        return
    if is_markdown and any(line.depth == 0 for line in paragraph):
        yield from ((line, after) for line, after in breaks if not line.hard)
        return
    width = max(line.width for line in paragraph)
    if not _NARROW <= width <= _WIDEST:
        return
    last_words = lambda line: text[max(line.start, line.end - _LONGEST_GOING_ON) : line.end]
    cut_short = [goes_on(last_words(line)) for line, _ in breaks]
    certain = [after.is_lower or cut for (_, after), cut in zip(breaks, cut_short)]
    is_prose = sum(certain) >= max(_LOWER * len(breaks), 1)
    if len(breaks) == 1 and width >= _WIDE:
        is_prose = is_prose or _STOP.search(text, paragraph[1].start, paragraph[1].end)
    if not is_prose:
        return
    for (line, after), is_certain, cut in zip(breaks, certain, cut_short):
        word = text[after.start : after.end].partition(' ')[0]
        # A paragraph may be indented at its first line only, or at all but that.
        is_even = line is paragraph[0] or after.indent <= line.indent + 1
        is_full = is_even and line.width + 1 + len(word) > 0.9 * width
        if is_full or cut or (is_certain and line.width >= 0.5 * width):
            yield line, after
