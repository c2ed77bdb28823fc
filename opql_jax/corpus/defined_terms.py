"""Terms that a text defines in brackets: 'Norgate Lines AS ("the Owner")', 'Northern Rail (NR)'."""

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.spans import VALUES, Span

_TERM = r'[A-Z][\w&.’\'-]*(?:[ /-][A-Z][\w&.’\'-]*){0,3}'
# In quotes, after words such as 'hereinafter referred to as the', or alone in capitals.
_DEFINED = re.compile(
    r'\s\((?:(?:together|each|individually|collectively|hereinafter|hereafter|herein|referred to'
    r'|called|known|defined|also|for short|abbreviated|or|as|in'
    rf'|this|agreement|,)[\s,]+){{0,6}}(?:the\s+|an?\s+)?["“‘\'](?:the\s+|an?\s+'
    rf'|The\s+)?(?P<quoted>{_TERM})["”’\']\)'
    r'|\s\((?P<letters>[A-Z][A-Za-z]{0,2}[A-Z&][A-Za-z]{0,6}(?:-[A-Z]+)?s?)\)'
    r'|,\s(?:hereinafter|hereafter)\s(?:(?:referred to|called|known)\s)?(?:as\s)?(?:the\s)?["“](?'
    rf':the\s|The\s)?(?P<named>{_TERM})["”]'
    r'|,?\s(?:hereinafter|hereafter)\s(?:referred to|called|known)\s(?:as\s)?(?:the\s)?'
    rf'(?P<called>{_TERM})(?=[,.;])'
)
# How many characters before a bracket to look for the name that it defines.
_BEFORE = 250


class Defined(NamedTuple):
    """A term, the characters `[start, end)` of what it stands for, and whether it is in quotes."""

    term: str
    start: int
    end: int
    is_quoted: bool


def defined_terms(text: str, spans: Sequence[Span]) -> list[Defined]:
    """The terms that a text defines for names in it (`spans`, by start, disjoint), in order."""
    found: list[Defined] = []
    ends, last = [span.end for span in spans], 0
    for match in _DEFINED.finditer(text):
        term = match['quoted'] or match['letters'] or match['named'] or match['called']
        least = max(last, match.start() - _BEFORE, text.rfind('\n', 0, match.start()) + 1)
        i = bisect.bisect_right(ends, match.start())
        before = [s for s in spans[max(0, i - 8) : i] if s.start >= least and s.kind not in VALUES]
        last = match.end()
        if match['letters']:
            place = _abbreviated(text, term, match.start())
            if place is not None and place >= least:
                found.append(Defined(term, place, match.start(), False))
            continue
        if not before:
            continue
        # Right before the bracket, or else first since the last term: "X, a company of Y (the
        # "Owner")".
        is_beside = not text[before[-1].end : match.start()].strip(' ,')
        beside = before[-1] if is_beside and before[-1].kind != 'place' else before[0]
        found.append(Defined(term, beside.start, beside.end, True))
    return found


def defines(text: str, term: str) -> bool:
    """Whether a text defines a term in quotes, or letters; its case does not matter."""
    for match in _DEFINED.finditer(text):
        defined = match['quoted'] or match['named'] or match['called']
        if (letters := match['letters']) and _abbreviated(text, letters, match.start()) is not None:
            defined = letters
        if defined and defined.casefold() == term.casefold():
            return True
    return False


def _abbreviated(text: str, letters: str, end: int) -> int | None:
    """The start of the words before `end` whose initials are `letters`; None if there are none."""
    wanted = [letter for letter in letters.removesuffix('s') if letter.isupper()]
    if len(wanted) < 2:
        return None
    words = list(re.finditer(r'[^\s-]+', text[max(0, end - _BEFORE) : end]))
    at = len(wanted)
    for word in reversed(words):
        if word[0][0].isupper():
            if word[0][0] != wanted[at - 1]:
                return None
            at -= 1
        elif word[0].lower() not in _SMALL or at == len(wanted):
            return None
        if at == 0:
            return max(0, end - _BEFORE) + word.start()
    return None


_SMALL = frozenset('a an and at by de del des di du et for in la le of on the to und von'.split())


def uses(text: str, terms: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of defined terms in a text, by start, where they are words by themselves."""
    if terms:
        for start, end, _ in MentionLinker(EntityVocab.from_names(terms)).link(text):
            if text[end : end + 1] != '-' and text[max(0, start - 1) : start] != '-':
                yield start, end
