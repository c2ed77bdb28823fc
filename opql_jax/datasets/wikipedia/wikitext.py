"""Converts wikitext to its prose with links: no templates, tables, notes, pictures or headings.

A paragraph or list item is a line of the text. The parser is mwparserfromhell.
"""

import re
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.core.processes import LimitedProcess
from opql_jax.datasets.html_text import unescaped
from opql_jax.datasets.wikipedia import templates
from opql_jax.datasets.wikipedia.titles import Site

# Control characters, which XML cannot hold, mark positions in a text until the last step.
_OPEN, _CLOSE = '\x01', '\x02'  # around the anchor of a link
_APOSTROPHE = '\x03'  # an apostrophe that is no markup
_GAP = '\x04'  # something was removed
_SEAM = '\x05'  # the texts on its two sides are not parsed together
_COMMENT = '\x06'
_ITEM = '\x07'  # a list item, to the end of its line
_BREAK = '\n\n'

_CONTROL = re.compile('[\x00-\x08\x0b-\x1f]')
_MAGIC_WORD = re.compile(r'__(?!_)[^\W\da-z]+?__')
# The tokenizer gives tags without a counterpart as text.
_STRAY = re.compile(
    r'</?(?:abbr|b|bdi|big|blockquote|br|center|cite|code|dd|del|dfn|div|dl|dt|em|font|h[1-6]|hr|i'
    r'|includeonly|ins|kbd|li|mark|'
    r'noinclude|nowiki|ol|onlyinclude|p|poem|pre|q|ref|references|rp|rt|ruby|s|samp|small|span'
    r'|strike|strong|sub|sup|table|td|'
    r'th|tr|tt|u|ul|var|wbr)\b[^<>]*>',
    re.I,
)
_DROPPED = frozenset(
    'categorytree ce chem gallery graph h1 h2 h3 h4 h5 h6 hiero imagemap includeonly indicator '
    'inputbox mapframe maplink math ref references rp score script section source style '
    'syntaxhighlight table templatedata templatestyles timeline'.split()
)
_BLOCKS = frozenset('blockquote br center dd div dl dt hr li ol p poem pre td th tr ul'.split())

_SMALL = ''.join(c for c in map(chr, range(0x10000)) if c.islower())
_TRAIL = re.compile(f'{_CLOSE}([{_SMALL}]+)')
_QUOTES = re.compile("('{2,})")
_COMMENT_LINE = re.compile(f'(?<![^\n])[ \t]*{_COMMENT}[ \t{_COMMENT}]*\n')
_INDENTED_TABLE = re.compile(r'^[: \t]+(?=\{\|)', re.M)
_TABLE_LINE = re.compile(r'^ ?(?:\{\||\|)[^\n]*', re.M)  # of a table that templates close
_ITEM_LINE = re.compile(f'{_ITEM}+([^\n]*)')
_WIDE = re.compile(' {2,}')
_BLANKS = re.compile(' ?\n[ \n]*')
_MARKS = re.compile(f'[{_OPEN}{_CLOSE}]')

# A page takes a tenth of this time; if marks are left open, one of _SHORT characters 20 ms.
_SHORT, _SECONDS, _SECONDS_PER_CHARACTER, _MEMORY = 2000, 1, 50e-6, 4 << 30
# The traces of a removed template, as in '(; born 1970)' and 'text .', and their replacements.
_GAPS = [
    (re.compile(f'{_GAP}(?: ?{_GAP})+'), _GAP),
    (re.compile(f'\\((?=[ ,;:]*{_GAP})[ ,;:{_GAP}]*\\)'), _GAP),
    (re.compile(f'\\( ?{_GAP} ?(?:[,;:] ?)?'), '('),
    (re.compile(f'(?:[,;: ] ?)?{_GAP} ?\\)'), ')'),
    (re.compile(f' ?{_GAP} ?(?=[.,;](?:[ \n{_GAP}]|$))'), ''),
    (re.compile(_GAP), ''),
]


class Wikitext(NamedTuple):
    """A page in plain text."""

    text: str  # its paragraphs and list items, a line each
    # `(start, end, title)` of every link to a page that may be an article, by start, disjoint; code
    # points of `text`.
    links: list[tuple[int, int, str]]
    # Lower-case names of the templates of the page itself, with `__DISAMBIG__` as one.
    templates: set[str]


