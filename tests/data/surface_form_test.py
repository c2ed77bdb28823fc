"""What a relation encoder reads says nothing of the two masked names; all other words stay."""

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from opql_jax.data import markup
from opql_jax.data.tokenizer import special_ids, train_wordpiece

WORDS = 'the film was directed by a man who wrote old songs in that city and never met her'.split()
NAMES = ['Alien', 'Ridley Scott', 'Sigourney Weaver', 'London', 'Americans', 'トヨタは']
TOKENIZER = train_wordpiece([' '.join(WORDS + NAMES)] * 2 + NAMES, 300)
SPECIAL = special_ids(TOKENIZER)
TOPIC, TARGET = 0, 1


def read(pieces, **names):
    """What is read of words and of mentions, TOPIC and TARGET, which are called as `names` says."""
    text, mentions, called = '', [], {TOPIC: 'Alien', TARGET: 'Ridley Scott'}
    called |= {{'topic': TOPIC, 'target': TARGET}[side]: name for side, name in names.items()}
    for piece in pieces:
        name = called.get(piece, piece)
        if name is not piece:
            mentions.append((len(text), len(text) + len(name), piece))
        text += name
    passage = markup.tokenise_passage(TOKENIZER, text, mentions)
    order = [entity for _, _, entity in mentions]
    pair = np.array([[0], [order.index(TOPIC)], [order.index(TARGET)]])
    columns = markup.MarkedPairs([passage], *pair, SPECIAL).batch(np.array([0]), 1, 160)
    return [column[0].tolist() for column in columns]


# Any text at all; next to it stands what no word consists of.
SURFACES = st.text(st.characters(exclude_categories=['Cs']), min_size=1, max_size=60)
LEFT = st.sampled_from([' ', ' (', ' "', ' “', ', ', ' - ', '. ', '\n', '-'])
RIGHT = st.sampled_from([' ', ') ', '" ', '” ', ', ', "'s ", '. ', '\n', '-', '...'])
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(' '.join)


@st.composite
def passages(draw):
    pieces = [draw(TEXT)] if draw(st.booleans()) else []
    for mention in draw(st.permutations([TOPIC, TARGET])):
        pieces += [draw(LEFT)] if pieces else []
        pieces += [mention, draw(RIGHT), draw(TEXT)]
    return pieces if draw(st.booleans()) else pieces[:-2]


@settings(max_examples=400)
@given(passages(), SURFACES, SURFACES)
@example(['the film ', TOPIC, ' by ', TARGET], 'A', 'Sigourney Weaver ' * 40)
@example([TARGET, ' directed ', TOPIC, '.'], '北京', '𝔘\u200b\u0301 ')
@example([TOPIC, "'s man: ", TARGET], '[R1]', '[ENT] [R2] [PAD]')
def test_what_is_read_does_not_depend_on_what_the_pair_is_called(pieces, topic, target):
    for names in ({'topic': topic}, {'target': target}, {'topic': topic, 'target': target}):
        assert read(pieces, **names) == read(pieces)


@given(passages(), st.data())
def test_what_is_read_depends_on_every_word_around_the_pair(pieces, data):
    texts = [i for i, p in enumerate(pieces) if isinstance(p, str) and set(p.split()) & set(WORDS)]
    assume(texts)
    place = data.draw(st.sampled_from(texts))
    words = pieces[place].split()
    which = data.draw(st.integers(0, len(words) - 1))
    words[which] = data.draw(st.sampled_from([word for word in WORDS if word != words[which]]))
    assert read([*pieces[:place], ' '.join(words), *pieces[place + 1 :]]) != read(pieces)


@settings(max_examples=200)
@given(SURFACES, TEXT, st.sampled_from(['', '?', ' again', "'s man"]))
def test_a_question_does_not_depend_on_what_its_topic_is_called(name, before, after):
    def marked(topic):
        span = len(before) + 1, len(before) + 1 + len(topic)
        (q,) = markup.mark_questions(TOKENIZER, [f'{before} {topic}{after}'], [span], SPECIAL)
        return q.tokens.tolist(), q.r1, q.r2

    assert marked(name) == marked('Alien')
