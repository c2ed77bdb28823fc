"""The KV-memory's encoder: a bag of the words around two mentions."""

import jax
import numpy as np

from opql_jax.models.bag_of_words import BagOfWords

VOCAB, LENGTH, WINDOW = 40, 20, 9
SIZE = dict(hidden_size=8, relation_dim=6, entity_dim=5)
BAG = BagOfWords(vocab_size=VOCAB, window=WINDOW, **SIZE)
TOKENS = np.random.default_rng(0).integers(1, VOCAB, (4, LENGTH), dtype=np.int32)
R1, R2 = np.array([4, 0, 19, 7], np.int32), np.array([12, 6, 2, 9], np.int32)
PARAMS = BAG.init(jax.random.key(0), TOKENS, R1, R2)
WORDS = np.float64(PARAMS['params']['token_embedding']['embedding'])


def relation(tokens, r1, r2):
    return BAG.apply(PARAMS, tokens, r1, r2)


def bag(tokens, *positions):
    """The mean vector of the WINDOW words nearest to any of the positions, and of those as far as
    the last, written out.
    """
    far = sorted((min(abs(i - p) for p in positions), i) for i, token in enumerate(tokens) if token)
    near = [tokens[at] for distance, at in far if distance <= far[:WINDOW][-1][0]]
    return WORDS[near].mean(axis=0)


def test_a_relation_is_the_projected_mean_of_the_words_around_both_mentions_and_a_mention_of_one():
    w_r, w_e = (np.float64(PARAMS['params'][name]['kernel']) for name in ('w_r', 'w_e'))
    positions = np.array([[0, 19], [3, 3], [5, 1], [10, 11]])
    relations = [bag(*row) @ w_r for row in zip(TOKENS, R1, R2)]
    mentions = [[bag(row, at) @ w_e for at in of] for row, of in zip(TOKENS, positions)]
    found = relation(TOKENS, R1, R2)
    assert found.dtype == np.float32 and found.shape == (4, 6)
    both = BAG.apply(PARAMS, TOKENS, R1, R2, positions, method='encode')
    for value, expected in zip((found, *both), (relations, relations, mentions)):
        np.testing.assert_allclose(value, expected, atol=1e-5)


def test_padding_does_not_matter_and_a_row_of_nothing_else_stays_finite():
    short, r1, r2 = TOKENS[:, :9], np.full(4, 8), np.full(4, 1)
    padded = np.pad(short, [(0, 1), (0, 30)])
    found = relation(padded, np.append(r1, 0), np.append(r2, 3))
    np.testing.assert_allclose(found[:4], relation(short, r1, r2), atol=1e-6)
    assert np.isfinite(found).all()