class Converter:
    """Converts pages of one site, one at a time."""

    def __init__(self, site: Site):
        """Raises InputError where mwparserfromhell is not installed."""
        try:
            from mwparserfromhell import nodes, parser
        except ImportError as error:
            raise InputError(
                'wikitext needs mwparserfromhell: run `pip install opql_jax[wiki]`'
            ) from error
        if not parser.use_c:
            raise InputError('mwparserfromhell lacks its C tokenizer: install one of its wheels')
        self._site, self._nodes, self._failed = site, nodes, parser.ParserError
        self._parser = parser.Parser()
        self._writers = {
            nodes.Text: self._write_text,
            nodes.Template: self._write_template,
            nodes.Argument: lambda _: self._out.append(_GAP),
            nodes.Wikilink: self._write_link,
            nodes.ExternalLink: self._write_external_link,
            nodes.HTMLEntity: lambda entity: self._out.append(_SEAM + _unescaped(str(entity))),
            nodes.Heading: lambda _: self._out.append(_BREAK),
            nodes.Comment: lambda _: self._out.append(_COMMENT),
            nodes.Tag: self._write_tag,
        }

    def convert(self, source: str) -> Wikitext:
        """The plain text of a page; InputError where the parser fails on it."""
        source = _CONTROL.sub('', source)
        if '{|' in source:
            source = _INDENTED_TABLE.sub('', source)
        try:
            # `_without_quotes` handles bold and italics, which end with their line.
            page = self._parser.parse(source, skip_style_tags=True)
        except self._failed as error:
            raise InputError(f'wikitext: {error}') from error
        self._out, self._targets, self._templates, self._in_link = [], [], set(), False
        self._write(page)
        return Wikitext(*_finish(''.join(self._out), self._targets), self._templates)

    def _write(self, code) -> None:
        for node in code.nodes:
            self._writers[type(node)](node)

    def _write_text(self, text) -> None:
        shown = text.value
        if '<' in shown:
            shown = _STRAY.sub(_GAP, shown)
        if '__' in shown:
            if '__DISAMBIG__' in shown:
                self._templates.add('disambig')
            shown = _MAGIC_WORD.sub('', shown)
        self._out.append(shown)

    def _write_template(self, template) -> None:
        name = self._name(template.name).replace('_', ' ')
        if not name:
            self._out.append(_GAP)
            return
        self._templates.add(name)
        of_page, self._templates = self._templates, set()  # those in it are not of the page itself
        self._write_content(name, template)
        self._templates = of_page

    def _write_content(self, name: str, template) -> None:
        """Writes what a template shows, see `templates`."""
        number = 1 if name.startswith('lang-') else templates.SHOWN_PARAMETER.get(name)
        if number is None and name not in templates.LISTS and not templates.makes_text(name):
            self._out.append(_GAP)
            return
        named = {self._plain(p.name).lower(): p.value for p in template.params if p.showkey}
        parameters = [p.value for p in template.params if not p.showkey]
        if number is not None:
            by_place = dict(enumerate(parameters, 1)).get(number)
            if part := named.get(str(number)) or named.get('text') or by_place:
                self._out.append(_SEAM)
                self._write(part)
            self._out.append(_SEAM if part else _GAP)
        elif name in templates.LISTS:
            for place, part in enumerate(parameters):
                self._out.append(', ' if place else _SEAM)
                self._write(part)
            self._out.append(_SEAM if parameters else _GAP)
        else:
            values = {key: self._plain(part) for key, part in named.items()}
            shown = templates.shown(name, [self._plain(part) for part in parameters], values)
            self._out.append(_GAP if shown is None else _literal(shown))

    def _plain(self, code) -> str:
        out, targets, self._out, self._targets = self._out, self._targets, [], []
        self._write(code)
        written, self._out, self._targets = ''.join(self._out), out, targets
        return ' '.join(_CONTROL.sub('', written).replace(_APOSTROPHE, "'").split())

    def _name(self, name) -> str:
        """A template's or tag's name in lower case; '' where it begins with other markup."""
        first = name.nodes[0]
        return first.value.strip().lower() if isinstance(first, self._nodes.Text) else ''

    def _write_link(self, link) -> None:
        written, is_dynamic = '', False
        for node in link.title.nodes:
            if isinstance(node, self._nodes.Text):
                written += node.value
            elif isinstance(node, self._nodes.HTMLEntity):
                written += _unescaped(str(node)).replace(_APOSTROPHE, "'")
            elif not isinstance(node, self._nodes.Comment):
                is_dynamic = True
        title, is_shown = self._site.link(written)
        start = len(self._out)
        if not is_shown:
            self._out.append(_GAP)
            return
        is_anchor = not (title is None or is_dynamic or self._in_link)
        self._out.append(_OPEN if is_anchor else '')
        was_inside, self._in_link = self._in_link, self._in_link or is_anchor
        if link.text is None:  # in a title as its own label nothing is markup
            self._out.append(_literal(written.strip().removeprefix(':').lstrip()))
        else:
            self._write(link.text)
        self._in_link = was_inside
        if is_anchor and any(
            p.strip(f' \t\n{_GAP}{_SEAM}{_COMMENT}') for p in self._out[start + 1 :]
        ):
            self._out.append(_CLOSE)
            self._targets.append(title)
        elif is_anchor:  # nothing of it shows
            self._out[start] = _GAP

    def _write_external_link(self, link) -> None:
        if not link.brackets:
            self._write(link.url)  # a bare address is its own label
        elif link.title is not None:
            self._write(link.title)
        else:
            self._out.append(_GAP)

    def _write_tag(self, tag) -> None:
        name = self._name(tag.tag)
        if name in _DROPPED:
            self._out.append(f'{_BREAK}{_GAP}{_BREAK}' if name == 'table' else _GAP)
            return
        border = _BREAK if name in _BLOCKS else _SEAM
        self._out.append(border + _ITEM if name in ('li', 'dd', 'dt') else border)
        if tag.self_closing:
            return
        if name in ('nowiki', 'pre'):  # only entities are markup here
            self._out.append(_unescaped(str(tag.contents)))
        else:
            self._write(tag.contents)
        self._out.append(border)


