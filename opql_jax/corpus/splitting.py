"""Splits documents into passages of a bounded number of tokens, at the ends of sentences."""

import bisect
import itertools
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus import spans, tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.layout import is_statement
from opql_jax.corpus.linking import Span
from opql_jax.corpus.sentences import sentence_starts

_log = logging.getLogger(__name__)

_WORD = re.compile(r'\S+')
# A rest of at most this many characters is tried as a whole again; longer ones cost a count each.
_LONG_REST = 1000


class Passage(NamedTuple):
    """A piece of a document, with offsets in its own `text`: a row of `tables.PASSAGES`."""

    doc_id: str
    title: str
    title_entity: int  # the entity the document is about, or -1
    text: str  # at most `max_tokens` tokens; may begin with "{title}: "
    sentence_starts: list[int]  # the first is 0 and covers a title prefix
    mentions: list[Span]  # by start, outer ones first; two are disjoint or nested


def title_before(title: str) -> str:
    """A passage's beginning that does not mention its title entity, see `split_document`."""
    return f'{title}: '


def title_length(passage: Mapping) -> int:
    """The characters of the title before a row of prepared `passages`; 0 if it is not there."""
    before = title_before(passage['title'])
    return len(before) if passage['text'].startswith(before) else 0


def text_start(passage: Mapping) -> int:
    """Where the text of a passage begins, after its title, unless it has no other text."""
    cut = title_length(passage)
    return cut if cut < len(passage['text']) else 0


def split_batch(
    batch: pa.RecordBatch,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    title_prefix: bool = True,
) -> pa.RecordBatch:
    """`split_document` of a `linking.LINKED` batch: a `tables.PASSAGES` batch. A pure function."""
    passages = []
    for row in batch.to_pylist():
        mentions = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        document, about = Document(row['id'], row['title'], row['text']), row['title_entity']
        limits = count_tokens, max_tokens, title_prefix
        passages += split_document(document, mentions, about, *limits)
    *columns, mentions = zip(*passages) if passages else [()] * len(tables.PASSAGES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, tables.PASSAGES)]
    arrays.append(tables.mention_array(mentions))
    return pa.RecordBatch.from_arrays(arrays, schema=tables.PASSAGES)


def split_document(
    document: Document,
    mentions: Sequence[Span],
    title_entity: int,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    title_prefix: bool = True,
) -> list[Passage]:
    """Splits a document into passages of at most `max_tokens` tokens, at sentence ends.

    A line that states something by itself, as a row of a table does, is a passage by itself. A long
    sentence is cut between words, a longer word between characters. A mention is not cut unless it
    is longer than a passage; then no passage mentions it, and a warning is logged. Only space
    between passages is left out.

    Mentions are `(start, end, entity id)` by start, an outer one before those in it, disjoint or
    nested, and none begins or ends with space; a passage has at most twice as many as tokens. With
    `title_prefix` a passage that does not mention `title_entity` (-1: none) begins with "{title}:
    ", a mention of it, unless that takes more than half of the tokens. InputError: `max_tokens` is
    below 1, or too few for a character.
    """
    if max_tokens < 1:
        raise InputError(f'max_tokens: {max_tokens} is less than 1')
    text, prefix = document.text, title_before(document.title)
    prefix_tokens = count_tokens(prefix)
    if not title_prefix or title_entity < 0 or prefix_tokens > max_tokens // 2:
        prefix, prefix_tokens = '', 0
    mention_starts = [start for start, _, _ in mentions]
    title_starts = [start for start, _, entity in mentions if entity == title_entity]
    borders = unspaced_borders(text, mentions)

    def within(start: int, end: int) -> range:
        return range(*(bisect.bisect_left(mention_starts, at) for at in (start, end)))

    def prefix_of(start: int, end: int) -> str:
        first, last = (bisect.bisect_left(title_starts, at) for at in (start, end))
        return prefix if first == last else ''

    def count(start: int, end: int, prefix: str = '') -> int:
        cuts = borders[bisect.bisect_right(borders, start) : bisect.bisect_left(borders, end)]
        return count_tokens(prefix + _with_spaces(text, start, end, cuts))

    def few_mentions(start: int, end: int) -> bool:
        return len(within(start, end)) <= 2 * max_tokens

    def fits(start: int, end: int) -> bool:
        return few_mentions(start, end) and count(start, end, prefix_of(start, end)) <= max_tokens

    starts = sentence_starts(text, mentions)
    sizes = {}  # tokens of each piece, by its start
    pieces = []  # sentences, or parts of long ones
    for start, end in zip(starts, starts[1:] + [len(text)]):
        end = start + len(text[start:end].rstrip())
        sizes[start] = count(start, end)
        surely = few_mentions(start, end) and prefix_tokens + sizes[start] <= max_tokens
        if surely or fits(start, end):
            pieces.append((start, end))
        else:
            inside = within(start, end)
            in_sentence = mentions[inside.start : inside.stop]
            for cut in _cut_sentence(document, start, end, in_sentence, fits):
                sizes[cut[0]] = count(*cut)
                pieces.append(cut)

    statements = _statements(text)
    statement = lambda piece: spans.covering(statements, piece[0])
    passages, first, cut_mentions = [], 0, []
    while first < len(pieces):
        # Sums of counts find the last piece that may fit, a count of the whole text decides.
        start, end = pieces[first]
        last, total = first, sizes[start]
        while last + 1 < len(pieces) and statement(pieces[first]) == statement(pieces[last + 1]):
            next_start, next_end = pieces[last + 1]
            total += sizes[next_start]
            needed = prefix_tokens if prefix_of(start, next_end) else 0
            if total + needed > max_tokens or not few_mentions(start, next_end):
                break
            last += 1
        while last > first and not fits(start, pieces[last][1]):
            last -= 1
        end = pieces[last][1]
        prefix_here = prefix_of(start, end)
        shift = len(prefix_here) - start
        inside = [mentions[i] for i in within(start, end)]
        cut_mentions += [mention for mention in inside if mention[1] > end]
        moved = [(s + shift, e + shift, entity) for s, e, entity in inside if e <= end]
        if prefix_here:
            moved.insert(0, (0, len(document.title), title_entity))
        in_passage = starts[bisect.bisect_right(starts, start) : bisect.bisect_left(starts, end)]
        sentences = [0, *(s + shift for s in in_passage)]
        of_document = document.id, document.title, title_entity
        passages.append(Passage(*of_document, prefix_here + text[start:end], sentences, moved))
        first = last + 1
    if cut_mentions:
        start, end, _ = cut_mentions[0]
        first_of_them = f'the first [{start}, {end}): {text[start : start + 40]!r}...'
        left_out = f'left out {len(cut_mentions)} mentions longer than a passage'
        told = f'{left_out} of {max_tokens} tokens, {first_of_them}'
        _log.warning(f'document {document.id!r}: {told}')
    return passages


