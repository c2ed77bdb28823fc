"""Names, dates and quantities as places in a text."""

import re
from typing import NamedTuple

# Kinds that are values, not names.
VALUES = frozenset({'date', 'quantity'})
POSSESSIVE = re.compile(r"['’]s?$")


class Span(NamedTuple):
    """The characters `[start, end)` of a text, in code points, that name something.

    Attributes:
        start, end: where.
        kind: one of the values of `recognition.KINDS`, or UNKNOWN_KIND.
    """

    start: int
    end: int
    kind: str
