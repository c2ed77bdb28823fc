"""Names, dates and quantities as places in a text."""

import re
from typing import NamedTuple

# Kinds that are values, not names.
VALUES = frozenset({'date', 'quantity'})
# Characters of a name, at most, that is looked for where it was not recognised. A text of names
# that begin alike, each longer by a word, has as many of them at each place as this has words.
MAX_NAME = 200
POSSESSIVE = re.compile(r"['’]s?$")


class Span(NamedTuple):
    """The characters `[start, end)` of a text, in code points, that name something.

    It is of a kind of `recognition.KINDS`, or UNKNOWN_KIND.
    """

    start: int
    end: int
    kind: str