class LimitedConverter(LimitedProcess):
    """Converts pages within limits; a context manager.

    Long pages in its process: unclosed markup takes quadratic time, which no signal stops.
    """

    def __init__(self):
        """Raises InputError where mwparserfromhell is not installed."""
        Converter(Site())
        super().__init__(_MEMORY)

    def convert(self, site: Site, source: str) -> Wikitext:
        """The plain text of a page; InputError if the parser fails or exceeds a limit."""
        if len(source) <= _SHORT:
            return _convert((site, source))
        seconds = _SECONDS + _SECONDS_PER_CHARACTER * len(source)
        return self.call(_convert, (site, source), seconds)


def _convert(page: tuple[Site, str]) -> Wikitext:
    site, source = page
    return Converter(site).convert(source)


def _literal(text: str) -> str:
    """Text of which no character is markup."""
    return text.replace("'", _APOSTROPHE)


def _unescaped(text: str) -> str:
    """Replaces HTML entities by characters that are no markup, controls by blanks."""
    return _literal(re.sub('[\x00-\x1f]', ' ', unescaped(text)))


def _finish(text: str, targets: list[str]) -> tuple[str, list[tuple[int, int, str]]]:
    """Removes the marks from a text; returns the plain text and its links."""
    if _COMMENT in text:
        text = _COMMENT_LINE.sub('', text).replace(_COMMENT, '')
    text = _TRAIL.sub(rf'\1{_CLOSE}', text)
    if "''" in text:
        text = '\n'.join(map(_without_quotes, text.split('\n')))
    if '\n|' in text or '{|' in text:
        text = _TABLE_LINE.sub(_GAP, text)
    text = _WIDE.sub(' ', text.replace(_SEAM, '').replace(_APOSTROPHE, "'").replace('\t', ' '))
    if _GAP in text:
        for pattern, replacement in _GAPS:
            text = pattern.sub(replacement, text)
    text = _ITEM_LINE.sub(rf'{_BREAK}\1{_BREAK}', text)
    # From here on a line break ends a paragraph.
    text = _BLANKS.sub(lambda blank: '\n' if blank[0].count('\n') > 1 else ' ', text)
    text = re.sub(f'{_OPEN}([ \n])', rf'\1{_OPEN}', text)
    text = re.sub(f'([ \n]){_CLOSE}', rf'{_CLOSE}\1', text)
    text = re.sub('[ \n]{2,}', lambda blank: '\n' if '\n' in blank[0] else ' ', text).strip(' \n')
    links, pieces, end = [], _MARKS.split(text), 0
    for i, piece in enumerate(pieces):
        start, end = end, end + len(piece)
        if i % 2 and piece and '\n' not in piece:
            links.append((start, end, targets[i // 2]))
    return ''.join(pieces), links


def _without_quotes(line: str) -> str:
    """A line without bold and italics, told from apostrophes by MediaWiki's rules."""
    parts = _QUOTES.split(line)
    texts, sizes = parts[::2], []  # a mark follows each text but the last
    for i, mark in enumerate(parts[1::2]):
        apostrophes = 1 if len(mark) == 4 else max(len(mark) - 5, 0)
        texts[i] += "'" * apostrophes
        sizes.append(len(mark) - apostrophes)
    if sum(size != 2 for size in sizes) % 2 and sum(size != 3 for size in sizes) % 2:
        # One bold mark is an apostrophe and italics: the first after a word of one letter, else
        # after a longer word, else after a space.
        bold = [i for i, size in enumerate(sizes) if size == 3]
        rank = lambda i: 2 if texts[i].endswith(' ') else texts[i][-2:-1] != ' '
        if bold:
            texts[min(bold, key=rank)] += "'"
    return ''.join(texts)
