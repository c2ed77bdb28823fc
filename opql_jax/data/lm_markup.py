"""The language model's input: visible topics, then [R1]; the answer is [ENT] [R2] (paper §4).

As tokens of one text, and as the arrays of many: what the model reads (`Texts`) and predicts
(`TextBucket`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.ranges import ranges
from opql_jax.data import batching, markup
from opql_jax.data.markup import JoinedPassages
from opql_jax.data.tokenizer import SpecialIds


class LMInput(NamedTuple):
    """One input of the language model, with t topics."""

    tokens: np.ndarray  # [length] int32, from [CLS] to [SEP]
    starts: np.ndarray  # [t] int32, position of each topic's first token
    r1: np.ndarray  # [t] int32, position of [R1] after each topic
    r2: int  # position of [R2], after the [ENT] of the answer


class MarkedCloze(NamedTuple):
    """n texts with a hidden mention each, and at most T topics; int32 but for `lengths`."""

    tokens: np.ndarray  # [n, longest], 0 after a text's [SEP]
    starts: np.ndarray  # [n, T], position of each topic's first token; 0 in unused slots
    r1: np.ndarray  # [n, T], position of [R1] after each topic; 0 in unused slots
    r2: np.ndarray  # [n], position of [R2], after the [ENT] of the answer
    lengths: np.ndarray  # [n] int64


class ClozeTexts:
    """Passages, each with a mention to be predicted, all mentions of whose entity are hidden.

    `base` [n] int64 are the tokens of each text without topics, each of which adds one.
    """

    def __init__(self, passages: JoinedPassages, target: np.ndarray, special: SpecialIds):
        """Hides mention `target[k]` of passage k."""
        _, starts, ends, entities, sizes = passages
        self._passages, self._special = passages, special
        self._begin, self._mentions = passages.begins.T
        owner, _ = ranges(0, sizes[:, 1])
        at, asked = self._mentions + target, (self._mentions + target)[owner]
        same, visible = entities == entities[asked], ends > starts
        # Hide the outermost name of the entity around the target: the rest would give it away.
        overlaps = np.maximum(starts, starts[asked]) < np.minimum(ends, ends[asked])
        holds_empty = (
            (starts <= starts[asked]) & (starts[asked] == ends[asked]) & (starts[asked] < ends)
        )
        held = np.flatnonzero(same & visible & (overlaps | holds_empty))
        rows, first = np.unique(owner[held], return_index=True)
        at[rows] = held[first]
        self._answer = at
        # Mentions inside a hidden one are hidden with it.
        self._hidden = np.flatnonzero(_outermost(same & visible, starts, ends, owner))
        border = np.zeros(len(passages.tokens) + 1, np.int64)
        begin = self._begin[owner]
        np.add.at(border, (begin + starts)[self._hidden], 1)
        np.add.at(border, (begin + ends)[self._hidden], -1)
        self._kept = np.cumsum(border)[:-1] == 0
        self._kept_before = np.concatenate([[0], np.cumsum(self._kept)])
        kept_of = self._kept_before[begin + ends] - self._kept_before[begin + starts]
        self._may_be_topic = _outermost(
            ~same & visible & (kept_of == ends - starts), starts, ends, owner
        )
        self._owner = owner
        marks = (
            np.bincount(owner[self._hidden], minlength=len(sizes)) + 1 + (starts[at] == ends[at])
        )
        kept = self._kept_before[self._begin + sizes[:, 0]] - self._kept_before[self._begin]
        self.base = kept + marks + 2

    def topics(self) -> tuple[np.ndarray, np.ndarray]:
        """Passage and index [n] of each outermost mention that is apart from what is hidden."""
        chosen = np.flatnonzero(self._may_be_topic)
        owner = self._owner[chosen]
        return owner, chosen - self._mentions[owner]

    def mark(self, topics: np.ndarray) -> MarkedCloze:
        """Marks topics, [n, T] indices of mentions among `topics()`, -1 in unused slots."""
        tokens, starts, ends, _, sizes = self._passages
        special, used = self._special, topics >= 0
        row, slot = np.nonzero(used)
        topic = self._mentions[row] + topics[row, slot]
        # A gap is before each token, and after the last; a topic's [R1] comes before [ENT] there.
        gaps = self._begin + np.arange(len(sizes))
        gap_of = lambda rows, place: gaps[rows] + place
        follows = np.zeros(len(tokens) + len(sizes), np.int64)
        follows[gap_of(row, ends[topic])] = 1
        inserted = follows.copy()
        answer_gap = gap_of(np.arange(len(sizes)), starts[self._answer])
        others = self._hidden[self._answer[self._owner[self._hidden]] != self._hidden]
        other_gap = gap_of(self._owner[others], starts[others])
        inserted[other_gap] += 1
        inserted[answer_gap] += 2
        before = np.concatenate([[0], np.cumsum(inserted)])
        kept = lambda rows, place: self._kept_before[self._begin[rows] + place]
        marks = lambda rows, place: before[gap_of(rows, place)]
        column = lambda rows, place: (
            1 + kept(rows, place) - kept(rows, 0) + marks(rows, place) - marks(rows, 0)
        )
        lengths = self.base + used.sum(axis=1)
        out = np.full((len(sizes), int(lengths.max(initial=2))), special.pad, np.int32)
        of_token, place = ranges(0, sizes[:, 0])
        of_token, place = of_token[self._kept], place[self._kept]
        at = column(of_token, place) + inserted[gap_of(of_token, place)]
        out[of_token, at] = tokens[self._kept]
        out[:, 0] = special.cls
        each, of_other = np.arange(len(sizes)), self._owner[others]
        out[each, lengths - 1] = special.sep
        out[of_other, column(of_other, starts[others]) + follows[other_gap]] = special.ent
        hidden = column(each, starts[self._answer]) + follows[answer_gap]
        out[each, hidden], out[each, hidden + 1] = special.ent, special.r2
        first, r1 = np.zeros((2, *topics.shape), np.int32)
        r1[row, slot] = column(row, ends[topic])
        out[row, r1[row, slot]] = special.r1
        first[row, slot] = column(row, starts[topic]) + inserted[gap_of(row, starts[topic])]
        return MarkedCloze(out, first, r1, (hidden + 1).astype(np.int32), lengths)


def _outermost(chosen, starts, ends, owner):
    """Which chosen mentions lie in no other chosen one of their passage; outer ones come first."""
    apart = owner * (int(ends.max(initial=0)) + 1)
    reached = np.maximum.accumulate(np.where(chosen, ends, 0) + apart) if len(owner) else apart
    return chosen & (starts + apart >= np.concatenate([[-1], reached[:-1]])[: len(owner)])


def mark_open_question(
    tokenizer, text: str, mentions: Sequence[tuple[int, int]], special: SpecialIds
) -> LMInput:
    """A question with its topics, `(start, end)` by start, marked, and [ENT] [R2] at its end."""
    passage = markup.tokenise_passage(tokenizer, text, [(start, end, 0) for start, end in mentions])
    ends, count = set(passage.ends.tolist()), len(passage.tokens)
    out, where, r1 = [special.cls], {}, {}
    for at in range(count + 1):
        if at in ends:
            r1[at] = len(out)
            out.append(special.r1)
        if at < count:
            where[at] = len(out)
            out.append(int(passage.tokens[at]))
    out += [special.ent, special.r2, special.sep]
    # A topic whose characters all normalise to nothing has no token: its mark stands for it.
    spans = zip(passage.starts.tolist(), passage.ends.tolist())
    places = [where[start] if start < end else r1[end] for start, end in spans]
    marks = [r1[end] for end in passage.ends.tolist()]
    tokens, starts, r1s = (np.array(each, np.int32) for each in (out, places, marks))
    return LMInput(tokens, starts, r1s, len(out) - 2)


class Texts(NamedTuple):
    """n texts of at most L tokens and T topics; int32. Optional arrays: training only."""

    tokens: np.ndarray  # [n, L]
    start: np.ndarray  # [n, T], position of each topic's first token
    r1: np.ndarray  # [n, T], position of each topic's [R1]
    r2: np.ndarray  # [n], position of [R2], just after the [ENT] of the answer
    used: np.ndarray  # [n, T] bool, which slots hold a topic
    # [n, T, G], memory entries that state an answer; -1 in unused slots.
    gold: np.ndarray | None = None
    # [n], passage whose entries must not be retrieved; -1 for none.
    passage: np.ndarray | None = None
    # [n, X], entities that must not be retrieved as targets; -1 in unused slots.
    exclude: np.ndarray | None = None


class TextBucket(NamedTuple):
    """Texts of one length bucket with their labels; int32 but for `absent`."""

    texts: Texts
    topic: np.ndarray  # [n, T], entities of the topics where known, else -1
    # [n, T] bool, topics for which the memory has no entry that states an answer.
    absent: np.ndarray
    label: np.ndarray  # [n], the entity to predict; -1 in unused rows
    answers: np.ndarray  # [n, A], all right entities; -1 in unused slots
    left_out: np.ndarray  # [n], topics of the passage for which the row has no room


class TextBatch(NamedTuple):
    """Texts by length: clozes, or questions under names of entities, whose `label` is -1."""

    texts: tuple[TextBucket, ...]


class TextRow(NamedTuple):
    """One row of a TextBucket, with t topics."""

    input: LMInput
    label: int = -1
    answers: Sequence[int] = ()
    topic: int = -1  # of all topics
    absent: bool = False  # of all topics
    exclude: Sequence[int] = ()


class TextSizes(NamedTuple):
    """Slots of a row; answers beyond these are cut, topics and excluded entities are not more."""

    topics: int = 1
    answers: int = 1
    exclude: int = 1


def pack_texts(
    rows: Sequence[TextRow], packer: batching.Packer, sizes: TextSizes, special: SpecialIds
) -> tuple[TextBucket, ...]:
    """The buckets of `rows` that `packer` accepted; no entry is gold, no passage is excluded."""
    topics, answers, exclude = sizes

    def pack(length, n, members):
        members = [rows[i] for i in members]
        inputs = [row.input for row in members]
        per_topic = lambda values, **kw: batching.pad_rows(
            [np.full(len(row.input.r1), v) for v, row in zip(values, members)], n, (topics,), **kw
        )
        texts = Texts(
            tokens=batching.pad_tokens([i.tokens for i in inputs], n, length, special),
            start=batching.pad_rows([i.starts for i in inputs], n, (topics,)),
            r1=batching.pad_rows([i.r1 for i in inputs], n, (topics,)),
            r2=batching.pad_rows([i.r2 for i in inputs], n),
            used=per_topic([True] * len(members), fill=False, dtype=bool),
            gold=np.full((n, topics, 1), -1, np.int32),
            passage=np.full(n, -1, np.int32),
            exclude=batching.pad_rows([row.exclude for row in members], n, (exclude,), -1),
        )
        return TextBucket(
            texts=texts,
            topic=per_topic([r.topic for r in members], fill=-1),
            absent=per_topic([r.absent for r in members], fill=False, dtype=bool),
            label=batching.pad_rows([r.label for r in members], n, fill=-1),
            answers=batching.pad_rows([r.answers[:answers] for r in members], n, (answers,), -1),
            left_out=np.zeros(n, np.int32),
        )

    return tuple(pack(*bucket) for bucket in packer.buckets())
