"""The relation encoder: what its embeddings depend on, and what they do not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.models.encoder import attention
from opql_jax.models.flops import encoder_flops
from opql_jax.models.host_encoder import last_layer

import tiny_encoder
import tiny_training

ENCODER = tiny_encoder.make(dropout_rate=0.1)
VOCAB = ENCODER.vocab_size


@pytest.fixture(scope='module')
def params():
    """Freshly initialised parameters, scaled up so that differences show in the outputs."""
    one = jnp.ones((1, 4), jnp.int32)
    fresh = jax.jit(ENCODER.init)(jax.random.key(0), one, one[:, 0], one[:, 0])
    return jax.tree.map(lambda x: x * 5 if x.ndim > 1 else x, fresh)


@functools.partial(jax.jit, static_argnames=('encoder', 'deterministic'))
def relation(params, tokens, r1, r2, encoder=ENCODER, deterministic=True, rngs=None):
    return encoder.apply(params, tokens, r1, r2, deterministic, rngs=rngs)


@functools.partial(jax.jit, static_argnames='encoder')
def hidden(params, tokens, encoder=ENCODER):
    return encoder.apply(params, tokens, method='hidden')


def random_rows(seed, n, length):
    tokens = np.random.default_rng(seed).integers(1, VOCAB, (n, length), dtype=np.int32)
    positions = np.arange(n, dtype=np.int32) % length
    return tokens, positions, (positions + 1) % length


def test_relations_and_mentions_are_projected_states(params):
    """And the last layer at chosen positions gives what it gives everywhere."""
    tokens, r1, r2 = random_rows(0, 3, 9)
    positions = np.array([[0, 8], [3, 3], [5, 1]])
    h, w = np.asarray(hidden(params, tokens)), params['params']
    there = ENCODER.apply(params, tokens, positions=positions, method='hidden')
    expected = h[np.arange(3)[:, None], positions]
    np.testing.assert_allclose(there, expected, atol=1e-6)
    m = ENCODER.apply(params, tokens, positions, method='mentions')
    np.testing.assert_allclose(m, expected @ np.asarray(w['w_e']['kernel']), atol=1e-5)
    markers = np.concatenate([h[np.arange(3), r1], h[np.arange(3), r2]], axis=1)
    r = relation(params, tokens, r1, r2)
    np.testing.assert_allclose(r, markers @ np.asarray(w['w_r']['kernel']), atol=1e-5)
    assert r.dtype == m.dtype == jnp.float32


@pytest.mark.parametrize(
    'positions', [None, np.array([[0, 6], [2, 2], [5, 1], [6, 3], [1, 0], [4, 4]])]
)
def test_rows_that_attention_takes_as_one_do_not_see_each_other(params, positions):
    """In bfloat16 two of these six at a time; one by one they are taken apart."""
    half = ENCODER.clone(dtype='bfloat16')
    tokens, *_ = random_rows(3, 6, 7)
    tokens[1, 4:] = tokens[4] = 0

    def states(tokens, positions, params=params):
        found = half.apply(params, tokens, positions=positions, method='hidden')
        return found.astype(jnp.float32)

    together = states(tokens, positions)
    for row in range(6):
        one = slice(row, row + 1)
        (alone,) = states(tokens[one], None if positions is None else positions[one])
        assert np.linalg.norm(together[row] - alone) < 0.02 * np.linalg.norm(alone)
    changed = tokens.copy()
    changed[0] = 1 + changed[0] % 40
    np.testing.assert_array_equal(states(changed, positions)[1:], together[1:])
    assert not np.array_equal(states(changed, positions)[0], together[0])
    loss = lambda params: jnp.sin(states(tokens, positions, params)[1]).sum()
    words = np.asarray(jax.grad(loss)(params)['params']['token_embedding']['embedding'])
    assert words[tokens[1, :4]].any() and not words[np.setdiff1d(tokens[0], tokens[1])].any()


def test_a_row_of_nothing_but_padding_is_finite_with_a_finite_gradient(params):
    tokens, zero = np.zeros((2, 8), np.int32), np.zeros(2, np.int32)
    total = lambda params: relation(params, tokens, zero, zero).sum()
    value, gradient = jax.jit(jax.value_and_grad(total))(params)
    assert np.isfinite(value) and all(np.isfinite(g).all() for g in jax.tree.leaves(gradient))


def test_dropout_is_off_when_deterministic_and_a_function_of_its_key_otherwise(params):
    tokens, r1, r2 = random_rows(5, 4, 8)
    drop = lambda seed: relation(
        params, tokens, r1, r2, deterministic=False, rngs={'dropout': jax.random.key(seed)}
    )
    np.testing.assert_array_equal(drop(0), drop(0))
    assert np.abs(drop(0) - drop(1)).max() > 0.01
    without = ENCODER.clone(dropout_rate=0.0)
    still = relation(params, tokens, r1, r2, encoder=without, deterministic=False)
    np.testing.assert_allclose(still, relation(params, tokens, r1, r2), atol=1e-5)


def test_each_part_of_a_batch_has_dropout_of_its_own(params):
    encoder = ENCODER.clone(dropout_rate=0.5, accumulate_steps=2)
    tokens = np.repeat(random_rows(5, 1, 8)[0], 6, axis=0)
    drop = {'dropout': jax.random.key(0)}
    states = encoder.apply(params, tokens, False, method='hidden', rngs=drop)
    assert len(np.unique(np.asarray(states[:, 0, 0]).round(5))) == len(tokens)


@pytest.mark.parametrize('platform', ['default', 'tpu'])
@pytest.mark.parametrize('shape', [(2, 1, 1, 7), (1, 3, 5, 7)], ids=['padding', 'distances'])
def test_attention_and_its_gradient_are_those_of_the_formula(monkeypatch, shape, platform):
    of_platform = lambda *inputs, **branches: branches[platform](*inputs)
    monkeypatch.setattr(jax.lax, 'platform_dependent', of_platform)
    keys = jax.random.split(jax.random.key(0), 5)
    shapes = (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), shape, (2, 3, 5, 4)
    *inputs, cotangent = (jax.random.normal(key, shape) for key, shape in zip(keys, shapes))

    def formula(q, k, v, bias):
        return jax.nn.softmax(q @ k.swapaxes(-1, -2) / 2 + bias) @ v

    out, gradient = jax.vjp(attention, *inputs)
    expected, expected_gradient = jax.vjp(formula, *inputs)
    np.testing.assert_allclose(out, expected, atol=1e-6)
    for found, value in zip(gradient(cotangent), expected_gradient(cotangent)):
        np.testing.assert_allclose(found, value, atol=1e-5)


def test_remat_and_parts_keep_less_for_the_backward_pass():
    """Bytes of all that a row's gradient needs, from the shapes alone."""
    tokens, marker = jnp.ones((16, 40), jnp.int32), jnp.zeros(16, jnp.int32)
    encoder = ENCODER.clone(num_layers=3, mlp_size=64, max_length=40)
    params = jax.eval_shape(encoder.init, jax.random.key(0), tokens, marker, marker)

    def kept(**fields):
        run = lambda params: encoder.clone(**fields).apply(
            params, tokens, marker, marker, False, rngs={'dropout': jax.random.key(0)}
        )
        backward = jax.eval_shape(lambda params: jax.vjp(run, params)[1], params)
        return sum(leaf.size * 4 for leaf in jax.tree.leaves(backward))

    assert kept() > 2 * kept(remat='dots') > 2 * kept(remat='layers') > kept(accumulate_steps=4)
    assert kept(accumulate_steps=4, remat='layers') <= kept(accumulate_steps=4)


