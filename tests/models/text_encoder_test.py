"""Relations of pairs and of questions in any text, against float64 readings one by one."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import markup

import tiny_text_encoder
from tiny_text_encoder import hidden, relation, unit

ENCODER = tiny_text_encoder.make()
SPECIAL = ENCODER.special
# (text, topic, target): either may come first; names of one word and of several; letters with
# accents, composed and not; other scripts; mentions at both ends, beside punctuation, and parts of
# a word.
PAIRS = [
    ('Ann Low met José in Ålesund', 'Ann Low', 'José'),
    ('Ann Low met José in Ålesund', 'Ålesund', 'Ann Low'),
    ('the old song of the Jose\u0301 river, built in 1979', 'Jose\u0301', '1979'),
    ('met in "Ann", 北京 and Ωrion', '北京', 'Ωrion'),
    ('Low-River ships', 'River', 'Low'),
    ('the song 🚢🇳🇴 was directed by Ann', 'Ann', 'song'),
    (' Ann saw it never again; Low did. ', 'Ann', 'Low'),
    ('and ' * 40 + 'Ann built the ship of Low', 'Low', 'Ann'),
]


def spans(text, *names):
    return [(text.index(name), text.index(name) + len(name)) for name in names]


TEXTS = [text for text, *_ in PAIRS]
TOPICS, TARGETS = zip(*(spans(*pair) for pair in PAIRS))


def slow_relation(text, topic, target):
    mentions = sorted([(*topic, 0), (*target, 1)])
    passage = markup.tokenise_passage(ENCODER.tokenizer, text, mentions)
    rows = zip(passage.starts, passage.ends, passage.entities)
    ends = {entity: (1 + start, end) for start, end, entity in rows}
    return relation(ENCODER, [SPECIAL.cls, *passage.tokens, SPECIAL.sep], ends[0], ends[1])


@pytest.fixture(scope='module')
def relations():
    return ENCODER.encode_pairs(TEXTS, TOPICS, TARGETS)


def test_relations_are_those_of_the_spans(relations):
    assert relations.dtype == np.float32 and relations.shape == (len(PAIRS), ENCODER.dim)
    expected = [slow_relation(*row) for row in zip(TEXTS, TOPICS, TARGETS)]
    np.testing.assert_allclose(relations, expected, atol=2e-5)
    assert np.abs(relations[0] - relations[1]).max() > 0.01


@pytest.mark.parametrize(
    'before, between, after',
    [(0, 3, 300), (300, 3, 0), (300, 100, 300), (300, 300, 300), (0, 300, 0)],
)
def test_long_texts_are_cut_around_the_pair(monkeypatch, before, between, after):
    text = f'{"old " * before}Ann Low {"met " * between}José {"sea " * after}'
    seen, place = [], markup.place_mentions
    observed = lambda *arguments: seen.append(place(*arguments)) or seen[-1]
    monkeypatch.setattr(markup, 'place_mentions', observed)
    found = ENCODER.encode_pairs([text], *([span] for span in spans(text, 'Ann Low', 'José')))
    (placed,) = seen
    assert len(placed.tokens) <= 136
    for name, first, last in zip(('Ann Low', 'José'), placed.first, placed.last):
        ids = ENCODER.tokenizer.encode(name, add_special_tokens=False).ids
        assert placed.tokens[first : last + 1].tolist() == ids
    expected = relation(ENCODER, placed.tokens, *zip(placed.first, placed.last))
    np.testing.assert_allclose(found[0], expected, atol=2e-5)


@pytest.mark.parametrize(
    'topic, target, said',
    [
        ((4, 4), (0, 3), r'topic_spans: text 1 has 13 characters, and no span \(4, 4\)'),
        ((0, 3), (8, 14), r'target_spans: text 1 has 13 characters, and no span \(8, 14\)'),
        ((0, 5), (4, 7), r'text 1: topic \(0, 5\) and target \(4, 7\) overlap'),
    ],
)
def test_a_wrong_span_is_told_with_the_number_of_its_text(topic, target, said):
    with pytest.raises(InputError, match=said):
        ENCODER.encode_pairs(['Ann met Low', 'Ann met Josés'], [(0, 3), topic], [(8, 11), target])


QUESTIONS = ['who met Ann', 'Ålesund was built when?', 'what song is of Jose\u0301']
QUESTIONS += ['who ' * 60 + 'saw Low', 'Ann']
ABOUT = 'Ann', 'Ålesund', 'Jose\u0301', 'Low', 'Ann'
ASKED = [spans(text, name)[0] for text, name in zip(QUESTIONS, ABOUT)]


def test_questions_are_those_of_the_marked_text():
    found = ENCODER.encode_questions(QUESTIONS, ASKED)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    for marked, vector in zip(
        markup.mark_questions(ENCODER.tokenizer, QUESTIONS, ASKED, SPECIAL), found, strict=True
    ):
        states = hidden(ENCODER, marked.tokens)
        ends = np.concatenate([states[marked.r1], states[marked.r2]])
        np.testing.assert_allclose(
            vector, unit(ends @ np.asarray(ENCODER.params['w_r']['kernel'], np.float64)), atol=2e-5
        )
    backwards = ENCODER.encode_questions(QUESTIONS[::-1], ASKED[::-1])
    np.testing.assert_allclose(backwards, found[::-1], atol=1e-5)


def test_texts_are_the_mean_of_the_last_layer():
    texts = [*TEXTS[:4], '', 'again ' * 300]
    found = ENCODER.encode_texts(texts)
    assert found.dtype == np.float32 and found.shape == (len(texts), ENCODER.module.hidden_size)
    for text, vector in zip(texts, found):
        ids = ENCODER.tokenizer.encode(text, add_special_tokens=False).ids[:134]
        np.testing.assert_allclose(
            vector, unit(hidden(ENCODER, [SPECIAL.cls, *ids, SPECIAL.sep]).mean(axis=0)), atol=2e-5
        )


def test_texts_and_their_topics_are_those_of_each():
    texts = ['who met Ann and Low', 'where is it', 'what song is of Low' + ' again' * 40] * 20
    topics = [[(8, 11), (16, 19)], [], [(16, 19)]] * 20
    vectors, relations = ENCODER.encode_texts_and_topics(texts, topics)
    np.testing.assert_allclose(vectors, ENCODER.encode_texts(texts), atol=1e-5)
    assert [of_text.shape for of_text in relations] == [(len(of), ENCODER.dim) for of in topics]
    repeated = [text for text, spans in zip(texts, topics) for _ in spans]
    expected = ENCODER.encode_questions(repeated, [span for spans in topics for span in spans])
    np.testing.assert_allclose(np.concatenate(relations), expected, atol=1e-5)
    with pytest.raises(InputError, match='topic_spans: 59 for 60 texts'):
        ENCODER.encode_texts_and_topics(texts, topics[1:])
