"""The arithmetic of a hop, the same for NumPy's arrays and JAX's, on the host and on devices."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.memory import follow, hop

_targets = st.lists(st.integers(-1, 3), min_size=6, max_size=6)


@given(targets=_targets, seed=st.integers(0, 100))
def test_equal_targets_are_added_up_on_devices_as_on_the_host(targets, seed):
    beta = np.random.default_rng(seed).integers(1, 4, 6) / 8  # exact sums, hence exact ties
    targets = np.array(targets, np.int32)
    sums = {t: beta[targets == t].sum() for t in targets.tolist() if t >= 0}
    expected = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    used = targets >= 0
    entities, weights = hop.by_target(targets[used], beta[used])
    assert list(zip(entities.tolist(), weights.tolist())) == expected
    entities, weights = jax.jit(follow.aggregate)(targets[None], beta[None].astype(np.float32))
    expected += [(-1, 0.0)] * (6 - len(expected))
    assert list(zip(entities[0].tolist(), weights[0].tolist())) == expected


def test_underflown_weight_keeps_a_finite_logarithm_and_gradient():
    weights = np.array([0.0, 1e-38, 0.5], np.float32)
    value, gradient = jax.value_and_grad(lambda w: hop.log_weights(w).sum())(jnp.asarray(weights))
    np.testing.assert_allclose(value, hop.log_weights(weights).sum(), rtol=1e-6)
    assert np.isfinite(value)
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 2.0])
