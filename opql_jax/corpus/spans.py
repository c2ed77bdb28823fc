"""Names, dates and quantities as places in a text, and how such places lie to each other."""

import bisect
import operator
import re
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeVar

# Kinds that are values, not names.
VALUES = frozenset({'date', 'quantity'})
# Longest name to search for: many names that begin alike may all match at each place of a text.
MAX_NAME = 200
POSSESSIVE = re.compile(r"['’]s?$")


class Span(NamedTuple):
    """The characters `[start, end)` of a text, and their kind (`recognition.KINDS` or unknown)."""

    start: int
    end: int
    kind: str


class Place(Protocol):
    """A `Span`, or a `Mention`: the characters `[start, end)` of a text."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


P = TypeVar('P', bound=Place)
_start, _end = operator.attrgetter('start'), operator.attrgetter('end')


def starting_in(places: Sequence[P], start: int, end: int) -> Sequence[P]:
    """The places that start in `[start, end)`; `places` are sorted by start."""
    first, last = (bisect.bisect_left(places, at, key=_start) for at in (start, end))
    return places[first:last]


def overlap(places: Sequence[Place], start: int, end: int) -> bool:
    """Whether one of some disjoint places, sorted by start, overlaps `[start, end)`."""
    i = bisect.bisect_right(places, start, key=_end)
    return i < len(places) and places[i].start < end


def covering(places: Sequence[P], at: int) -> P | None:
    """The one of some disjoint places, sorted by start, that has the character `at`; else None."""
    i = bisect.bisect_right(places, at, key=_start) - 1
    return places[i] if i >= 0 and at < places[i].end else None


def whole_words(name: str) -> str:
    """A pattern for a name where it stands as whole words: 'He' is not in 'Herbert'."""
    before, after = (r'\b' if c.isalnum() else '' for c in (name[0], name[-1]))
    return before + re.escape(name) + after
