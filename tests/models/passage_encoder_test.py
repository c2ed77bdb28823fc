"""Passages that are encoded once say the same as each of their pairs and sentences by itself."""

import numpy as np
import pytest

from opql_jax.core.arrays import unpacked
from opql_jax.data import markup
from opql_jax.data.prepared import Prepared
from opql_jax.memory.relations import sums
from opql_jax.models import passage_encoder
from opql_jax.models.mention_kinds import MentionKinds, kinds_of_entities
from opql_jax.models.passage_encoder import PassageEncoder, StoredPassages

import tiny_text_encoder
from tiny_text_encoder import hidden

ENCODER = tiny_text_encoder.make()
# What numbers of unit vectors are kept to, at most, and what relations are of mentions so kept.
ROUNDING, OF_RELATIONS = 1 / 253, 2e-2


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_text_encoder.write_text(tmp_path_factory.mktemp('text') / 'a'))


@pytest.fixture(scope='module')
def rows(prepared):
    return np.random.default_rng(0).permutation(len(prepared.pairs['topic']))[:50]


@pytest.fixture(scope='module')
def encoded(prepared, tmp_path_factory):
    return encoder_of(prepared, tmp_path_factory.mktemp('parts'))


def encoder_of(prepared, parts, encoder=ENCODER):
    return PassageEncoder(encoder, prepared, np.arange(len(prepared.pairs['topic'])), parts)


def relations_of(encoded, rows):
    of = lambda halves: encoded.halves(halves // 2)[np.arange(len(halves)), halves % 2]
    return sums(encoded.pairs[rows], of)


def test_relations_are_those_of_the_pairs_by_themselves(prepared, encoded, rows):
    texts, spans = [], ([], [])
    for row in rows:
        passage = prepared.passages.slice(prepared.pairs['passage'][row], 1).to_pylist()[0]
        texts.append(passage['text'])
        for side, name in zip(spans, ('topic_mention', 'target_mention')):
            mention = passage['mentions'][prepared.pairs[name][row]]
            side.append((mention['start'], mention['end']))
    found = relations_of(encoded, rows)
    assert found.dtype == np.float32 and found.shape == (len(rows), ENCODER.dim)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    # Other mentions of the passage, whose borders are tokenised by themselves, have spaces around
    # them.
    expected = ENCODER.encode_pairs(texts, *spans)
    np.testing.assert_allclose(found, expected, atol=OF_RELATIONS)
    assert (found * expected).sum(axis=1).min() > 0.9995


def test_halves_and_vectors_do_not_depend_on_batches(
    prepared, encoded, rows, monkeypatch, tmp_path
):
    """In any order, and by parts; what is damaged on disk is encoded again."""
    monkeypatch.setattr(passage_encoder, 'BATCH_PASSAGES', 2)
    mentions, whole = encoded.pairs[rows][:, 0], encoded.halves(encoded.pairs[rows][:, 0])
    again = encoder_of(prepared, tmp_path / 'parts')
    parts = [again.halves(mentions[start : start + 7]) for start in range(0, len(rows), 7)]
    # In another batch a number may be rounded the other way.
    np.testing.assert_allclose(unpacked(np.concatenate(parts)), unpacked(whole), atol=OF_RELATIONS)
    np.testing.assert_allclose(again.vectors(), encoded.vectors(), atol=2 * ROUNDING)
    np.testing.assert_array_equal(encoded.halves(mentions[::-1]), whole[::-1])
    assert encoded.halves(np.arange(0)).shape == (0, 2, ENCODER.dim + 4)
    [damaged, *_] = sorted((tmp_path / 'parts').rglob('*.arrow'))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b'x')
    anew = encoder_of(prepared, tmp_path / 'parts').vectors()
    np.testing.assert_array_equal(anew, again.vectors())


def test_stored_passages_are_taken_over(prepared, encoded, tmp_path):
    first = encoded.pairs[0, 0]
    before = np.flatnonzero((encoded.pairs != first).all(axis=1))
    known, counts = np.unique(encoded.pairs[before]), []
    text = PassageEncoder(ENCODER, prepared, before, tmp_path / 'before')
    made = encoded.halves(known), encoded.mention_kinds(), encoded.vectors()
    rows = np.arange(len(encoded.pairs))
    count = lambda stage, batches: (counts.append(len(each)) or stage(each) for each in batches)
    stored = count, StoredPassages(text, *made)
    found = PassageEncoder(ENCODER, prepared, rows, tmp_path / 'parts', *stored)
    np.testing.assert_array_equal(found.halves(known), made[0])
    np.testing.assert_allclose(
        *(unpacked(each.halves(np.array([first]))) for each in (found, encoded)), atol=OF_RELATIONS
    )
    np.testing.assert_allclose(found.vectors(), encoded.vectors(), atol=2 * ROUNDING)
    assert counts == [1] and first not in known


def test_vectors_are_the_means_over_the_tokens_of_passages_and_sentences(prepared, encoded):
    vectors = encoded.vectors()
    assert vectors.dtype == np.float16
    passages = prepared.passages.to_pylist()
    assert max(len(row['sentence_starts']) for row in passages) > 32
    for row, begin, end in zip(passages, encoded.first_vector, encoded.first_vector[1:]):
        mentions = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        plain = markup.tokenise_passage(ENCODER.tokenizer, row['text'], mentions)
        states = hidden(ENCODER, [ENCODER.special.cls, *plain.tokens, ENCODER.special.sep])
        expected = [states.mean(axis=0)]
        # Tokens of the text up to each sentence; no token is of two.
        before = lambda start: markup.tokenise_passage(
            ENCODER.tokenizer, row['text'][:start], [m for m in mentions if m[1] <= start]
        )
        cuts = [len(before(start).tokens) for start in row['sentence_starts']]
        for first, last in zip(cuts, [*cuts[1:], len(plain.tokens)]):
            expected.append(states[1 + first : 1 + last].mean(axis=0))
        expected = np.stack(expected)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(vectors[begin:end], expected, atol=ROUNDING)
    count = sum(1 + len(row['sentence_starts']) for row in passages)
    assert encoded.first_vector[-1] == len(vectors) == count


def test_kinds_are_those_of_the_mentions_of_each_entity(prepared, encoded, tmp_path):
    vocab, mentions = prepared.vocab, prepared.passages['mentions'].to_pylist()
    assert encoded.kinds() == vocab.kinds  # this encoder tells none
    encoder, rng = tiny_text_encoder.make(), np.random.default_rng(0)
    # Steep enough that vectors in 8 bits would tell others.
    kernel = rng.normal(size=(16, 4)).astype(np.float32)
    encoder.kinds = MentionKinds(30 * kernel, np.zeros(4, np.float32))
    vectors = []
    for row in prepared.passages.to_pylist():
        passage = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        spans = markup.place_mentions(
            markup.tokenise_passage(ENCODER.tokenizer, row['text'], passage), ENCODER.special
        )
        states = hidden(ENCODER, spans.tokens)
        vectors.append((states[spans.first] + states[spans.last]) / 2)
    entities = np.array([mention['entity'] for row in mentions for mention in row])
    told = encoder.kinds.log_probabilities(np.concatenate(vectors))
    expected = kinds_of_entities(told, entities, vocab.kinds, vocab.names)
    found = encoder_of(prepared, tmp_path / 'parts', encoder).kinds()
    assert found == expected != vocab.kinds
