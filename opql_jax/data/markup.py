"""Marks mentions in tokens: [ENT] hides a name, [R1] and [R2] mark topic and target (paper §2).

The passage is tokenised once, in plain form; a pair of its mentions is marked by replacing token
spans. A masked mention's name therefore leaves no trace in the input: neither in the tokens nor in
their positions.
"""

import bisect
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from opql_jax.core.ranges import ranges
from opql_jax.corpus.splitting import space_mentions, unspaced_borders
from opql_jax.data.tokenizer import SpecialIds

# [CLS] and [SEP], and at most two tokens more than each of the two mentions had.
MARKUP_ROOM = 6
# Texts tokenised at a time.
_BATCH = 256


class TokenisedPassage(NamedTuple):
    """A passage as tokens, with the token spans of its m mentions; int32.

    Mentions have their indices in `passages.parquet`. One without characters that normalise to
    anything is empty: start == end.
    """

    tokens: np.ndarray  # [n]
    starts: np.ndarray  # [m]
    ends: np.ndarray  # [m], half-open
    entities: np.ndarray  # [m]


class JoinedPassages(NamedTuple):
    """p passages end to end, as of `TokenisedPassage`; positions are those in their passage."""

    tokens: np.ndarray  # [n] int32
    starts: np.ndarray  # [m] int32
    ends: np.ndarray  # [m] int32
    entities: np.ndarray  # [m] int32
    sizes: np.ndarray  # [p, 2] int64, tokens and mentions of each

    @property
    def begins(self) -> np.ndarray:
        """[p, 2] int64: where the tokens and the mentions of each passage begin."""
        return np.cumsum(self.sizes, axis=0) - self.sizes


class PlacedMentions(NamedTuple):
    """One input of the relation encoder for all pairs of a passage's m mentions (all int32)."""

    tokens: np.ndarray  # [length], from [CLS] to [SEP]
    first: np.ndarray  # [m], position of a mention's first token
    last: np.ndarray  # [m], and of its last


class MarkedQuestion(NamedTuple):
    """A question with its topic masked and the unknown answer appended."""

    tokens: np.ndarray  # [length] int32, from [CLS] to [SEP]
    r1: int
    r2: int


def tokenise_passage(
    tokenizer: Tokenizer, text: str, mentions: Sequence[tuple[int, int, int]]
) -> TokenisedPassage:
    """Tokenises a text once and finds the tokens that overlap each mention's characters.

    Mentions are (start, end, entity) in code points, half-open, by start, an outer one before those
    in it; two are disjoint or nested. The result has no [CLS] and [SEP]. No token reaches across
    the border of a mention: what a name leaves of a word ('s' of 'Americans') is tokenised by
    itself, so it does not show what the name was.
    """
    (passage,) = tokenise_passages(tokenizer, [(text, mentions)])
    return passage


def tokenise_passages(
    tokenizer: Tokenizer, passages: Iterable[tuple[str, Sequence[tuple[int, int, int]]]]
) -> list[TokenisedPassage]:
    """`tokenise_passage` of each text with its mentions; the tokenizer reads several at a time."""
    passages, found = iter(passages), []
    while some := [space_mentions(*passage) for passage in itertools.islice(passages, _BATCH)]:
        encodings = tokenizer.encode_batch([text for text, _ in some], add_special_tokens=False)
        found += [_with_mentions(encoding, each[1]) for encoding, each in zip(encodings, some)]
    return found


def tokenise_pair(
    tokenizer: Tokenizer, text: str, topic: tuple[int, int], target: tuple[int, int]
) -> TokenisedPassage:
    """A text with two mentions, code points, by start: entity 0 is the topic, 1 the target."""
    mentions = sorted([(*topic, 0), (*target, 1)], key=lambda mention: mention[:2])
    return tokenise_passage(tokenizer, text, mentions)


def tokenise_sentences(
    tokenizer: Tokenizer,
    text: str,
    mentions: Sequence[tuple[int, int, int]],
    sentence_starts: Sequence[int],
) -> tuple[TokenisedPassage, np.ndarray]:
    """`tokenise_passage`, and [sentences] int32: the first token of each sentence."""
    cuts = unspaced_borders(text, mentions)
    moved = [start + bisect.bisect_right(cuts, start) for start in sentence_starts]
    text, mentions = space_mentions(text, mentions)
    encoding = tokenizer.encode(text, add_special_tokens=False)
    begins = np.asarray(encoding.offsets, np.int64).reshape(-1, 2)[:, 0]
    return _with_mentions(encoding, mentions), np.searchsorted(begins, moved).astype(np.int32)


def place_mentions(passage: TokenisedPassage, special: SpecialIds) -> PlacedMentions:
    """A passage as one input for all its pairs; a mention without tokens is the token after it."""
    tokens = _row([special.cls], passage.tokens, [special.sep])
    first = 1 + passage.starts
    return PlacedMentions(tokens, first, np.maximum(passage.ends, first))


