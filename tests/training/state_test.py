"""Parameters before the first step."""

import jax
import numpy as np
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.training import state, trainer

import tiny_training


@pytest.fixture(scope='module')
def prepared_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp('world') / 'prepared'
    tiny_training.write_prepared(folder)
    return folder


@pytest.mark.parametrize('relation_dim', [8, 32, 40])
def test_w_r_can_start_orthogonal_and_the_rest_as_it_was_drawn(prepared_dir, relation_dim):
    prepared = Prepared(prepared_dir)
    module = tiny_training.encoder(vocab_size=prepared.tokenizer.get_vocab_size()).clone(relation_dim=relation_dim)
    drawn = state.starting_params(module, prepared, None, None, seed=9)
    found = state.starting_params(module, prepared, None, None, seed=9, orthogonal_w_r=True)
    w_r = np.asarray(found['encoder'].pop('w_r')['kernel'], np.float64)
    was = drawn['encoder'].pop('w_r')['kernel']
    assert w_r.shape == was.shape == (2 * module.hidden_size, relation_dim)
    gram = w_r.T @ w_r if relation_dim < len(w_r) else w_r @ w_r.T
    np.testing.assert_allclose(gram, 0.02**2 * len(w_r) * np.eye(len(gram)), atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, found, drawn)


def test_a_checkpoint_brings_its_w_r(prepared_dir, tmp_path):
    tiny_training.write_untrained(prepared_dir, tmp_path / 'model')
    with pytest.raises(trainer.TrainingError, match='leave out orthogonal_w_r'):
        tiny_training.run(prepared_dir, tmp_path / 'x', init_from=str(tmp_path / 'model'), orthogonal_w_r=True)
