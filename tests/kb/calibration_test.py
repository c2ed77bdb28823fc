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
