"""A relation embedding says nothing of the two masked names; all others stay visible."""

from typing import NamedTuple
from unittest import mock

import jax
import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from opql_jax.data import markup
from opql_jax.data.tokenizer import SpecialIds, special_ids, train_wordpiece
from opql_jax.models import bulk_encoding
from opql_jax.training.state import init_params

import tiny_training

WORDS = 'the film was directed by a man who wrote old songs in that city and never met her'.split()
NAMES = ['Alien', 'Ridley Scott', 'Sigourney Weaver', 'London', 'Americans', 'トヨタは']
TOKENIZER = train_wordpiece([' '.join(WORDS + NAMES)] * 2 + NAMES, 300)
SPECIAL = special_ids(TOKENIZER)
MODULE = tiny_training.encoder(vocab_size=TOKENIZER.get_vocab_size())
PARAMS = init_params(MODULE, 4, seed=0)['encoder']
TOPIC, TARGET = 0, 1


class Source(NamedTuple):
    """Tokenised passages and their pairs, read as from a prepared folder."""

    passages: list
    pairs: dict
    special: SpecialIds

    @property
    def records(self):
        return self

    def read(self, ids):
        return [self.passages[i] for i in ids]


RECORDS: list = []
PAIRS = {name: np.zeros(1, np.int32) for name in ('passage', 'topic_mention', 'target_mention')}
APPLY = jax.jit(lambda *arrays: MODULE.apply({'params': PARAMS}, *arrays))
with mock.patch.multiple(bulk_encoding, LENGTHS=(48,), CPU_TOKENS=48):
    ENCODER = bulk_encoding.MarkedPairEncoder(MODULE, PARAMS, Source(RECORDS, PAIRS, SPECIAL))


def embed(pieces):
    """The relation of the first mentions of TOPIC and TARGET in words and (entity, name) pairs."""
    text, mentions = '', []
    for piece in pieces:
        name = piece
        if isinstance(piece, tuple):
            entity, name = piece
            mentions.append((len(text), len(text) + len(name), entity))
        text += name
    RECORDS[:] = [markup.tokenise_passage(TOKENIZER, text, mentions)]
    entities = [entity for _, _, entity in mentions]
    PAIRS['topic_mention'][0] = entities.index(TOPIC)
    PAIRS['target_mention'][0] = entities.index(TARGET)
    return ENCODER([0])[0]


def renamed(pieces, **names):
    """The text with the first mention of `topic` or `target` called otherwise."""
    pieces, wanted = list(pieces), {TOPIC: names.get('topic'), TARGET: names.get('target')}
    for place, piece in enumerate(pieces):
        if isinstance(piece, tuple) and wanted.get(piece[0]) is not None:
            pieces[place] = (piece[0], wanted.pop(piece[0]))
    return pieces


def changed(a, b):
    return np.abs(embed(a) - embed(b)).max() > 1e-5


# Any text at all; next to it stands what no word consists of.
SURFACES = st.text(st.characters(exclude_categories=['Cs']), min_size=1, max_size=60)
LEFT = st.sampled_from([' ', ' (', ' "', ' “', ', ', ' - ', '. ', '\n', '-'])
RIGHT = st.sampled_from([' ', ') ', '" ', '” ', ', ', "'s ", '. ', '\n', '-', '...'])
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(' '.join)


@st.composite
def passages(draw):
    """Words around the mentions of topic and target, in either order."""
    mentions = draw(st.permutations([(TOPIC, 'Alien'), (TARGET, 'Ridley Scott')]))
    pieces = [draw(TEXT)] if draw(st.booleans()) else []
    for mention in mentions:
        pieces += [draw(LEFT)] if pieces else []
        pieces += [mention, draw(RIGHT), draw(TEXT)]
    return pieces if draw(st.booleans()) else pieces[:-2]


@settings(max_examples=400)
@given(passages(), SURFACES, SURFACES)
@example(
    ['the film ', (TOPIC, 'Alien'), ' by ', (TARGET, 'Ridley Scott')], 'A', 'Sigourney Weaver ' * 40
)
@example([(TARGET, 'Ridley Scott'), ' directed ', (TOPIC, 'Alien'), '.'], '北京', '𝔘\u200b\u0301 ')
@example([(TOPIC, 'Alien'), "'s man: ", (TARGET, 'Ridley Scott')], '[R1]', '[ENT] [R2] [PAD]')
def test_the_embedding_does_not_depend_on_what_the_pair_is_called(pieces, topic, target):
    as_it_was = embed(pieces)
    for names in ({'topic': topic}, {'target': target}, {'topic': topic, 'target': target}):
        np.testing.assert_array_equal(
            embed(renamed(pieces, **names)), as_it_was, err_msg=str(names)
        )


@given(passages(), st.data())
def test_the_embedding_depends_on_every_word_around_the_pair(pieces, data):
    texts = [i for i, p in enumerate(pieces) if isinstance(p, str) and set(p.split()) & set(WORDS)]
    assume(texts)
    place = data.draw(st.sampled_from(texts))
    words = pieces[place].split()
    which = data.draw(st.integers(0, len(words) - 1))
    words[which] = data.draw(st.sampled_from([word for word in WORDS if word != words[which]]))
    assert changed(pieces, [*pieces[:place], ' '.join(words), *pieces[place + 1 :]])


@settings(max_examples=200)
@given(SURFACES, TEXT, st.sampled_from(['', '?', ' again', "'s man"]))
def test_a_question_does_not_depend_on_what_its_topic_is_called(name, before, after):
    def relation(topic):
        span = len(before) + 1, len(before) + 1 + len(topic)
        (q,) = markup.mark_questions(TOKENIZER, [f'{before} {topic}{after}'], [span], SPECIAL)
        tokens = np.pad(q.tokens, (0, 48 - len(q.tokens)))[None]
        return np.asarray(APPLY(tokens, np.array([q.r1]), np.array([q.r2])))

    np.testing.assert_array_equal(relation(name), relation('Alien'))