def _statements(text: str) -> list[spans.Span]:
    """The places of lines that state something by themselves, see `layout.is_statement`."""
    found, start = [], 0
    if '\n' in text and (': ' in text or ' | ' in text):
        for line in text.split('\n'):
            if is_statement(line):
                found.append(spans.Span(start, start + len(line), 'statement'))
            start += len(line) + 1
    return found


def space_mentions(text: str, mentions: Sequence[Span]) -> tuple[str, list[Span]]:
    """A text with spaces around its mentions, as passages are tokenised, and the mentions moved."""
    cuts = unspaced_borders(text, mentions)
    return _with_spaces(text, 0, len(text), cuts), [
        (start + bisect.bisect_right(cuts, start), end + bisect.bisect_left(cuts, end), entity)
        for start, end, entity in mentions
    ]


def unspaced_borders(text: str, mentions: Sequence[Span]) -> list[int]:
    """Borders of mentions inside the text and not beside a space, increasing."""
    borders = sorted({place for start, end, _ in mentions for place in (start, end)})
    inside = (place for place in borders if 0 < place < len(text))
    return [p for p in inside if not (text[p - 1].isspace() or text[p].isspace())]


def _with_spaces(text: str, start: int, end: int, cuts: Sequence[int]) -> str:
    """`text[start:end]` with a space at each of the offsets `cuts`."""
    return ' '.join(text[a:b] for a, b in zip([start, *cuts], [*cuts, end]))


def _cut_sentence(
    document: Document,
    start: int,
    end: int,
    mentions: Sequence[Span],
    fits: Callable[[int, int], bool],
) -> list[tuple[int, int]]:
    """Cuts `[start, end)` into the longest spans that fit, between words where possible."""
    text = document.text
    word_ends = _outside([word.end() for word in _WORD.finditer(text, start, end)], mentions)
    failed: set[int] = set()  # ends of words and of mentions that did not fit

    def longest(stops: Sequence[int]) -> int | None:
        """The last stop after `start` up to which the text fits, by few counts."""
        first = bisect.bisect_right(stops, start)
        if first == len(stops) or (stops[first] in failed and stops[first] - start > _LONG_REST):
            return None
        low, high = 0, 1
        while first + high <= len(stops) and fits(start, stops[first + high - 1]):
            low, high = high, high * 2
        most = min(first + high - 1, len(stops))
        too_long = lambda stop: not fits(start, stop)
        stop = bisect.bisect_left(stops, True, first + low, most, key=too_long)
        if stop == first:
            failed.add(stops[first])
            return None
        return stops[stop - 1]

    cuts, word_end, inside_word = [], start, []
    while start < end:
        stop = longest(word_ends)
        if stop is None:  # not even a word fits
            if start >= word_end:
                word_end = word_ends[bisect.bisect_right(word_ends, start)]
                inside_word = _outside(range(start + 1, word_end), mentions)
            stop = longest(inside_word)
        if stop is None:  # nor a mention
            stop = longest(range(start + 1, end + 1))
        if stop is None:
            raise InputError(
                f'max_tokens is too small: document {document.id!r}, {text[start]!r} at {start}'
            )
        cuts.append((start, stop))
        start = stop
        while start < end and text[start].isspace():
            start += 1
    return cuts


def _outside(offsets: Sequence[int], mentions: Sequence[Span]) -> list[int]:
    """The offsets that are not inside a mention."""
    starts = [start for start, _, _ in mentions]
    # By the mentions before each.
    reached = [0, *itertools.accumulate((end for _, end, _ in mentions), max)]
    return [offset for offset in offsets if reached[bisect.bisect_left(starts, offset)] <= offset]
