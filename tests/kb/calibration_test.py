"""The probabilities of answers over plain text: what they are made of."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.kb import calibration
from opql_jax.kb.calibration import FITTED, Coefficients

SHARES = st.lists(st.floats(0, 1), max_size=8)
FIT = st.floats(-1.2, 1.5)


def reference(share, fit, coefficients):
    share = min(max(share, 1e-4), 1 - 1e-4)
    value = coefficients.bias + coefficients.share * (math.log(share) - math.log1p(-share)) + coefficients.fit * fit
    return 1 / (1 + math.exp(-value))


@given(SHARES, FIT)
def test_it_is_a_logistic_function_of_the_share_of_the_weight_and_of_how_well_the_facts_fit(shares, fit):
    for coefficients in (FITTED, Coefficients(0.5, 2.0, -1.0)):
        found = calibration.probabilities(np.array(shares), fit, coefficients)
        assert found.dtype == np.float32 and found.shape == (len(shares),)
        assert found == pytest.approx([reference(share, fit, coefficients) for share in shares], rel=1e-4)


@given(SHARES, FIT, FIT)
def test_more_of_the_weight_and_facts_that_fit_better_make_it_more_probable(shares, one, other):
    falling = np.sort(shares)[::-1]
    worse, better = (calibration.probabilities(falling, fit) for fit in sorted((one, other)))
    assert (worse <= better).all() and (worse > 0).all() and (better < 1).all()
    assert (np.diff(worse) <= 0).all() and (np.diff(better) <= 0).all()


@given(st.lists(st.tuples(st.floats(-9, 9), st.booleans()), min_size=1, max_size=40))
def test_what_training_adds_makes_as_many_answers_probable_as_are_right(answers):
    log_odds, right = map(np.array, zip(*answers))
    mean = (1 / (1 + np.exp(-(log_odds + calibration.fit_added(log_odds, right))))).mean()
    assert mean == pytest.approx((right.sum() + 0.5) / (len(right) + 1), abs=1e-6)


def test_probabilities_that_come_true_stay_nearly_as_they_are():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0, 2, 5000)
    right = rng.random(5000) < 1 / (1 + np.exp(-log_odds))
    assert abs(calibration.fit_added(log_odds, right)) < 0.1
    assert calibration.fit_added(log_odds - 1.5, right) == pytest.approx(1.5, abs=0.1)
