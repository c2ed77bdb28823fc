"""Clozes one by one, as obviously as can be: the reference of `lm_markup.ClozeTexts`."""

from collections.abc import Sequence

import numpy as np

from opql_jax.data.lm_markup import LMInput
from opql_jax.data.markup import TokenisedPassage
from opql_jax.data.tokenizer import SpecialIds


def mark_cloze(
    passage: TokenisedPassage, target: int, topics: Sequence[int], special: SpecialIds
) -> LMInput:
    """Hides a mention of a passage; the other mentions of its entity, which would give the answer
    away, are hidden too.

    Args:
        passage: the tokenised passage.
        target: index of the mention to be predicted.
        topics: indices of topics, from `topics_beside`.
        special: marker ids.
    """
    same = np.flatnonzero(passage.entities == passage.entities[target])
    # Where a longer name of the entity holds the target, the rest of it would tell: the outermost
    # comes first.
    held_by = (
        int(i) for i in same if _overlap(passage, i, target) or _holds_empty(passage, i, target)
    )
    target = next((i for i in held_by if passage.ends[i] > passage.starts[i]), target)
    edits: list[tuple[int, int, tuple[int, ...]]] = [
        (int(passage.starts[target]), int(passage.ends[target]), (special.ent, special.r2))
    ]
    for i in same:
        start, end = int(passage.starts[i]), int(passage.ends[i])
        # What lies in a hidden mention is hidden with it.
        if end > start and all(end <= a or start >= b for a, b, _ in edits):
            edits.append((start, end, (special.ent,)))
    return _edited(passage.tokens, edits, passage.starts[topics], passage.ends[topics], special)


def topics_beside(passage: TokenisedPassage, target: int) -> np.ndarray:
    """Indices of the mentions that may be topics when a mention is hidden: of other entities, and
    apart from all that is hidden.
    """
    hidden = np.flatnonzero(passage.entities == passage.entities[target])
    whole = (passage.entities != passage.entities[target]) & (passage.ends > passage.starts)
    free = [i for i in np.flatnonzero(whole) if not any(_overlap(passage, i, j) for j in hidden)]
    # Of nested mentions the outermost, which comes first, is the topic.
    apart: list[int] = []
    for i in free:
        if not any(_overlap(passage, i, j) for j in apart):
            apart.append(int(i))
    return np.array(apart, np.int64)


def _overlap(passage, i, j):
    return (
        max(passage.starts[i], passage.starts[j]) < min(passage.ends[i], passage.ends[j]) or i == j
    )


def _holds_empty(passage, i, j):
    """Whether mention j has no token and stands in or before the tokens of i."""
    return passage.starts[i] <= passage.starts[j] == passage.ends[j] < passage.ends[i]


def _edited(tokens, hidden, starts, ends, special):
    """Puts marks in place of hidden tokens, (start, end, marks), the answer's first, and [R1] after
    each topic; all are disjoint.
    """
    replaced = {start: (end, marks) for start, end, marks in hidden}
    answer, followed = hidden[0][0], set(ends.tolist())
    out, where, r1, r2, at = [special.cls], {}, {}, 0, 0
    while at < len(tokens) or replaced:
        if at in followed and at not in r1:
            r1[at] = len(out)
            out.append(special.r1)
        elif at in replaced:
            end, marks = replaced.pop(at)
            out += marks
            r2 = len(out) - 1 if at == answer else r2
            at = end
        else:
            where[at] = len(out)
            out.append(int(tokens[at]))
            at += 1
    if at in followed and at not in r1:
        r1[at] = len(out)
        out.append(special.r1)
    out.append(special.sep)
    # A topic whose characters all normalise to nothing has no token: its mark stands for it.
    places = [
        where[int(start)] if start < end else r1[int(end)] for start, end in zip(starts, ends)
    ]
    array = lambda values: np.array(values, np.int32)
    return LMInput(array(out), array(places), array([r1[int(end)] for end in ends]), r2)
