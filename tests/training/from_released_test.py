"""Training that starts from a released encoder: its weights as they are read, over text prepared with its tokenizer."""

import functools

import numpy as np
import pytest
from flax import traverse_util

from opql_jax.core.errors import InputError
from opql_jax.models import released
from opql_jax.training import model_config, objectives

import tiny_text_encoder
import tiny_training


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """A folder with a text `text/kb/text` and an encoder that was released, `encoder`."""
    folder = tmp_path_factory.mktemp('from released')
    tiny_text_encoder.write_text(folder / 'text')
    encoder = tiny_text_encoder.make()
    released.write(folder / 'encoder', encoder.module, encoder.params, encoder.tokenizer.to_str(), '# A tiny encoder\n')
    return folder


def train(world, name, folder=None, text=None, encoder=tiny_training.encoder, **settings):
    """A few steps from the released encoder; returns all parameters by name."""
    objective = objectives.Entities(rows=16, **settings)
    folder = str(folder or world / 'encoder')
    tiny_training.run(text or world / 'text/kb/text', world / name, objective, encoder=encoder, bert_folder=folder)
    return tiny_training.params_of(world / name)


def changed(world, params):
    """The names of parameters of the encoder that are not as they were released; W_e, which is not released, aside."""
    _, start, _ = released.read(world / 'encoder')
    start = traverse_util.flatten_dict({'encoder': start}, sep='/')
    return {name for name, value in start.items() if 'w_e' not in name and not np.array_equal(value, params[name])}


def test_a_frozen_encoder_stays_as_it_was_released_while_entities_are_learnt(world):
    params = train(world, 'frozen', frozen_encoder=True)
    assert changed(world, params) == set()
    fresh = train(world, 'frozen-longer', frozen_encoder=True, sampled_entities=4)
    for name in ('entity_table', 'encoder/w_e/kernel'):
        assert np.isfinite(params[name]).all() and not np.array_equal(params[name], fresh[name])


def test_otherwise_all_of_it_is_trained_from_there(world):
    params = train(world, 'trained')
    trained = changed(world, params)
    assert {'encoder/token_embedding/embedding', 'encoder/layers_0/mlp_in/kernel'} <= trained
    _, start, _ = released.read(world / 'encoder')
    before, after = start['layers_0']['mlp_in']['kernel'], params['encoder/layers_0/mlp_in/kernel']
    assert np.abs(after - before).max() < 0.01 < np.abs(before).max()


def test_its_memories_read_pairs_off_spans_as_the_released_encoder_does(world):
    train(world, 'spans', frozen_encoder=True)
    assert model_config.read(world / 'spans').pair_encoding == 'span_pair'


def test_text_of_another_vocabulary_is_refused(world, tmp_path):
    tiny_training.write_prepared(tmp_path / 'text')
    with pytest.raises(
        InputError, match='reads another vocabulary: prepare the text with its tokenizer, TOKENIZER=.*encoder$'
    ):
        train(world, 'model', text=tmp_path / 'text')


def test_another_shape_is_refused_and_its_own_is_told(world):
    with pytest.raises(InputError, match='another shape than the encoder that is trained: it has .*relation_dim=8'):
        train(world, 'other', encoder=functools.partial(tiny_training.encoder, relation_dim=12))


def test_a_damaged_release_is_not_trained_from(world, tmp_path):
    for path in (world / 'encoder').iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    content = bytearray((tmp_path / 'model.safetensors').read_bytes())
    content[-1] ^= 1
    (tmp_path / 'model.safetensors').write_bytes(content)
    with pytest.raises(InputError, match='model.safetensors'):
        train(world, 'damaged', folder=tmp_path)
