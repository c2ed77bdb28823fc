"""Pairs and hidden mentions marked one by one: the reference of `MarkedPairs`, `MaskedMentions`."""

from typing import NamedTuple

import numpy as np

from opql_jax.data.markup import TokenisedPassage, _row
from opql_jax.data.tokenizer import SpecialIds


class MarkedPair(NamedTuple):
    """One input of the relation encoder: an ordered pair of mentions in its context."""

    tokens: np.ndarray  # [length] int32, from [CLS] to [SEP]
    r1: int  # position of [R1], after the masked topic
    r2: int  # position of [R2], after the masked target
    topic: int  # entity id
    target: int  # entity id
    context_positions: np.ndarray  # [c] int32: first tokens of other entities' mentions
    context_entities: np.ndarray  # [c] int32


class MaskedMention(NamedTuple):
    """One input of entity pretraining: a passage with one mention hidden."""

    tokens: np.ndarray  # [length] int32, from [CLS] to [SEP]
    position: int  # position of [ENT]
    entity: int


def mark_pair(
    passage: TokenisedPassage,
    i: int,
    j: int,
    special: SpecialIds,
    max_context: int,
    masked: bool = True,
) -> MarkedPair:
    """Masks mention `i` as the topic ([ENT] [R1]) and `j` as the target ([ENT] [R2]).

    Not `masked`, names stay before their markers.

    Either may come first in the text, but they do not overlap.

    Returns:
        The marked input, at most `MARKUP_ROOM` tokens longer than the passage. Other mentions stay
        visible, but for what they share with the masked ones; those of a third entity that are
        whole are the context for L_el, `max_context` of them, evenly spread. Of several with the
        same first token only the longest is: one vector cannot retrieve two entities.
    """
    tokens, starts, ends, entities = passage
    topic, target = int(entities[i]), int(entities[j])
    hidden = (special.ent,) if masked else ()
    topic_marks, target_marks = (*hidden, special.r1), (*hidden, special.r2)
    # Among empty spans at one place the index decides, as it does in the text.
    topic_first = (starts[i], i) < (starts[j], j)
    first, second = (i, j) if topic_first else (j, i)
    a, b, c, d = int(starts[first]), int(ends[first]), int(starts[second]), int(ends[second])
    first_marks, second_marks = (
        (topic_marks, target_marks) if topic_first else (target_marks, topic_marks)
    )
    if not masked:
        a, c = b, d  # the marks take the place of nothing
    marks = len(topic_marks)
    marked = _row(
        [special.cls], tokens[:a], first_marks, tokens[b:c], second_marks, tokens[d:], [special.sep]
    )
    first_mark = a + marks
    second_mark = first_mark + (c - b) + marks
    r1, r2 = (first_mark, second_mark) if topic_first else (second_mark, first_mark)

    whole = ((ends <= a) | (starts >= b)) & ((ends <= c) | (starts >= d)) & (ends > starts)
    others = np.flatnonzero((entities != topic) & (entities != target) & whole)
    others = others[np.unique(starts[others], return_index=True)[1]]
    if len(others) > max_context:
        others = others[np.arange(max_context) * len(others) // max_context]
    begin = starts[others]
    positions = (
        1
        + begin
        + np.where(begin >= b, marks - (b - a), 0)
        + np.where(begin >= d, marks - (d - c), 0)
    )
    return MarkedPair(marked, r1, r2, topic, target, positions.astype(np.int32), entities[others])


def mask_mention(passage: TokenisedPassage, i: int, special: SpecialIds) -> MaskedMention:
    """Replaces mention `i` by [ENT], for RELIC: its entity is retrieved from the context."""
    a, b = int(passage.starts[i]), int(passage.ends[i])
    tokens = _row(
        [special.cls], passage.tokens[:a], [special.ent], passage.tokens[b:], [special.sep]
    )
    return MaskedMention(tokens, a + 1, int(passage.entities[i]))