def around_pair(passage: TokenisedPassage, most: int) -> TokenisedPassage:
    """At most `most` tokens of a passage: around both mentions, or around each if far apart."""
    tokens, starts, ends, entities = passage
    if len(tokens) <= most:
        return passage
    begin, end = int(starts[0]), int(ends[1])
    if end - begin <= most:
        begin = max(0, min(begin - (most - (end - begin)) // 2, len(tokens) - most))
        kept = np.arange(begin, begin + most)
    else:
        half = most // 2
        around = [max(0, min(int(start) - half // 2, len(tokens) - half)) for start in starts]
        kept = np.unique(np.concatenate([np.arange(first, first + half) for first in around]))
    place = lambda at: np.asarray(np.searchsorted(kept, at), np.int32)
    return TokenisedPassage(tokens[kept], place(starts), place(ends), entities)


class MarkedPairs:
    """Ordered pairs of mentions that do not overlap, each an input of the relation encoder.

    The topic is masked as [ENT] [R1], the target as [ENT] [R2]; not `masked`, names stay before
    their markers. Other mentions stay visible, but for what they share with these two. A row has
    `lengths` [n] tokens, at most `MARKUP_ROOM` more than its passage.
    """

    def __init__(
        self,
        passages: JoinedPassages | Sequence[TokenisedPassage],
        passage,
        i,
        j,
        special: SpecialIds,
        masked: bool = True,
    ):
        """Takes each pair's passage [n], and the indices of topic `i` and target `j` in it."""
        if not isinstance(passages, JoinedPassages):
            passages = join(passages)
        self._passages = passages
        tokens, starts, ends, _, sizes = passages
        offset, mentions = passages.begins[passage].T
        self._passage, self._mentions = passage, mentions
        self._i, self._j = i, j = mentions + i, mentions + j
        # Among empty spans at one place the index decides, as it does in the text.
        topic_first = (starts[i] < starts[j]) | ((starts[i] == starts[j]) & (i < j))
        first, second = np.where(topic_first, i, j), np.where(topic_first, j, i)
        a, b, c, d = starts[first], ends[first], starts[second], ends[second]
        if not masked:
            a, c = b, d
        marks = 2 if masked else 1  # of a mention
        self.lengths = sizes[passage, 0] - (b - a) - (d - c) + 2 + 2 * marks
        self._tokens = tokens
        self._special = special
        self._topic_first = topic_first
        self._masked = masked
        # Positions of the markers, and how far each token in `tokens` is behind its position in a
        # row: before the first marker, after it, and after the second.
        self._markers = np.stack([a + marks, a + 2 * marks + c - b])
        self._shifts = np.stack([offset - 1, b - a - marks, d - c - marks])
        self._spans = a, b, c, d

    def batch(self, chosen, size: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs `chosen`: tokens [size, length], r1 [size], r2 [size]; int32.

        Rows are padded, and those that are left over are empty texts.
        """
        special, row, at = self._special, np.arange(len(chosen)), np.arange(length)
        first, second = self._markers[:, chosen, None]
        before, between, after = self._shifts[:, chosen, None]
        last = self.lengths[chosen, None] - 1
        source = at + before + (at > first) * between + (at > second) * after
        tokens = np.full((size, length), special.pad, np.int32)
        text = self._tokens.take(source, mode='clip')
        tokens[: len(chosen)] = np.where(at < last, text, special.pad)
        r1, r2 = np.zeros((2, size), np.int32)
        topic_first = self._topic_first[chosen]
        r1[: len(chosen)] = np.where(topic_first, *self._markers[:, chosen])
        r2[: len(chosen)] = np.where(topic_first, *self._markers[::-1, chosen])
        hidden = (first, second) if self._masked else ()
        for places, token in [
            *((marker[:, 0] - 1, special.ent) for marker in hidden),
            (0, special.cls),
            (r1[: len(chosen)], special.r1),
            (r2[: len(chosen)], special.r2),
            (last[:, 0], special.sep),
        ]:
            tokens[row, places] = token
        tokens[len(chosen) :, :2] = special.cls, special.sep
        return tokens, r1, r2

    def context(self, chosen, size: int, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The context for L_el of the pairs `chosen` [m]: at most so many mentions, evenly spread.

        They are of third entities and whole. Of several with the same first token only the longest
        counts: one vector cannot retrieve two entities. Returns positions [size, most], 0 in unused
        slots, and entities [size, most], -1 there; int32.
        """
        passages = self._passages
        positions, entities = np.zeros((size, most), np.int32), np.full((size, most), -1, np.int32)
        if not most or not len(chosen):
            return positions, entities
        owner, place = ranges(0, passages.sizes[self._passage[chosen], 1])
        pair = chosen[owner]
        mention = self._mentions[pair] + place
        a, b, c, d = (span[pair] for span in self._spans)
        start = passages.starts[mention]
        end = passages.ends[mention]
        entity = passages.entities[mention]
        topic, target = passages.entities[self._i[pair]], passages.entities[self._j[pair]]
        other = (entity != topic) & (entity != target)
        whole = ((end <= a) | (start >= b)) & ((end <= c) | (start >= d)) & (end > start)
        kept = np.flatnonzero(other & whole)
        # Of several with the same first token, the first is the longest.
        same = (owner[kept][1:] == owner[kept][:-1]) & (start[kept][1:] == start[kept][:-1])
        kept = kept[np.concatenate([[True], ~same])] if len(kept) else kept
        counts = np.bincount(owner[kept], minlength=len(chosen))
        row, slot = ranges(0, np.minimum(counts, most))
        spread = np.where(counts[row] > most, slot * counts[row] // most, slot)
        one = kept[(np.cumsum(counts) - counts)[row] + spread]
        marks = 2 if self._masked else 1
        moved = np.where(start >= b, marks - (b - a), 0) + np.where(start >= d, marks - (d - c), 0)
        positions[row, slot], entities[row, slot] = (1 + start + moved)[one], entity[one]
        return positions, entities


def join(passages: Sequence[TokenisedPassage]) -> JoinedPassages:
    """Passages end to end."""
    none = np.empty(0, np.int32)
    tokens, starts, ends, entities = (
        np.concatenate([none, *(p[field] for p in passages)]) for field in range(4)
    )
    sizes = np.array([(len(p.tokens), len(p.entities)) for p in passages], np.int64).reshape(-1, 2)
    return JoinedPassages(tokens, starts, ends, entities, sizes)


def end_to_end(joined: Sequence[JoinedPassages]) -> JoinedPassages:
    """Passages that were joined already."""
    if len(joined) == 1:
        return joined[0]
    return JoinedPassages(*(np.concatenate(column) for column in zip(join([]), *joined)))


class MaskedMentions:
    """Passages with a mention each replaced by [ENT]: `lengths` [n] int64, `entity` [n] int32."""

    def __init__(self, passages: JoinedPassages, mention, special: SpecialIds):
        """Hides mention `mention[k]` of passage k."""
        begin, mentions = passages.begins.T
        at = mentions + mention
        self._start, hidden = passages.starts[at], passages.ends[at] - passages.starts[at]
        self.lengths, self.entity = passages.sizes[:, 0] - hidden + 3, passages.entities[at]
        self._tokens = passages.tokens
        self._begin = begin
        self._skipped = hidden - 1
        self._special = special

    def batch(self, chosen, size: int, length: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows `chosen`, filled up alike: tokens [size, length], places of [ENT] [size]."""
        special, row, at = self._special, np.arange(len(chosen)), np.arange(length)
        position, last = self._start[chosen, None] + 1, self.lengths[chosen, None] - 1
        source = at - 1 + self._begin[chosen, None] + (at > position) * self._skipped[chosen, None]
        tokens = np.full((size, length), special.pad, np.int32)
        text = self._tokens.take(source, mode='clip')
        tokens[: len(chosen)] = np.where(at < last, text, special.pad)
        tokens[row, 0] = special.cls
        tokens[row, position[:, 0]], tokens[row, last[:, 0]] = special.ent, special.sep
        tokens[len(chosen) :, :2] = special.cls, special.sep
        positions = np.zeros(size, np.int32)
        positions[: len(chosen)] = position[:, 0]
        return tokens, positions


def mark_questions(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    spans: Sequence[tuple[int, int]],
    special: SpecialIds,
) -> list[MarkedQuestion]:
    """Masks the topics at the characters `spans`: [CLS] ... [ENT] [R1] ... [ENT] [R2] [SEP]."""
    marked = []
    pairs = zip(texts, spans, strict=True)
    apart = [space_mentions(text, [(start, end, 0)]) for text, (start, end) in pairs]
    encodings = tokenizer.encode_batch([text for text, _ in apart], add_special_tokens=False)
    for encoding, (_, mentions) in zip(encodings, apart):
        tokens, starts, ends, _ = _with_mentions(encoding, mentions)
        topic, answer = (special.ent, special.r1), (special.ent, special.r2, special.sep)
        question = _row([special.cls], tokens[: starts[0]], topic, tokens[ends[0] :], answer)
        marked.append(MarkedQuestion(question, int(starts[0]) + 2, len(question) - 2))
    return marked


def _row(*parts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Tokens end to end, int32."""
    return np.concatenate(parts, dtype=np.int32, casting='unsafe')


def _with_mentions(encoding, mentions):
    """A `tokenizers.Encoding` with the token spans of its mentions, see `tokenise_passage`."""
    offsets = np.asarray(encoding.offsets, np.int64).reshape(-1, 2)
    spans = np.asarray(mentions, np.int64).reshape(-1, 3)
    # Token t overlaps [start, end) when t.end > start and t.start < end; both sides are sorted.
    starts = np.searchsorted(offsets[:, 1], spans[:, 0], side='right')
    ends = np.searchsorted(offsets[:, 0], spans[:, 1])
    columns = encoding.ids, starts, np.maximum(starts, ends), spans[:, 2]
    return TokenisedPassage(*(np.asarray(column, np.int32) for column in columns))
