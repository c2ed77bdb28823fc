"""Documents cut into passages of bounded length."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

from opql_jax.corpus.documents import CorpusError, Document
from opql_jax.corpus.sentences import sentence_starts

TITLE_PREFIXES = ('missing', 'always', 'never')

Span = tuple[int, int, int]  # start, end (code points, half-open), entity id
_WORD = re.compile(r'\S+')


@dataclasses.dataclass(frozen=True)
class Passage:
    """A piece of a document, with offsets into its own `text` (code points).

    Attributes:
        doc_id: the document it comes from.
        title: that document's title.
        title_entity: the entity the document is about, or -1.
        text: at most `max_tokens` tokens; may begin with "{title}: ".
        sentence_starts: where its sentences start; the first is 0 and covers a title prefix.
        mentions: `(start, end, entity id)` by start, an outer one before those in it; two are disjoint or nested.
    """

    doc_id: str
    title: str
    title_entity: int
    text: str
    sentence_starts: list[int]
    mentions: list[Span]


def split_document(
    document: Document,
    mentions: Sequence[Span],
    title_entity: int,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    title_prefix: str = 'missing',
) -> list[Passage]:
    """Cuts a document into passages of at most `max_tokens` tokens, at sentence ends.

    A sentence that is longer by itself is cut between words, a longer word between characters; a
    mention is never cut. All of the text but the space between passages is kept.

    Args:
        document: the text; its own links are not looked at.
        mentions: `(start, end, entity id)` in the document's text, by start, an outer one before those in it; two are
            disjoint or nested.
        title_entity: the entity the document is about, or -1.
        count_tokens: the number of tokens of a string, special tokens not counted.
        max_tokens: the bound on `count_tokens(passage.text)`.
        title_prefix: when a passage begins with "{title}: ". 'missing': when it does not mention the
            title entity, so that each passage holds pairs with it. 'always', 'never': as they say. The
            prefix is a mention of the title entity, if there is one. It is left out where it would take
            more than half of the tokens.

    Raises:
        CorpusError: a mention alone does not fit, or an argument is out of range.
    """
    if title_prefix not in TITLE_PREFIXES:
        raise CorpusError(f'title_prefix {title_prefix!r} is not one of {", ".join(TITLE_PREFIXES)}')
    if max_tokens < 1:
        raise CorpusError(f'max_tokens: {max_tokens} is less than 1')
    text = document.text
    prefix = f'{document.title}: '
    prefix_tokens = count_tokens(prefix)
    if title_prefix == 'never' or (title_prefix == 'missing' and title_entity < 0) or prefix_tokens > max_tokens // 2:
        prefix, prefix_tokens = '', 0
    mention_starts = [start for start, _, _ in mentions]

    def within(start: int, end: int) -> Sequence[Span]:
        return mentions[bisect.bisect_left(mention_starts, start) : bisect.bisect_left(mention_starts, end)]

    def prefix_of(start: int, end: int) -> str:
        named = title_prefix == 'missing' and any(entity == title_entity for _, _, entity in within(start, end))
        return '' if named else prefix

    def fits(start: int, end: int) -> bool:
        return count_tokens(prefix_of(start, end) + text[start:end]) <= max_tokens

    starts = sentence_starts(text, mentions)
    sizes = {}
    pieces = []
    for start, end in zip(starts, starts[1:] + [len(text)]):
        sentence = text[start:end].rstrip()
        end = start + len(sentence)
        sizes[start] = count_tokens(sentence)
        if prefix_tokens + sizes[start] <= max_tokens or fits(start, end):
            pieces.append((start, end))
        else:
            for cut in _cut_sentence(document, start, end, within(start, end), fits):
                sizes[cut[0]] = count_tokens(text[cut[0] : cut[1]])
                pieces.append(cut)

    passages, first = [], 0
    while first < len(pieces):
        # Sums of counts find the last piece that may fit, a count of the whole text decides.
        last, total = first, sizes[pieces[first][0]]
        while last + 1 < len(pieces):
            total += sizes[pieces[last + 1][0]]
            needs = prefix_tokens if prefix_of(pieces[first][0], pieces[last + 1][1]) else 0
            if total + needs > max_tokens:
                break
            last += 1
        while last > first and not fits(pieces[first][0], pieces[last][1]):
            last -= 1
        start, end = pieces[first][0], pieces[last][1]
        in_passage = starts[bisect.bisect_right(starts, start) : bisect.bisect_left(starts, end)]
        passages.append(_passage(document, title_entity, start, end, prefix_of(start, end), in_passage, within(start, end)))
        first = last + 1
    return passages


def _passage(
    document: Document,
    title_entity: int,
    start: int,
    end: int,
    prefix: str,
    sentence_offsets: Sequence[int],
    mentions: Sequence[Span],
) -> Passage:
    shift = len(prefix) - start
    moved = [(s + shift, e + shift, entity) for s, e, entity in mentions]
    if prefix and title_entity >= 0:
        moved.insert(0, (0, len(document.title), title_entity))
    return Passage(
        document.id,
        document.title,
        title_entity,
        prefix + document.text[start:end],
        [0] + [s + shift for s in sentence_offsets],
        moved,
    )


def _cut_sentence(
    document: Document, start: int, end: int, mentions: Sequence[Span], fits: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Cuts `[start, end)` into the longest spans that fit, between words where possible."""
    text = document.text
    ends = [word.end() for word in _WORD.finditer(text, start, end)]
    ends = _outside(ends, mentions)
    cuts = []
    while start < end:
        here = ends[bisect.bisect_right(ends, start) :]
        size = _longest(here, lambda stop: fits(start, stop))
        if size == 0:  # not even a word fits
            here = _outside(range(start + 1, here[0]), mentions)
            size = _longest(here, lambda stop: fits(start, stop))
            if size == 0:
                raise CorpusError(
                    f'document {document.id!r}: the text at {start} ({text[start : start + 40]!r}...) has no place to cut '
                    'within max_tokens; raise max_tokens or shorten the mention there'
                )
        cuts.append((start, here[size - 1]))
        start = here[size - 1]
        while start < end and text[start].isspace():
            start += 1
    return cuts


def _outside(places: Sequence[int], mentions: Sequence[Span]) -> list[int]:
    """The places that are not inside a mention."""
    starts = [start for start, _, _ in mentions]
    reached = [0, *itertools.accumulate((end for _, end, _ in mentions), max)]  # by the mentions before each
    return [place for place in places if reached[bisect.bisect_left(starts, place)] <= place]


def _longest(places: Sequence[int], fits: Callable[[int], bool]) -> int:
    """How many of the first places fit; doubles and halves, as counting tokens is the cost."""
    low, high = 0, 1
    while high <= len(places) and fits(places[high - 1]):
        low, high = high, high * 2
    high = min(high, len(places) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(places[middle - 1]):
            low = middle
        else:
            high = middle
    return low
