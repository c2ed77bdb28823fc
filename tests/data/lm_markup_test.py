"""The language model's input: what is visible, what is hidden, and where the marks are."""

import numpy as np
import one_cloze
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from opql_jax.data import batching, lm_markup, markup
from opql_jax.data.markup import TokenisedPassage
from opql_jax.data.tokenizer import SpecialIds

from nested_spans import nested_spans

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, ent=4, r1=5, r2=6)


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
        texts.append(
            TokenisedPassage(rng.integers(100, 200, 12).astype(np.int32), starts, ends, entities)
        )
    target = np.array([rng.integers(len(text.entities)) for text in texts])
    many = lm_markup.ClozeTexts(markup.join(texts), target, SPECIAL)
    owner, mention = many.topics()
    chosen = [rng.permutation(mention[owner == k])[:3] for k in range(len(texts))]
    marked = many.mark(batching.pad_rows(chosen, len(texts), (3,), -1, np.int64))
    for k, text in enumerate(texts):
        beside = one_cloze.topics_beside(text, int(target[k]))
        assert mention[owner == k].tolist() == beside.tolist()
        one = one_cloze.mark_cloze(text, int(target[k]), chosen[k], SPECIAL)
        count = len(chosen[k])
        found = marked.tokens[k].tolist()
        assert found == [*one.tokens, *[0] * (marked.tokens.shape[1] - len(one.tokens))]
        found = (marked.lengths[k], many.base[k] + count, marked.r2[k])
        assert found == (len(one.tokens), len(one.tokens), one.r2)
        assert marked.starts[k, :count].tolist() == one.starts.tolist()
        assert marked.r1[k, :count].tolist() == one.r1.tolist()
        assert not marked.starts[k, count:].any() and not marked.r1[k, count:].any()
    assert {array.dtype for array in marked[:4]} == {np.dtype(np.int32)}


VOCABULARY = {w: 10 + i for i, w in enumerate('who made heat or ronin ? the big'.split())}
NAMES = {v: k for k, v in VOCABULARY.items()} | {2: 'C', 3: 'S', 4: 'E', 5: 'R1', 6: 'R2'}
TOKENIZER = Tokenizer(models.WordLevel(VOCABULARY | {'[UNK]': 1}, unk_token='[UNK]'))
TOKENIZER.normalizer = normalizers.Replace('\u200b', '')
TOKENIZER.pre_tokenizer = pre_tokenizers.Whitespace()


@pytest.mark.parametrize(
    'text, mentions, words',
    [
        ('who made heat', [(9, 13)], 'C who made heat R1 E R2 S'),
        ('heat or ronin ?', [(0, 4), (8, 13)], 'C heat R1 or ronin R1 ? E R2 S'),
        ('the big heat', [(4, 12)], 'C the big heat R1 E R2 S'),
        # A topic without a token is read at its mark.
        ('who made \u200b heat', [(9, 10)], 'C who made R1 heat E R2 S'),
        ('who made \u200b', [(9, 10)], 'C who made R1 E R2 S'),
    ],
)
def test_a_question_ends_with_its_answer(text, mentions, words):
    found = lm_markup.mark_open_question(TOKENIZER, text, mentions, SPECIAL)
    assert ' '.join(NAMES[t] for t in found.tokens.tolist()) == words
    first = [text[s:e].strip('\u200b').partition(' ')[0] or 'R1' for s, e in mentions]
    assert [NAMES[t] for t in found.tokens[found.starts].tolist()] == first
    assert found.tokens[found.r1].tolist() == [5] * len(mentions) and found.tokens[found.r2] == 6
