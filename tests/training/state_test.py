"""Parameters before the first step."""

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from opql_jax.data.prepared import Prepared
from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import ROW_AXES, SLICE
from opql_jax.training import state, trainer
from opql_jax.training.optimizer import make_optimizer

import tiny_training


@pytest.fixture(scope='module')
def prepared_dir(tmp_path_factory):
    return tiny_training.write_prepared(tmp_path_factory.mktemp('world') / 'prepared')


def opened(prepared_dir, relation_dim):
    prepared = Prepared(prepared_dir)
    vocab_size = prepared.tokenizer.get_vocab_size()
    return prepared, tiny_training.encoder(vocab_size=vocab_size, relation_dim=relation_dim)


@pytest.mark.parametrize('relation_dim', [8, 32, 40])
def test_w_r_can_start_orthogonal_and_the_rest_as_it_was_drawn(prepared_dir, relation_dim):
    prepared, module = opened(prepared_dir, relation_dim)
    drawn = state.starting_params(module, prepared, None, None, seed=9)
    found = state.starting_params(module, prepared, None, None, seed=9, orthogonal_w_r=True)
    w_r = np.asarray(found['encoder'].pop('w_r')['kernel'], np.float64)
    was = drawn['encoder'].pop('w_r')['kernel']
    assert w_r.shape == was.shape == (2 * module.hidden_size, relation_dim)
    gram = w_r.T @ w_r if relation_dim < len(w_r) else w_r @ w_r.T
    np.testing.assert_allclose(gram, 0.02**2 * len(w_r) * np.eye(len(gram)), atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, found, drawn)


@pytest.mark.parametrize('relation_dim', [8, 80])
def test_one_map_reads_a_pair_alike_in_both_orders(prepared_dir, relation_dim):
    prepared, module = opened(prepared_dir, relation_dim)
    params = state.init_params(module, len(prepared.vocab), seed=1)['encoder']
    w_r = np.asarray(state.one_map(module, params, prepared))
    assert w_r.shape == params['w_r']['kernel'].shape
    variables = {'params': {**params, 'w_r': {'kernel': w_r}}}
    ends = np.float32(np.random.default_rng(0).normal(size=(2, 5, 2, module.hidden_size)))
    orders = [(*ends, np.full(5, second), 'span_pair') for second in (False, True)]
    both = [module.apply(variables, *order, method=module.relate_spans) for order in orders]
    np.testing.assert_allclose(*both, atol=1e-5)
    half = w_r[: module.hidden_size, : relation_dim // 2]
    kept = min(relation_dim // 2, module.hidden_size)
    size = 0.02**2 * len(w_r)
    expected = size * np.diag(np.arange(relation_dim // 2) < kept)
    np.testing.assert_allclose(half.T @ half, expected, atol=1e-5)
    # No other directions have more of the variance of the states.
    special, states = prepared.special, []
    for passage in prepared.records.read(np.arange(min(64, len(prepared.records)))):
        row = np.array([[special.cls, *passage.tokens, special.sep]])
        states.append(module.apply(variables, row, method=module.hidden)[0])
    states = np.concatenate(states)
    leading = np.linalg.eigvalsh(np.cov(states.T))[::-1][:kept]
    variances = np.var(states @ half, axis=0, ddof=1)[:kept]
    np.testing.assert_allclose(variances, size * leading, rtol=0.02, atol=1e-5)


@pytest.mark.parametrize(
    ('mesh', 'more'),
    [
        (AbstractMesh((8, 1), ROW_AXES), 'devices'),
        (AbstractMesh((2, 8, 1), (SLICE, *ROW_AXES)), r'than 8 devices a slice \(or slices=1, f'),
    ],
    ids=['one slice', 'two slices'],
)
def test_a_share_of_the_table_of_a_slice_is_what_a_device_needs(mesh, more):
    zeros = lambda *shape: np.zeros(shape, np.float32)
    params = {'encoder': {'kernel': zeros(10, 10)}, 'entity_table': zeros(1000, 10)}
    start = jax.eval_shape(lambda: state.init_state(params, lambda name: True, make_optimizer(2)))
    layout = entity_table.Layout(mesh, 1000)
    # A parameter, its gradient and two moments, float32, of 100 and of a share of 10,000 numbers;
    # and counters.
    needed = 16 * (100 + 10_000 // 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state.distributed, 'device_memory', lambda: needed + 100)
        state.check_memory(start, layout, lambda name: True)
        patch.setattr(state.distributed, 'device_memory', lambda: needed - 100)
        said = rf'on each of {mesh.size} devices.* Take more {more}'
        with pytest.raises(trainer.TrainingError, match=said):
            state.check_memory(start, layout, lambda name: True)
