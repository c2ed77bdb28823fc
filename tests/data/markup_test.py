"""Masking mentions in tokenised passages."""

import numpy as np
import one_marked
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.data import markup
from opql_jax.data.tokenizer import special_ids, train_wordpiece

from spans import nested_spans, overlap

TEXTS = ['the film alien was directed by ridley scott and starred sigourney weaver in 1979 .'] * 2
TOKENIZER = train_wordpiece(TEXTS, 120)
SPECIAL = special_ids(TOKENIZER)


def ids(text):
    return TOKENIZER.encode(text, add_special_tokens=False).ids


# Names as they occur: letters of several scripts and digits first, then apostrophes, dots and the
# like too.
LETTERS = st.text(st.sampled_from("abcXYZ019éßŁñğ北京Ωж'-.&"), min_size=1, max_size=9)
NAMES = st.lists(LETTERS.filter(lambda w: w[0].isalnum()), min_size=1, max_size=3).map(' '.join)


def apart(spans):
    return [(i, j) for i, a in enumerate(spans) for j, b in enumerate(spans) if not overlap(a, b)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(nested_spans(12), min_size=1, max_size=5),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_many_pairs_and_many_masked_mentions_are_marked_as_one_by_one(spans, most, masked, seed):
    rng = np.random.default_rng(seed)
    passages = []
    for of_passage in spans:
        starts, ends = np.array(of_passage, np.int32).reshape(-1, 2).T
        entities = rng.integers(0, 5, len(starts)).astype(np.int32)
        tokens = rng.integers(100, 200, 12).astype(np.int32)
        passages.append(markup.TokenisedPassage(tokens, starts, ends, entities))
    chosen = [(p, *both) for p, of_passage in enumerate(spans) for both in apart(of_passage)]
    many = markup.MarkedPairs(passages, *np.array(chosen, int).reshape(-1, 3).T, SPECIAL, masked)
    order = rng.permutation(len(chosen))
    positions, entities = many.context(order, len(chosen) + 2, most)
    assert positions.dtype == entities.dtype == np.int32
    assert positions.shape == (len(chosen) + 2, most)
    assert (entities[len(chosen) :] == -1).all()
    tokens, r1, r2 = many.batch(order, len(chosen) + 2, 18)
    for row, (p, i, j) in enumerate(chosen[k] for k in order):
        one = one_marked.mark_pair(passages[p], i, j, SPECIAL, most, masked)
        padding = [SPECIAL.pad] * (18 - len(one.tokens))
        assert tokens[row].tolist() == one.tokens.tolist() + padding
        assert (r1[row], r2[row], many.lengths[order[row]]) == (one.r1, one.r2, len(one.tokens))
        used = entities[row] >= 0
        assert positions[row][used].tolist() == one.context_positions.tolist()
        assert (positions[row][~used] == 0).all()
        assert entities[row][used].tolist() == one.context_entities.tolist()

    with_mentions = [passage for passage in passages if len(passage.entities)]
    mention = np.array([rng.integers(len(passage.entities)) for passage in with_mentions], int)
    hidden = markup.MaskedMentions(markup.join(with_mentions), mention, SPECIAL)
    order = rng.permutation(len(with_mentions))
    tokens, position = hidden.batch(order, len(order) + 1, 16)
    for row, k in enumerate(order):
        one = one_marked.mask_mention(with_mentions[k], mention[k], SPECIAL)
        assert hidden.lengths[k] == len(one.tokens)
        assert hidden.entity[k] == one.entity
        assert position[row] == one.position
        assert tokens[row].tolist() == one.tokens.tolist() + [SPECIAL.pad] * (16 - len(one.tokens))


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from('ab é\u0301北.\u200b-'), min_size=1, max_size=30), st.data())
def test_nested_mentions_have_the_tokens_of_their_characters(text, data):
    spans = data.draw(nested_spans(len(text)))
    p = markup.tokenise_passage(TOKENIZER, text, [(a, b, k) for k, (a, b) in enumerate(spans)])
    borders = sorted({0, len(text), *(place for span in spans for place in span)})
    pieces = {a: ids(text[a:b]) for a, b in zip(borders, borders[1:])}
    assert p.tokens.tolist() == [token for piece in pieces.values() for token in piece]
    assert p.entities.tolist() == list(range(len(spans))) and (np.diff(p.starts) >= 0).all()
    for (a, b), start, end in zip(spans, p.starts, p.ends):
        inside = (piece for at, piece in pieces.items() if a <= at < b)
        assert p.tokens[start:end].tolist() == [token for piece in inside for token in piece]


