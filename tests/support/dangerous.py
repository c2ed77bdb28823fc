"""Characters that a terminal obeys, or that change what is seen of the text around them."""

import sys
import unicodedata

_DIRECTIONS = {'LRE', 'RLE', 'LRO', 'RLO', 'PDF', 'LRI', 'RLI', 'FSI', 'PDI'}
_TAGS, _ANNOTATIONS = range(0xE0000, 0xE0080), range(0xFFF9, 0xFFFC)
_OTHERS = {*_TAGS, *_ANNOTATIONS}


def is_dangerous(character: str) -> bool:
    """Whether Unicode calls it a control, a line, half of a pair, a tag, or a turn of direction."""
    return (
        unicodedata.category(character) in ('Cc', 'Zl', 'Zp', 'Cs')
        and character not in '\n\t'
        or unicodedata.bidirectional(character) in _DIRECTIONS
        or ord(character) in _OTHERS
    )


DANGEROUS = ''.join(filter(is_dangerous, map(chr, range(sys.maxunicode + 1))))
IN_TEXT = ''.join(
    character
    for character in DANGEROUS
    if character != '\0' and unicodedata.category(character) != 'Cs'
)


def dangerous_in(text: str) -> set[str]:
    return set(filter(is_dangerous, text))