def test_bfloat16_computes_close_to_float32_and_keeps_float32_parameters_and_outputs(params):
    half = ENCODER.clone(dtype='bfloat16')
    tokens, r1, r2 = random_rows(6, 16, 12)
    fresh = jax.jit(half.init)(jax.random.key(0), tokens, r1, r2)
    assert {x.dtype for x in jax.tree.leaves(fresh)} == {jnp.dtype('float32')}
    assert hidden(params, tokens, encoder=half).dtype == jnp.bfloat16
    r, exact = relation(params, tokens, r1, r2, encoder=half), relation(params, tokens, r1, r2)
    assert r.dtype == jnp.float32
    assert np.linalg.norm(r - exact) < 0.02 * np.linalg.norm(exact)


WIDER = tiny_encoder.make(**tiny_encoder.WIDER, max_length=64, dropout_rate=0.1)


def counted(encoder, shape, mentions):
    """FLOPs of the forward pass by XLA's own count, before it optimises anything."""
    tokens = jax.ShapeDtypeStruct(shape, 'int32')
    position = jax.ShapeDtypeStruct(shape[:1], 'int32')
    params = jax.eval_shape(encoder.init, jax.random.key(0), tokens, position, position)
    context = jax.ShapeDtypeStruct((shape[0], mentions), 'int32')
    run = lambda params, *arguments: encoder.apply(params, *arguments, method='encode')
    return jax.jit(run).lower(params, tokens, position, position, context).cost_analysis()['flops']


@pytest.mark.parametrize('shape', [(4, 64), (8, 24)])
@pytest.mark.parametrize('mentions', [1, 16])
@pytest.mark.parametrize('layers', [1, 3])
def test_encoding_is_as_much_work_as_the_compiler_says(shape, mentions, layers):
    encoder = WIDER.clone(num_layers=layers)
    # What is no product with weights, such as layer norms, is in the compiler's count: 2 % here,
    # less in wider layers.
    wanted = pytest.approx(counted(encoder, shape, mentions), rel=0.04)
    assert encoder_flops(encoder, shape, 2 + mentions) == wanted


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
