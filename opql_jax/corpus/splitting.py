"""Splits documents into passages of a bounded number of tokens, at the ends of sentences."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError, Document
from opql_jax.corpus.linking import Span
from opql_jax.corpus.sentences import sentence_starts

_WORD = re.compile(r'\S+')


class Passage(NamedTuple):
    """A piece of a document, with offsets into its own `text` (code points): a row of `tables.PASSAGES`.

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


def split_batch(
    batch: pa.RecordBatch, count_tokens: Callable[[str], int], max_tokens: int, title_prefix: bool = True
) -> pa.RecordBatch:
    """Splits the documents of a `linking.LINKED` batch: a `tables.PASSAGES` batch, in order.

    A pure function, which a loop, a pool of processes or a cluster may map over the batches of a corpus. See `split_document`
    for the arguments and errors.
    """
    passages = []
    for row in batch.to_pylist():
        mentions = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        document = Document(row['id'], row['title'], row['text'])
        passages += split_document(document, mentions, row['title_entity'], count_tokens, max_tokens, title_prefix)
    *columns, mentions = zip(*passages) if passages else [()] * len(tables.PASSAGES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, tables.PASSAGES)]
    return pa.RecordBatch.from_arrays([*arrays, tables.mention_array(mentions)], schema=tables.PASSAGES)


def split_document(
    document: Document,
    mentions: Sequence[Span],
    title_entity: int,
    count_tokens: Callable[[str], int],
    max_tokens: int,
    title_prefix: bool = True,
) -> list[Passage]:
    """Splits a document into passages of at most `max_tokens` tokens, at sentence ends.

    A sentence that is longer by itself is cut between words, a longer word between characters; a
    mention is never cut. All of the text but the space between passages is kept.

    Args:
        document: the text; its own links are not looked at.
        mentions: `(start, end, entity id)` in the document's text, by start, an outer one before those in it; two are
            disjoint or nested.
        title_entity: the entity the document is about, or -1.
        count_tokens: the number of tokens of a string, special tokens not counted.
        max_tokens: the bound on `count_tokens(passage.text)`.
        title_prefix: whether a passage that does not mention the title entity begins with "{title}: ", a mention of it, so
            that each passage holds pairs with it; not where the prefix would take more than half of the tokens.

    Raises:
        CorpusError: a mention alone does not fit, or `max_tokens` is less than 1.
    """
    if max_tokens < 1:
        raise CorpusError(f'max_tokens: {max_tokens} is less than 1')
    text, prefix = document.text, f'{document.title}: '
    prefix_tokens = count_tokens(prefix)
    if not title_prefix or title_entity < 0 or prefix_tokens > max_tokens // 2:
        prefix, prefix_tokens = '', 0
    mention_starts = [start for start, _, _ in mentions]

    def within(start: int, end: int) -> Sequence[Span]:
        return mentions[bisect.bisect_left(mention_starts, start) : bisect.bisect_left(mention_starts, end)]

    def prefix_of(start: int, end: int) -> str:
        return '' if any(entity == title_entity for _, _, entity in within(start, end)) else prefix

    def fits(start: int, end: int) -> bool:
        return count_tokens(prefix_of(start, end) + text[start:end]) <= max_tokens

    starts = sentence_starts(text, mentions)
    sizes = {}  # tokens of each piece, by its start
    pieces = []  # sentences, or parts of long ones
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
            needed = prefix_tokens if prefix_of(pieces[first][0], pieces[last + 1][1]) else 0
            if total + needed > max_tokens:
                break
            last += 1
        while last > first and not fits(pieces[first][0], pieces[last][1]):
            last -= 1
        start, end = pieces[first][0], pieces[last][1]
        prefix_here = prefix_of(start, end)
        shift = len(prefix_here) - start
        moved = [(s + shift, e + shift, entity) for s, e, entity in within(start, end)]
        if prefix_here:
            moved.insert(0, (0, len(document.title), title_entity))
        in_passage = starts[bisect.bisect_right(starts, start) : bisect.bisect_left(starts, end)]
        passages.append(
            Passage(
                document.id,
                document.title,
                title_entity,
                prefix_here + text[start:end],
                [0] + [s + shift for s in in_passage],
                moved,
            )
        )
        first = last + 1
    return passages


def _cut_sentence(
    document: Document, start: int, end: int, mentions: Sequence[Span], fits: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Cuts `[start, end)` into the longest spans that fit, between words where possible."""
    text = document.text
    ends = [word.end() for word in _WORD.finditer(text, start, end)]
    ends = _outside(ends, mentions)
    cuts = []
    while start < end:
        later = ends[bisect.bisect_right(ends, start) :]
        size = _longest(later, lambda stop: fits(start, stop))
        if size == 0:  # not even a word fits
            later = _outside(range(start + 1, later[0]), mentions)
            size = _longest(later, lambda stop: fits(start, stop))
            if size == 0:
                raise CorpusError(
                    f'document {document.id!r}: the text at {start} ({text[start : start + 40]!r}...) has no place to cut '
                    'within max_tokens; raise max_tokens or shorten the mention there'
                )
        cuts.append((start, later[size - 1]))
        start = later[size - 1]
        while start < end and text[start].isspace():
            start += 1
    return cuts


def _outside(offsets: Sequence[int], mentions: Sequence[Span]) -> list[int]:
    """The offsets that are not inside a mention."""
    starts = [start for start, _, _ in mentions]
    reached = [0, *itertools.accumulate((end for _, end, _ in mentions), max)]  # by the mentions before each
    return [offset for offset in offsets if reached[bisect.bisect_left(starts, offset)] <= offset]


def _longest(stops: Sequence[int], fits: Callable[[int], bool]) -> int:
    """How many of the first stops fit; doubles and halves, as counting tokens is the cost."""
    low, high = 0, 1
    while high <= len(stops) and fits(stops[high - 1]):
        low, high = high, high * 2
    return low + bisect.bisect_left(stops[low : high - 1], True, key=lambda stop: not fits(stop))
