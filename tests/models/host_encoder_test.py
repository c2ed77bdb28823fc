"""The transformer by NumPy gives the numbers that the one by JAX gives."""

import jax
import numpy as np
import pytest

from opql_jax.models.host_encoder import last_layer

import tiny_training


@pytest.mark.parametrize(
    'fields',
    [
        {},
        {'num_layers': 3, 'relative_buckets': 8, 'layer_norm_epsilon': 1e-5},
        {'num_heads': 1, 'mlp_size': 40},
    ],
)
def test_the_last_layer_is_that_of_the_module(fields):
    rng = np.random.default_rng(0)
    encoder = tiny_training.encoder(vocab_size=60).clone(**fields)
    position = np.zeros(1, np.int32)
    init = lambda: encoder.init(jax.random.key(0), np.zeros((1, 8), np.int32), position, position)
    shapes = jax.eval_shape(init)['params']
    params = jax.tree.map(lambda leaf: rng.normal(0, 0.5, leaf.shape).astype(np.float32), shapes)
    for rows, length in ((1, 1), (3, 9), (2, 33)):
        tokens = rng.integers(1, 60, (rows, length)).astype(np.int32)
        tokens[np.arange(length) >= rng.integers(1, length + 1, (rows, 1))] = 0
        found = last_layer(encoder, params, tokens)
        expected = encoder.apply({'params': params}, tokens, method=encoder.hidden)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[tokens > 0], expected[tokens > 0], atol=5e-5)
