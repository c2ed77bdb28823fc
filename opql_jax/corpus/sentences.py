"""Splitting edited English text into sentences, by rules."""

import re
from collections.abc import Sequence

import numpy as np

from opql_jax.corpus.words import word_list

# Only the first of several stops begins a match, or the search would be quadratic.
_GAP = re.compile(r"""(?<![.!?…])(?P<stop>[.!?…]++)["'”’»)\]]*\s+|\n+\s*""")
_LAST_WORD = re.compile(r'[^\s("“‘\[]*$')
_OPENING = '"\'“‘«([{$£€¡¿*–—- '

_BEFORE_NAMES = word_list('before_names')
_MAY_END = word_list('may_end')
_OPENERS = word_list('openers')
_DOTTED = re.compile(r'(?:\w\.)+\w$')


def sentence_starts(text: str, mentions: Sequence[tuple[int, int, object]] = ()) -> list[int]:
    """The offsets (code points) where a text's sentences start, rising; none if it is blank.

    A sentence ends at a stop followed by space and something other than a lower-case letter, which
    a text without any capital may have there, except after abbreviations and initials, and at every
    line break. No sentence starts inside a mention, `(start, end, entity)` by start.
    """
    first = len(text) - len(text.lstrip())
    if first == len(text):
        return []
    starts = [first]
    position, in_lower_case = 0, text.islower()
    for gap in _GAP.finditer(text):
        start = gap.end()
        if start >= len(text) or start <= first:
            continue
        may_go_on = gap['stop'] and '\n' not in gap[0]
        if may_go_on and not _ends_sentence(text, gap, in_lower_case):
            continue
        while position < len(mentions) and mentions[position][1] <= start:
            position += 1
        if position < len(mentions) and mentions[position][0] < start:
            continue
        starts.append(start)
    return starts


def _ends_sentence(text: str, gap: re.Match[str], in_lower_case: bool) -> bool:
    stop_at, start = gap.span()
    following = text[start : start + 40].lstrip(_OPENING)
    if not following or (following[0].islower() and not in_lower_case):
        return False
    if gap['stop'] != '.':
        return True
    word = _LAST_WORD.search(text, max(0, stop_at - 40), stop_at)[0]  # type: ignore[index]  # it matches any text
    if in_lower_case:
        word, following = word.capitalize(), following.capitalize()
    if word in _BEFORE_NAMES:
        return False
    initial = len(word) == 1 and word.isupper() and word != 'I'
    if initial or word in _MAY_END or _DOTTED.match(word):
        return re.split(r'\W', following, maxsplit=1)[0] in _OPENERS
    return True


def sentence_numbers(
    starts: np.ndarray, counts: np.ndarray, passage: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """The number of the sentence at an offset of a passage, from 1 through all: `[n]` int64."""
    # One rising sequence, for a single search.
    keys = (np.repeat(np.arange(len(counts)), counts) << 32) | starts
    return np.searchsorted(keys, (passage.astype(np.int64) << 32) | offset, side='right')
