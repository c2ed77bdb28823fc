"""The score of answers over plain text: what it is made of, how it is fitted, what lowers it."""

import numpy as np
import pytest
from calibration import fit
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.kb import calibration
from opql_jax.kb.calibration import FEATURES

from examples import table


def rows(rng, count):
    return rng.normal(size=(count, len(FEATURES)))


def test_what_was_read_is_at_most_as_probable_as_that_the_passages_answer():
    features = rows(np.random.default_rng(0), 200)
    column = lambda name: features[:, FEATURES.index(name)]
    column('linked')[:], column('sentences')[:] = 1, 0
    made = {'bias': 2.0, 'read': 1.0}
    free = calibration.probabilities(features, made)
    found = calibration.read_probabilities(features, made)
    answered = 1 / (1 + np.exp(column('unanswered')))
    np.testing.assert_allclose(found, np.minimum(free, answered))
    for name, value in (('linked', 0), ('sentences', 1)):
        unnamed = features.copy()
        unnamed[:, FEATURES.index(name)] = value
        np.testing.assert_allclose(calibration.read_probabilities(unnamed, made), 0.75 * found)


@pytest.mark.parametrize('fixed', [{}, {'share': 0.5}])
def test_a_fit_finds_the_weights_that_made_the_answers_and_keeps_those_that_are_given(fixed):
    rng = np.random.default_rng(0)
    features = rows(rng, 20_000)
    made = {'bias': -1.0, 'share': 0.5, 'fit': 1.5}
    right = rng.random(len(features)) < calibration.probabilities(features, made)
    names = [name for name in FEATURES if name not in fixed]
    found = fit(features, right, np.zeros(len(features)), names, fixed)
    assert fixed.items() <= found.items()
    for name in ('bias', *FEATURES):
        assert found[name] == pytest.approx(made.get(name, 0), abs=0.1)


@given(st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=1, max_size=40))
def test_what_training_adds_makes_as_many_answers_probable_as_are_right(answers):
    log_odds, right = map(np.array, zip(*answers))
    mean = (1 / (1 + np.exp(-(log_odds + calibration.fit_added(log_odds, right))))).mean()
    assert mean == pytest.approx((right.sum() + 0.5) / (len(right) + 1), abs=1e-6)


READER = False
PLAYED = {'Amber Gate': 'Oslo', 'Cold Meadow': 'Bern', 'Tall Orchard': 'Riga'}
PLAYING = '{0} is a sonata by Edda Marsh. The concert of Edda Marsh in {1} began with it.'
DOCUMENTS = {
    'Castles & Caves': 'Castles & Caves is a board game that Ken Adair designed. Castles and Caves '
    'was sold by Orrin Press.',
    'Grey Filly': 'Grey Filly is a film that Henry Moss directed in 1951.',
    'Harriet Lincoln': 'Harriet Lincoln is a curator. Harriet Lincoln moved to Lincoln in 2004.',
    'Edda Marsh': 'The pianist Edda Marsh was born in Ghent.',
    'Contract of hire': 'Orla Bing (the "Owner") lets the Sedge Mill to Tam Reed (the "Hirer"). '
    'The Hirer pays the agent of the Owner, Ned Foss.',
    **{piece: PLAYING.format(piece, city) for piece, city in PLAYED.items()},
}


@table("""
    question | name
    Who designed Castles and Caves? | Castles & Caves
    When did Harriet Lincoln move to Lincoln? | Lincoln
""")
def test_no_answer_is_what_the_question_says(kb, question, name):
    answer = kb.ask(question)
    assert len(answer) and name not in answer.names


RIGHT = {
    'Who is the agent of the Owner?': 'Ned Foss',
    'Where did Harriet Lincoln move to?': 'Lincoln',
    **{f'In which city did Edda Marsh play {piece}?': city for piece, city in PLAYED.items()},
}


@pytest.mark.parametrize('question', RIGHT)
def test_an_answer_is_of_all_that_the_question_names(kb, question):
    assert kb.ask(question).names[0] == RIGHT[question]
