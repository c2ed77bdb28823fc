"""Converts wikitext to its prose with links: no templates, tables, notes, pictures or headings.

A paragraph or list item is a line of the text. The parser is mwparserfromhell's tokenizer, written
in C; its stream of tokens is nested here, because the tree that the package builds from it takes
six times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

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
    re.IGNORECASE,
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
_INDENTED_TABLE = re.compile(r'^[: \t]+(?=\{\|)', re.MULTILINE)
_TABLE_LINE = re.compile(r'^ ?(?:\{\||\|)[^\n]*', re.MULTILINE)  # of a table that templates close
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


class _Element(NamedTuple):
    """A template, link (target, label) or tag (name, content, name): tokens and elements each."""

    opening: Any
    parts: list[list]


class Converter:
    """Converts pages of one site, one at a time."""

    def __init__(self, site: Site):
        """Raises InputError where mwparserfromhell is not installed."""
        try:
            from mwparserfromhell.parser import CTokenizer, ParserError, tokens
        except ImportError as error:
            raise InputError(
                'wikitext needs mwparserfromhell: run `pip install opql_jax[wiki]`'
            ) from error
        if CTokenizer is None:
            raise InputError('mwparserfromhell lacks its C tokenizer: install one of its wheels')
        self._site, self._tokens, self._failed = site, tokens, ParserError
        self._tokenizer = CTokenizer()
        self._writers = {
            tokens.TemplateOpen: self._write_template,
            tokens.ArgumentOpen: lambda _: self._out.append(_GAP),
            tokens.WikilinkOpen: self._write_link,
            tokens.ExternalLinkOpen: self._write_external_link,
            tokens.HTMLEntityStart: lambda it: self._out.append(_SEAM + self._character(it)),
            tokens.HeadingStart: lambda _: self._out.append(_BREAK),
            tokens.CommentStart: lambda _: self._out.append(_COMMENT),
            tokens.TagOpenOpen: self._write_tag,
        }
        kinds = lambda names: {getattr(tokens, name) for name in names.split()}
        self._separators = kinds(
            'TemplateParamSeparator WikilinkSeparator ExternalLinkSeparator '
            'TagCloseOpen TagOpenClose'
        )
        self._closings = kinds(
            'TemplateClose ArgumentClose WikilinkClose ExternalLinkClose HTMLEntityEnd HeadingEnd '
            'CommentEnd TagCloseClose TagCloseSelfclose'
        )

    def convert(self, source: str) -> Wikitext:
        """The plain text of a page; InputError where the parser fails on it."""
        source = _CONTROL.sub('', source)
        if '{|' in source:
            source = _INDENTED_TABLE.sub('', source)
        try:
            # `_without_quotes` handles bold and italics, which end with their line.
            tokens = self._tokenizer.tokenize(source, 0, True)
        except self._failed as error:
            raise InputError(f'wikitext: {error}') from error
        self._out, self._targets, self._templates, self._in_link = [], [], set(), False
        (page,) = self._parts(iter(tokens))
        self._write(page)
        return Wikitext(*_finish(''.join(self._out), self._targets), self._templates)

    def _parts(self, tokens: Iterator) -> list[list]:
        """The parts of an element whose opening token was read, or the one part that is a page."""
        parts: list[list] = [[]]
        for token in tokens:
            kind = type(token)
            if kind in self._writers:
                parts[-1].append(_Element(token, self._parts(tokens)))
            elif kind in self._separators:
                parts.append([])
            elif kind in self._closings:
                break
            else:
                parts[-1].append(token)
        return parts

    def _write(self, part: list) -> None:
        for piece in part:
            if isinstance(piece, _Element):
                self._writers[type(piece.opening)](piece)
            elif isinstance(piece, str):  # a title as its own label, in which nothing is markup
                self._out.append(piece)
            else:
                self._write_text(piece['text'])

    def _write_text(self, text: str) -> None:
        if '<' in text:
            text = _STRAY.sub(_GAP, text)
        if '__' in text:
            if '__DISAMBIG__' in text:
                self._templates.add('disambig')
            text = _MAGIC_WORD.sub('', text)
        self._out.append(text)

    def _write_template(self, template: _Element) -> None:
        name = self._name(template).replace('_', ' ')
        if not name:
            self._out.append(_GAP)
            return
        self._templates.add(name)
        of_page, self._templates = self._templates, set()  # those in it are not of the page itself
        self._write_content(name, template)
        self._templates = of_page

    def _write_content(self, name: str, template: _Element) -> None:
        """Writes what a template shows, see `templates`."""
        number = 1 if name.startswith('lang-') else templates.SHOWN_PARAMETER.get(name)
        if number is None and name not in templates.LISTS and not templates.makes_text(name):
            self._out.append(_GAP)
            return
        named, parameters = self._parameters(template.parts[1:])
        if number is not None:
            by_place = parameters[number - 1] if number <= len(parameters) else []
            part = named.get(str(number)) or named.get('text') or by_place
            self._out.append(_SEAM if part else _GAP)
            self._write(part)
            self._out.append(_SEAM)
        elif name in templates.LISTS:
            for place, part in enumerate(parameters):
                self._out.append(', ' if place else _SEAM)
                self._write(part)
            self._out.append(_SEAM if parameters else _GAP)
        else:
            values = {key: self._plain(part) for key, part in named.items()}
            shown = templates.shown(name, [self._plain(part) for part in parameters], values)
            self._out.append(_GAP if shown is None else _literal(shown))

    def _parameters(self, parts: list[list]) -> tuple[dict[str, list], list[list]]:
        """The parameters of a template by name, and those without one."""
        named, other = {}, []
        for part in parts:
            kinds = list(map(type, part))
            if self._tokens.TemplateParamEquals in kinds:
                equals = kinds.index(self._tokens.TemplateParamEquals)
                named[self._plain(part[:equals]).lower()] = part[equals + 1 :]
            else:
                other.append(part)
        return named, other

    def _plain(self, part: list) -> str:
        """The plain text of a part."""
        out, targets, self._out, self._targets = self._out, self._targets, [], []
        self._write(part)
        written, self._out, self._targets = ''.join(self._out), out, targets
        return ' '.join(_CONTROL.sub('', written).replace(_APOSTROPHE, "'").split())

    def _name(self, element: _Element) -> str:
        """The name of a template or a tag in lower case; '' where it begins with other markup."""
        first = element.parts[0][0]
        return '' if isinstance(first, _Element) else first['text'].strip().lower()

    def _character(self, entity: _Element) -> str:
        """The character of an HTML entity such as `&amp;`, `&#38;` or `&#x26;`."""
        mark = {self._tokens.HTMLEntityNumeric: '#', self._tokens.HTMLEntityHex: 'x'}
        written = ''.join(mark.get(type(token)) or token['text'] for token in entity.parts[0])
        return _unescaped(f'&{written};')

    def _write_link(self, link: _Element) -> None:
        target, *label = link.parts
        written, is_dynamic = '', False
        for piece in target:
            if not isinstance(piece, _Element):
                written += piece['text']
            elif type(piece.opening) is self._tokens.HTMLEntityStart:
                written += self._character(piece).replace(_APOSTROPHE, "'")
            elif type(piece.opening) is not self._tokens.CommentStart:
                is_dynamic = True
        title, is_shown = self._site.link(written)
        label = label[0] if label else [_literal(written.strip().removeprefix(':').lstrip())]
        if not is_shown:
            self._out.append(_GAP)
        elif title is None or is_dynamic or self._in_link:
            self._write(label)
        else:
            self._write_anchor(title, label)

    def _write_anchor(self, title: str, label: list) -> None:
        """Writes the label of a link to a page, unless nothing of it shows."""
        start = len(self._out)
        self._out.append(_OPEN)
        self._in_link = True
        self._write(label)
        self._in_link = False
        if any(piece.strip(f' \t\n{_GAP}{_SEAM}{_COMMENT}') for piece in self._out[start + 1 :]):
            self._out.append(_CLOSE)
            self._targets.append(title)
        else:
            self._out[start] = _GAP

    def _write_external_link(self, link: _Element) -> None:
        if not link.opening['brackets']:
            self._write(link.parts[0])  # a bare address is its own label
        elif len(link.parts) > 1:
            self._write(link.parts[1])
        else:
            self._out.append(_GAP)

    def _write_tag(self, tag: _Element) -> None:
        name, content = self._name(tag), tag.parts[1] if len(tag.parts) > 1 else None
        if name in _DROPPED:
            self._out.append(f'{_BREAK}{_GAP}{_BREAK}' if name == 'table' else _GAP)
            return
        border = _BREAK if name in _BLOCKS else _SEAM
        self._out.append(border + _ITEM if name in ('li', 'dd', 'dt') else border)
        if content is None:
            return
        if name in ('nowiki', 'pre'):  # only entities are markup here
            for piece in content:
                is_entity = isinstance(piece, _Element)
                shown = self._character(piece) if is_entity else _unescaped(piece['text'])
                self._out.append(shown)
        else:
            self._write(content)
        self._out.append(border)


class LimitedConverter:
    """Converts pages within limits; a context manager.

    Long pages in another process: unclosed markup takes quadratic time, which no signal stops.
    """

    def __init__(self):
        """Raises InputError where mwparserfromhell is not installed."""
        Converter(Site())
        self._process = LimitedProcess(_MEMORY)

    def __enter__(self) -> LimitedConverter:
        return self

    def __exit__(self, *_) -> None:
        self._process.__exit__()

    def convert(self, site: Site, source: str) -> Wikitext:
        """The plain text of a page; InputError if the parser fails or exceeds a limit."""
        if len(source) <= _SHORT:
            return _convert((site, source))
        seconds = _SECONDS + _SECONDS_PER_CHARACTER * len(source)
        return self._process.call(_convert, (site, source), seconds)


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