@pytest.mark.parametrize('name', ['Alien', 'Ridley Scott', '北京'])
def test_a_question_masks_its_topic_and_appends_the_unknown_answer(name):
    text = f'who directed {name} in 1979?'
    q = markup.mark_questions(TOKENIZER, [text], [(13, 13 + len(name))], SPECIAL)[0]
    s = SPECIAL
    said = *ids('who directed'), s.ent, s.r1, *ids('in 1979?'), s.ent, s.r2
    assert q.tokens.tolist() == [s.cls, *said, s.sep]
    assert q.tokens[q.r1] == s.r1 and q.tokens[q.r2] == s.r2


@settings(max_examples=150)
@given(
    st.lists(
        st.tuples(st.sampled_from(['', ' ', '. ', ' by ', '-']), NAMES), min_size=1, max_size=6
    ),
    st.data(),
)
def test_sentences_begin_at_the_first_token_of_their_characters(pieces, data):
    text, mentions = 'The ', []
    for k, (between, name) in enumerate(pieces):
        text += between
        mentions.append((len(text), len(text) + len(name), k))
        text += name
    # Sentences begin outside of mentions, or with one.
    places = [p for p in range(len(text)) if not any(start < p < end for start, end, _ in mentions)]
    starts = [0, *sorted(data.draw(st.sets(st.sampled_from(places), max_size=4)) - {0})]
    found, first = markup.tokenise_sentences(TOKENIZER, text, mentions, starts)
    plain = markup.tokenise_passage(TOKENIZER, text, mentions)
    for one, other in zip(found, plain):
        np.testing.assert_array_equal(one, other)
    assert first.dtype == np.int32 and len(first) == len(starts)
    apart, _ = markup.space_mentions(text, mentions)
    borders = markup.unspaced_borders(text, mentions)
    moved = [start + sum(place <= start for place in borders) for start in starts]
    offsets = TOKENIZER.encode(apart, add_special_tokens=False).offsets
    assert first.tolist() == [sum(begin < place for begin, _ in offsets) for place in moved]


@st.composite
def pairs(draw):
    """A passage whose tokens are their own numbers, with two mentions, and how many are kept."""
    left, first, between, second, right = (draw(st.integers(low, 40)) for low in (0, 1, 0, 1, 0))
    starts = np.array([left, left + first + between], np.int32)
    total = left + first + between + second + right
    tokens, ends = np.arange(total, dtype=np.int32), starts + np.array([first, second], np.int32)
    passage = markup.TokenisedPassage(tokens, starts, ends, np.array([1, 0], np.int32))
    return passage, draw(st.integers(8, 60))


@settings(max_examples=400)
@given(pairs())
def test_a_text_is_cut_around_a_pair(pair):
    passage, most = pair
    cut = markup.around_pair(passage, most)
    assert len(cut.tokens) <= most and (np.diff(cut.tokens) > 0).all()
    np.testing.assert_array_equal(cut.entities, passage.entities)
    if len(passage.tokens) <= most:
        np.testing.assert_array_equal(cut.tokens, passage.tokens)
    spans = list(zip(passage.starts, passage.ends, cut.starts, cut.ends))
    for start, end, new_start, new_end in spans:
        kept = cut.tokens[new_start:new_end]
        # Of a name nothing is left out but the end of one that is longer than a part of the text
        # that is kept.
        np.testing.assert_array_equal(kept, cut.tokens[(cut.tokens >= start) & (cut.tokens < end)])
        assert len(kept) and kept[0] == start
        assert len(kept) == end - start or end - start > most // 2 - most // 4
    if passage.ends[1] - passage.starts[0] <= most < len(passage.tokens):
        assert len(cut.tokens) == most and (np.diff(cut.tokens) == 1).all()
    elif most < len(passage.tokens):
        assert 0 <= cut.ends[0] <= cut.starts[1]
