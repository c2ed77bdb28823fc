"""The text of an HTML page, as people read it: without tags, scripts and styles."""

from __future__ import annotations

import html.parser

_SOFT_HYPHEN = '\xad'
_UNREAD = frozenset({'script', 'style', 'title'})  # the title is told apart
_BLOCKS = frozenset(
    'address article aside blockquote br body dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main'
    ' nav ol p pre section summary table td th tr ul'.split()
)


def read_html(source: str) -> tuple[str | None, str]:
    """The title of a page and its text, a line for each paragraph, heading, item or cell.

    The title is the first heading of level 1, which the text then lacks, or without one the page's `<title>`; None if it has neither.
    """
    page = _Page()
    page.feed(source)
    page.close()
    page.end_block()
    return page.heading or ' '.join(page.title.split()) or None, '\n'.join(page.blocks)


class _Page(html.parser.HTMLParser):
    """Collects the blocks of a page.

    Attributes:
        blocks: their texts, none of which is empty.
        heading: the first heading of level 1, '' if there is none.
        title: what stands in the first `<title>`.
    """

    def __init__(self):
        super().__init__()
        self.blocks: list[str] = []
        self.heading = self.title = ''
        self._unread = ''  # the tag in which nothing is read
        self._in_heading = self._has_title = self._in_drawing = False
        self._pieces: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag == 'br' and self._in_heading:
            self._pieces.append(' ')
        elif tag in _BLOCKS:
            self.end_block()
        self._in_heading = (self._in_heading or tag == 'h1') and not self.heading
        self._in_drawing = self._in_drawing or tag == 'svg'
        self._unread = tag if tag in _UNREAD else self._unread

    def handle_endtag(self, tag):
        if tag in _BLOCKS and not (tag == 'br' and self._in_heading):
            self.end_block()
        if tag == 'title' and self.title.strip():
            self._has_title = True
        if tag == 'svg':
            self._in_drawing = False
        if tag == 'h1':
            self._in_heading = False
        if tag == self._unread:
            self._unread = ''

    def handle_data(self, data):
        data = data.replace(_SOFT_HYPHEN, '')
        if self._unread == 'title':
            self.title += '' if self._has_title or self._in_drawing else data  # drawings in a page have titles, too
        elif not self._unread:
            self._pieces.append(data)

    def end_block(self):
        """Ends the paragraph, or what else was read since the last one."""
        block, self._pieces = ' '.join(''.join(self._pieces).split()), []
        if block and self._in_heading:
            self.heading, self._in_heading = block, False
        elif block:
            self.blocks.append(block)
