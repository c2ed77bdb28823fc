"""The language model's input: what is visible, what is hidden, and where the marks are."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.data import batching, lm_markup, markup
from opql_jax.data.lm_markup import LMInput
from opql_jax.data.markup import TokenisedPassage
from opql_jax.data.tokenizer import SpecialIds

from spans import nested_spans

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, ent=4, r1=5, r2=6)


# The reference: clozes one by one, as obviously as can be.


def mark_cloze(passage, target, topics, special):
    """Hides a mention, and the other mentions of its entity, which would give the answer away."""
    same = np.flatnonzero(passage.entities == passage.entities[target])
    # Where a longer name of the entity holds the target, the rest of it would tell: the outermost
    # comes first.
    held_by = (int(i) for i in same if _overlap(passage, i, target) or _holds(passage, i, target))
    target = next((i for i in held_by if passage.ends[i] > passage.starts[i]), target)
    edits = [(int(passage.starts[target]), int(passage.ends[target]), (special.ent, special.r2))]
    for i in same:
        start, end = int(passage.starts[i]), int(passage.ends[i])
        # What lies in a hidden mention is hidden with it.
        if end > start and all(end <= a or start >= b for a, b, _ in edits):
            edits.append((start, end, (special.ent,)))
    return _edited(passage.tokens, edits, passage.starts[topics], passage.ends[topics], special)


def topics_beside(passage, target):
    """The mentions that may be topics: of other entities, and apart from all that is hidden."""
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
    starts, ends = passage.starts, passage.ends
    return i == j or max(starts[i], starts[j]) < min(ends[i], ends[j])


def _holds(passage, i, j):
    """Whether mention j has no token and stands in or before the tokens of i."""
    return passage.starts[i] <= passage.starts[j] == passage.ends[j] < passage.ends[i]


def _edited(tokens, hidden, starts, ends, special):
    """Puts marks in place of hidden tokens, (start, end, marks), and [R1] after each topic."""
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
    places = [where[int(a)] if a < b else r1[int(b)] for a, b in zip(starts, ends)]
    array = lambda values: np.array(values, np.int32)
    return LMInput(array(out), array(places), array([r1[int(end)] for end in ends]), r2)


@settings(max_examples=200, deadline=None)
@given(st.lists(nested_spans(12), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_clozes_of_a_batch_are_those_of_one_by_one(spans, seed):
    rng = np.random.default_rng(seed)
    texts = []
    for of_text in spans:
        starts, ends = np.array([*of_text, *[(12, 12)] * (not of_text)], np.int32).T
        # Some names have no token of their own.
        ends = np.where(rng.random(len(starts)) < 0.1, starts, ends).astype(np.int32)
        entities = rng.integers(0, 4, len(starts)).astype(np.int32)
        tokens = rng.integers(100, 200, 12).astype(np.int32)
        texts.append(TokenisedPassage(tokens, starts, ends, entities))
    target = np.array([rng.integers(len(text.entities)) for text in texts])
    many = lm_markup.ClozeTexts(markup.join(texts), target, SPECIAL)
    owner, mention = many.topics()
    chosen = [rng.permutation(mention[owner == k])[:3] for k in range(len(texts))]
    marked = many.mark(batching.pad_rows(chosen, len(texts), (3,), -1, np.int64))
    for k, text in enumerate(texts):
        beside = topics_beside(text, int(target[k]))
        assert mention[owner == k].tolist() == beside.tolist()
        one = mark_cloze(text, int(target[k]), chosen[k], SPECIAL)
        count = len(chosen[k])
        found = marked.tokens[k].tolist()
        assert found == [*one.tokens, *[0] * (marked.tokens.shape[1] - len(one.tokens))]
        found = (marked.lengths[k], many.base[k] + count, marked.r2[k])
        assert found == (len(one.tokens), len(one.tokens), one.r2)
        assert marked.starts[k, :count].tolist() == one.starts.tolist()
        assert marked.r1[k, :count].tolist() == one.r1.tolist()
        assert not marked.starts[k, count:].any() and not marked.r1[k, count:].any()
    assert {array.dtype for array in marked[:4]} == {np.dtype(np.int32)}
