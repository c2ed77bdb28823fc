"""One input of the reader: where each token stands, and how what is too long is cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.data.reading import fair_lengths, lengths_in_turn, reading_input, titled
from opql_jax.data.tokenizer import load_tokenizer, special_ids

TOKENIZER = load_tokenizer('default')
SPECIAL = special_ids(TOKENIZER)
BORN = titled('Ada Lovelace', 'She was born in London, in 1815.')
PASSAGES = [BORN, 'Björk sang in Reykjavík.', 'No.']


def read(most=448, question='Where was she born?', passages=PASSAGES):
    return reading_input(TOKENIZER, question, passages, SPECIAL, most)


def test_a_token_stands_where_its_characters_say():
    found = read()
    for token, passage, start, end in zip(found.tokens, found.passage, found.start, found.end):
        if passage >= 0:
            piece = TOKENIZER.id_to_token(int(token)).removeprefix('##')
            plain = TOKENIZER.normalizer.normalize_str(PASSAGES[passage][start:end])
            assert piece == plain or piece == '[UNK]'
    assert sorted(set(found.passage.tolist())) == [-1, 0, 1, 2]


def test_each_passage_begins_after_a_separator():
    found = read()
    assert found.tokens[0] == SPECIAL.cls and found.tokens[-1] == SPECIAL.sep
    for number, first in enumerate(found.first):
        assert found.tokens[first] == SPECIAL.sep and found.passage[first + 1] == number


@pytest.mark.parametrize('most', [32, 40, 64])
def test_an_input_is_never_longer_than_asked_for(most):
    found = read(most, passages=['word ' * 300, 'short one', 'word ' * 90])
    assert len(found.tokens) <= most
    assert (found.passage == 1).sum() == 2  # the short one is whole
    found = read(448, question='why ' * 1000)  # which leaves room for the passages
    assert len(found.tokens) <= 448 and (found.passage == 0).sum() > 5


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 120))
def test_the_longest_are_cut_to_one_length(lengths, room):
    lengths = np.array(lengths, np.int64)
    kept = fair_lengths(lengths, room)
    assert (kept <= lengths).all() and kept.sum() == min(lengths.sum(), max(room, 0))
    cut = kept[kept < lengths]
    assert not len(cut) or (cut.max() - cut.min() <= 1 and kept.max(initial=0) <= cut.max() + 1)


@given(st.lists(st.integers(0, 50), max_size=8), st.integers(-5, 120))
def test_the_first_passages_are_whole_and_the_last_are_cut(lengths, room):
    kept, left = [], max(room, 0)
    for length in lengths:
        kept.append(min(length, left))
        left -= kept[-1]
    assert lengths_in_turn(np.array(lengths, np.int64), room).tolist() == kept
