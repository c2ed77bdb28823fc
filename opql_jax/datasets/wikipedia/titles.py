"""Titles of wiki pages: which page a link leads to, and whether the text shows the link at all."""

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote

from opql_jax.core.checkout import load_toml

_SPACES = re.compile('[ _\t\n\xa0\u1680\u180e\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+')
_DIRECTIONS = re.compile('[\u200e\u200f\u202a-\u202e]')
_ILLEGAL = re.compile(r'[\x00-\x1f\x7f<>\[\]{|}\ufffd]')
_FILE, _CATEGORY = 6, 14
_PREFIXES = load_toml('datasets/wikipedia/prefixes.toml')
_LANGUAGES = frozenset(_PREFIXES['languages'])


class Link(NamedTuple):
    """The title that a link leads to, None if no article, and whether the text shows the link."""

    title: str | None
    shown: bool


@dataclasses.dataclass(frozen=True)
class Site:
    """The settings of a wiki that concern titles, from the head of its dump."""

    # The number of each namespace by its lower-case name, besides the English names.
    namespaces: Mapping[str, int] = dataclasses.field(default_factory=dict)
    first_letter: bool = True  # whether titles begin with a capital that links may write small

    def link(self, written: str) -> Link:
        """The page that `[[written]]` leads to; HTML entities must have been replaced."""
        if '%' in written:
            written = unquote(written)
        title = _SPACES.sub(' ', _DIRECTIONS.sub('', written.partition('#')[0])).strip(' ')
        plain = not title.startswith(':')  # a colon makes an ordinary link of any
        title = title.removeprefix(':').lstrip(' ')
        prefix, colon, _ = title.partition(':')
        if colon:
            name = prefix.rstrip(' ').lower()
            if number := self._numbers.get(name):
                return Link(None, not (plain and number in (_FILE, _CATEGORY)))
            if name in _LANGUAGES:
                return Link(None, not plain)
        if not title or _ILLEGAL.search(title):
            return Link(None, True)
        first = title[0].upper() if self.first_letter else title[0]
        # 'ß' has no capital of one letter.
        return Link(first + title[1:] if len(first) == 1 else title, True)

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {**_PREFIXES['namespaces'], **self.namespaces}
