"""Finds who says 'I' outside of quotes: the speaker of a line, a mail's writer, the author."""

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.layout import TIME
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import Span, covering, overlap
from opql_jax.corpus.words import word_list

_FIRST_PERSON = re.compile(r"(?<![\w.'’&-])(?:I|[Mm]y|[Mm]e|[Mm]yself|[Mm]ine)(?![\w&-]|\.\w)")
_NAME = r'[^\W\d_](?:[^\n<>:;,()|"“”\[\]]{0,58}[^\s<>:;,()|"“”\[\]])?'
_FULL_NAME = (
    r'(?:[A-Z]\.|[A-Z][^\W\d_]+)(?:[ \'’-](?:(?:de|van|von|der|la|le|al|bin|di) )?(?:[A-Z]\.'
    r'|[A-Z][^\W\d_]+)){1,4}'
)
# '[12:03] ana: ...', '12:03 <ana> ...', '12:03 - ana: ...', '<ana> ...'
_CHAT = re.compile(
    rf'\s*(?:(?:{TIME}[\s,-]+)?<[@+ ]?(?P<marked>{_NAME})>|{TIME}[\s,-]+(?P<timed>{_NAME}):)\s'
)
# 'Ana Petrov: I ...', 'ANA: I ...'; what else stands before a colon is a label.
_SPOKEN = re.compile(
    rf'\s*(?P<name>{_FULL_NAME}|[A-Z][^\W\d_]+):\s(?=[^\n]{{0,200}}?(?<![\w\'’])(?:I|[Mm]y)\b)'
)
_NO_SPEAKERS = word_list('no_speakers')
_FROM = re.compile(rf'\s*(?:From|Sender):\s+"?(?P<name>{_NAME})"?(?=\s*(?:<|\[|\(|$))', re.M)
_HEADER = re.compile(r'\s*(?:To|Cc|Date|Sent|Subject|Reply-To|Message-ID|X-[\w-]+):', re.I)
_WROTE = re.compile(
    rf'(?:^|[,>]|\bat\s[\d:. APMapm]+|\d)\s*(?P<name>{_NAME})\s*(?:<[^<>\n]*>'
    r'|\([^()\n]*\))?\s*(?:wrote|writes|said):\s*$'
)
_QUOTE = re.compile(r'\s*(?P<marks>>(?:[ \t]*>)*)')
# Statements of authorship: bylines, 'My name is ...', and the ends of letters.
_STATED = (
    re.compile(
        rf"\b(?:[Mm]y (?:full )?name is|I am called|I was christened) (?P<name>{_FULL_NAME}"
        r"|[A-Z][^\W\d_]+)"),
    re.compile(rf"(?:^|[.!?]\s+)(?:I am|I’m|I'm|I,) (?P<name>{_FULL_NAME})(?=[,.;!?]| and )",
        re.M),
    re.compile(
        r'^(?:[Bb]y|[Ww]ritten by|[Aa]uthor:|author =|[Tt]old by'
        rf'|#+ [Bb]y) ?"?(?P<name>{_FULL_NAME})"?\.?$', re.M),
    re.compile(
        r"\b(?:[Dd]iary|[Jj]ournal|[Mm]emoirs?|[Aa]utobiography|[Ll]etters?|[Ll]og|[Rr]eport"
        rf"|[Nn]otes|[Tt]estimony|[Ss]tatement) (?:of|by|from) (?P<name>{_FULL_NAME})(?=$"
        r"|[.,:\n])", re.M),
    re.compile(
        r'^(?:Yours(?: \w+)?|Sincerely(?: yours)?|(?:Best|Kind|Warm) (?:regards|wishes)'
        rf'|Regards|Love|Faithfully|Signed),?\s+(?P<name>{_FULL_NAME})$', re.M),
)  # fmt: skip
_CAPITAL_BEFORE = re.compile(r'(?<!\w)[A-Z][\w-]* $')
_DAYS = word_list('days')
_QUOTED = re.compile(r'“[^”\n]{0,2000}”|"[^"\n]{0,2000}"')


class Turn(NamedTuple):
    """What one person says or writes, `[start, end)`, and where the text names that person."""

    start: int
    end: int
    name_start: int
    name_end: int


def turns(text: str, title: str = '') -> list[Turn]:
    """The lines of an unfilled text with a known speaker or a named author, by start, disjoint."""
    if not _FIRST_PERSON.search(text):
        return []
    author = _author(text, title)
    found: list[Turn] = []
    by_depth: dict[int, tuple[int, int] | None] = {0: author}
    wrote: tuple[int, int] | None = None
    start = wrote_depth = 0
    for line in text.split('\n'):
        end = start + len(line)
        quote = _QUOTE.match(line)
        depth = quote['marks'].count('>') if quote else 0
        begin = start + (quote.end() if quote else 0)
        chat = _CHAT.match(text, begin, end) or _spoken(text, begin, end)
        if chat:
            name = chat.span(chat.lastgroup or 0)
            found.append(Turn(chat.end(), end, *name))
        elif mail := _FROM.match(text, begin, end):
            by_depth[depth] = mail.span('name')
            wrote = None
        elif line.rstrip().endswith(':') and (
            attribution := _WROTE.search(text, max(begin, end - 300), end)
        ):
            wrote, wrote_depth = attribution.span('name'), depth
        elif line.strip() and not _HEADER.match(text, begin, end):
            # The writer of a quotation is named above it, or in its first line.
            if wrote and (depth == wrote_depth + 1 or depth == wrote_depth > 0):
                by_depth[depth] = wrote
            wrote = None
            by_depth.setdefault(depth, None)
            by_depth = {level: name for level, name in by_depth.items() if level <= depth}
            if name := by_depth[depth]:
                found.append(Turn(begin, end, *name))
        start = end + 1
    return found


def _spoken(text: str, start: int, end: int) -> re.Match[str] | None:
    spoken = _SPOKEN.match(text, start, end)
    return spoken if spoken and spoken['name'].lower() not in _NO_SPEAKERS else None


def _author(text: str, title: str) -> tuple[int, int] | None:
    """Where a text names its author; None unless it names exactly one."""
    found = {}
    for pattern in _STATED:
        for match in pattern.finditer(text):
            found.setdefault(match['name'], match.span('name'))
        for match in pattern.finditer(title):
            if (at := text.find(match['name'])) >= 0:
                found.setdefault(match['name'], (at, at + len(match['name'])))
    return next(iter(found.values())) if len(found) == 1 else None


def first_persons(
    text: str, said: Sequence[Turn], mentions: Sequence[Mention] = ()
) -> Iterator[tuple[int, int, Turn]]:
    """The first 'I', 'my' or 'me' of each sentence and turn, outside of quotes and mentions."""
    if not said:
        return
    quotes = [Span(*match.span(), 'quote') for match in _QUOTED.finditer(text)]
    starts = sentence_starts(text, mentions)
    last, sentence_places = None, {*starts, *(turn.start for turn in said)}
    for match in _FIRST_PERSON.finditer(text):
        start, end = match.span()
        # "George I", "World War I"
        before = _CAPITAL_BEFORE.search(text, max(0, start - 30), start)
        if before and match[0] == 'I' and before.start() not in sentence_places:
            if before[0].strip() not in _DAYS:
                continue
        turn = covering(said, start)
        if not turn or covering(quotes, start) or overlap(mentions, start, end):
            continue
        sentence = bisect.bisect_right(starts, start), turn
        if sentence != last:
            yield start, end, turn
            last = sentence
