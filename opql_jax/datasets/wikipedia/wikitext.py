"""Converts wikitext to plain text with links: the prose of a page, without templates, tables, notes, pictures and headings.

A paragraph or list item is a line of the text. The parser is mwparserfromhell's tokenizer, written in C; its stream of tokens
is read directly, because the tree that the package builds from it takes six times as long.
"""

from __future__ import annotations

import html
import itertools
import re
from typing import NamedTuple

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import CorpusError
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
    r'</?(?:abbr|b|bdi|big|blockquote|br|center|cite|code|dd|del|dfn|div|dl|dt|em|font|h[1-6]|hr|i|includeonly|ins|kbd|li|mark|'
    r'noinclude|nowiki|ol|onlyinclude|p|poem|pre|q|ref|references|rp|rt|ruby|s|samp|small|span|strike|strong|sub|sup|table|td|'
    r'th|tr|tt|u|ul|var|wbr)\b[^<>]*>',
    re.IGNORECASE,
)
_DROPPED = frozenset(
    'categorytree ce chem gallery graph h1 h2 h3 h4 h5 h6 hiero imagemap includeonly indicator inputbox mapframe maplink math '
    'ref references rp score script section source style syntaxhighlight table templatedata templatestyles timeline'.split()
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
# The traces of a removed template, as in '(; born 1970)' and 'text .', and their replacements.
_GAPS = [
    (re.compile(f'{_GAP}(?: ?{_GAP})+'), _GAP),
    (re.compile(f'\\((?=[ ,;:]*{_GAP})[ ,;:{_GAP}]*\\)'), _GAP),
    (re.compile(f'\\( ?{_GAP} ?(?:[,;:] ?)?'), '('),
    (re.compile(f'[,;: ] ?{_GAP} ?\\)'), ')'),
    (re.compile(f'{_GAP} ?\\)'), ')'),
    (re.compile(f' {_GAP} ?(?=[.,;](?:[ \n{_GAP}]|$))'), ''),
    (re.compile(f'{_GAP} ?(?=[.,;](?:[ \n{_GAP}]|$))'), ''),
    (re.compile(_GAP), ''),
]


class Wikitext(NamedTuple):
    """A page in plain text.

    Attributes:
        text: its paragraphs and list items, a line each.
        links: `(start, end, title)` of every link to a page that may be an article; code points of `text`, ascending, disjoint.
        templates: names of the templates of the page itself, in lower case; the magic word `__DISAMBIG__` counts as one.
    """

    text: str
    links: list[tuple[int, int, str]]
    templates: set[str]


class Converter:
    """Converts pages of one site, one at a time."""

    def __init__(self, site: Site):
        """Raises InputError where mwparserfromhell is not installed."""
        try:
            from mwparserfromhell.parser import CTokenizer, ParserError, tokens
        except ImportError as error:
            raise InputError(
                "wikitext needs mwparserfromhell: install the extra 'wiki', as in pip install -e '.[wiki]'"
            ) from error
        if CTokenizer is None:
            raise InputError('mwparserfromhell lacks its C tokenizer: install one of its wheels')
        self._site, self._kinds, self._failed = site, tokens, ParserError
        self._tokenizer = CTokenizer()
        self._handlers = {
            tokens.WikilinkOpen: self._link,
            tokens.WikilinkClose: self._link_end,
            tokens.TemplateOpen: self._template,
            tokens.ArgumentOpen: lambda _: self._leave_out(tokens.ArgumentOpen, tokens.ArgumentClose),
            tokens.TagOpenOpen: self._tag,
            tokens.TagOpenClose: self._tag_end,
            tokens.HTMLEntityStart: lambda _: self._out.append(_SEAM + self._entity()),
            tokens.ExternalLinkOpen: self._external_link,
            tokens.ExternalLinkClose: lambda _: None,
            tokens.HeadingStart: self._heading,
            tokens.CommentStart: self._comment,
        }

    def convert(self, source: str) -> Wikitext:
        """The plain text of a page.

        Raises:
            CorpusError: the parser fails on it.
        """
        source = _CONTROL.sub('', source)
        if '{|' in source:
            source = _INDENTED_TABLE.sub('', source)
        try:
            # Bold and italics are left to `_without_quotes`: they end with their line, which the tokenizer does not know.
            tokens = self._tokenizer.tokenize(source, 0, True)
        except self._failed as error:
            raise CorpusError(f'wikitext: {error}') from error
        self._tokens, self._out, self._targets, self._templates = iter(tokens), [], [], set()
        self._open_links, self._open_tags = [], []
        text_token, handlers, out = self._kinds.Text, self._handlers, self._out
        for token in self._each():
            if type(token) is text_token:
                out.append(self._plain(token['text']))
            else:
                handlers[type(token)](token)
        return Wikitext(*_finish(''.join(out), self._targets), self._templates)

    def _each(self):
        """The remaining tokens; handlers consume tokens of the same stream, and may put one back."""
        while (token := next(self._tokens, None)) is not None:
            yield token

    def _plain(self, text: str) -> str:
        if '<' in text:
            text = _STRAY.sub(_GAP, text)
        if '__' in text:
            if '__DISAMBIG__' in text:
                self._templates.add('disambig')
            text = _MAGIC_WORD.sub('', text)
        return text

    def _skip(self, opening, *closing) -> None:
        """Skips tokens to the one that closes an `opening` token."""
        depth = 1
        for token in self._tokens:
            kind = type(token)
            if kind is opening:
                depth += 1
            elif kind in closing:
                depth -= 1
                if not depth:
                    return

    def _leave_out(self, opening, *closing) -> None:
        self._skip(opening, *closing)
        self._out.append(_GAP)

    def _template(self, _) -> None:
        name = next(self._tokens)
        if type(name) is self._kinds.Text:
            self._templates.add(name['text'].strip().replace('_', ' ').lower())
        else:
            self._tokens = itertools.chain([name], self._tokens)
        self._leave_out(self._kinds.TemplateOpen, self._kinds.TemplateClose)

    def _heading(self, _) -> None:
        self._skip(self._kinds.HeadingStart, self._kinds.HeadingEnd)
        self._out.append(_BREAK)

    def _comment(self, _) -> None:
        self._skip(self._kinds.CommentStart, self._kinds.CommentEnd)
        self._out.append(_COMMENT)

    def _entity(self) -> str:
        """The character of an HTML entity whose start has been read."""
        written = '&'
        for token in self._tokens:
            kind = type(token)
            if kind is self._kinds.HTMLEntityEnd:
                break
            written += token['text'] if kind is self._kinds.Text else '#' if kind is self._kinds.HTMLEntityNumeric else 'x'
        return _unescaped(f'{written};')

    def _link(self, _) -> None:
        kinds, written, dynamic, labelled = self._kinds, [], False, False
        for token in self._tokens:
            kind = type(token)
            if kind is kinds.Text:
                written.append(token['text'])
            elif kind is kinds.WikilinkClose:
                break
            elif kind is kinds.WikilinkSeparator:
                labelled = True
                break
            elif kind is kinds.HTMLEntityStart:
                written.append(self._entity().replace(_APOSTROPHE, "'"))
            elif kind is kinds.CommentStart:
                self._skip(kinds.CommentStart, kinds.CommentEnd)
            elif kind is kinds.TemplateOpen:
                dynamic = True
                self._skip(kinds.TemplateOpen, kinds.TemplateClose)
            elif kind is kinds.ArgumentOpen:
                dynamic = True
                self._skip(kinds.ArgumentOpen, kinds.ArgumentClose)
            elif kind is kinds.TagOpenOpen:
                dynamic = True
                self._skip(kinds.TagOpenOpen, kinds.TagCloseClose, kinds.TagCloseSelfclose)
        written = ''.join(written)
        title, shown = self._site.link(written)
        if not shown:
            if labelled:
                self._skip(kinds.WikilinkOpen, kinds.WikilinkClose)
            self._out.append(_GAP)
            return
        if dynamic or any(start is not None for start in self._open_links):
            title = None
        self._open_links.append(None if title is None else len(self._out))
        if title is not None:
            self._targets.append(title)
            self._out.append(_OPEN)
        if not labelled:
            self._out.append(_literal(written.strip().removeprefix(':').lstrip()))
            self._link_end(_)

    def _link_end(self, _) -> None:
        start = self._open_links.pop()
        if start is None:
            return
        if any(piece.strip(f' \t\n{_GAP}{_SEAM}{_COMMENT}') for piece in self._out[start + 1 :]):
            self._out.append(_CLOSE)
        else:
            self._targets.pop()
            self._out[start] = _GAP

    def _external_link(self, token) -> None:
        if not token['brackets']:
            return  # a bare address is its own label
        kinds = self._kinds
        for token in self._tokens:
            kind = type(token)
            if kind is kinds.ExternalLinkSeparator:
                return
            if kind is kinds.ExternalLinkClose:
                self._out.append(_GAP)
                return
            if kind is kinds.TemplateOpen:
                self._skip(kinds.TemplateOpen, kinds.TemplateClose)

    def _tag(self, _) -> None:
        kinds, name = self._kinds, ''
        first = next(self._tokens)
        if type(first) is kinds.Text:
            name = first['text'].strip().lower()
        else:
            self._tokens = itertools.chain([first], self._tokens)
        has_content = self._attributes()
        if name in _DROPPED:
            if has_content:
                self._skip(kinds.TagOpenOpen, kinds.TagCloseClose, kinds.TagCloseSelfclose)
            self._out.append(f'{_BREAK}{_GAP}{_BREAK}' if name == 'table' else _GAP)
        elif has_content and name in ('nowiki', 'pre'):
            self._unparsed(name)
        else:
            if has_content:
                self._open_tags.append(name)
            self._out.append(f'{_BREAK}{_ITEM}' if name in ('li', 'dd', 'dt') else _BREAK if name in _BLOCKS else _SEAM)

    def _attributes(self) -> bool:
        """Skips the attributes of a tag; returns whether the tag has content."""
        kinds = self._kinds
        for token in self._tokens:
            kind = type(token)
            if kind is kinds.TagCloseOpen:
                return True
            if kind is kinds.TagCloseSelfclose:
                return False
            if kind is kinds.TagOpenOpen:
                self._skip(kinds.TagOpenOpen, kinds.TagCloseClose, kinds.TagCloseSelfclose)
        return False

    def _unparsed(self, name: str) -> None:
        """Text that the tokenizer does not parse."""
        pieces = []
        for token in self._tokens:
            if type(token) is self._kinds.TagOpenClose:
                break
            if type(token) is self._kinds.Text:
                pieces.append(token['text'])
        self._skip(self._kinds.TagOpenClose, self._kinds.TagCloseClose)
        text = _unescaped(''.join(pieces))
        self._out.append(f'{_SEAM}{text}{_SEAM}' if name == 'nowiki' else f'{_BREAK}{text}{_BREAK}')

    def _tag_end(self, _) -> None:
        self._skip(self._kinds.TagOpenClose, self._kinds.TagCloseClose)
        self._out.append(_BREAK if self._open_tags.pop() in _BLOCKS else _SEAM)


def _literal(text: str) -> str:
    """Text of which no character is markup."""
    return text.replace("'", _APOSTROPHE)


def _unescaped(text: str) -> str:
    """Replaces HTML entities by characters, none of which is markup; control characters become blanks."""
    return _literal(re.sub('[\x00-\x1f]', ' ', html.unescape(text)))


def _finish(text: str, targets: list[str]) -> tuple[str, list[tuple[int, int, str]]]:
    """Removes the marks from a text; returns the plain text and its links."""
    if _COMMENT in text:
        text = _COMMENT_LINE.sub('', text).replace(_COMMENT, '')
    text = _TRAIL.sub(rf'\1{_CLOSE}', text)
    if "''" in text:
        text = '\n'.join(_without_quotes(line) if "''" in line else line for line in text.split('\n'))
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
    """A line without the marks of bold and italics, which are distinguished from apostrophes by MediaWiki's rules."""
    parts = _QUOTES.split(line)
    texts, sizes = parts[::2], []  # a mark follows each text but the last
    for i, mark in enumerate(parts[1::2]):
        apostrophes = 1 if len(mark) == 4 else max(len(mark) - 5, 0)
        texts[i] += "'" * apostrophes
        sizes.append(len(mark) - apostrophes)
    if sum(size != 2 for size in sizes) % 2 and sum(size != 3 for size in sizes) % 2:
        # Both bold and italics stay open, so one bold mark is an apostrophe and italics: the first after a word of
        # one letter, else the first after a longer word, else the first after a space.
        bold = [i for i, size in enumerate(sizes) if size == 3]
        rank = lambda i: 2 if texts[i].endswith(' ') else texts[i][-2:-1] != ' '
        if bold:
            texts[min(bold, key=rank)] += "'"
    return ''.join(texts)
