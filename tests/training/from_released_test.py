"""Training that starts from a released encoder, over text prepared with its tokenizer."""

import functools
import shutil

import jax
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.models import released
from opql_jax.training import model_config, objectives
from opql_jax.training.progress import TrainingError

import tiny_text_encoder
import tiny_training


def write(folder, encoder, params):
    released.write(folder, encoder.module, params, encoder.tokenizer.to_str(), '# A tiny encoder\n')


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp('from released')
    tiny_text_encoder.write_text(folder / 'text')
    encoder = tiny_text_encoder.make()
    write(folder / 'encoder', encoder, encoder.params)
    return folder


def train(world, name, folder=None, text=None, encoder=tiny_training.encoder, **settings):
    frozen = settings.pop('frozen_encoder', False)
    objective = objectives.Entities(rows=16, frozen_encoder=frozen)
    settings |= dict(encoder=encoder, bert_folder=str(folder or world / 'encoder'))
    tiny_training.run(text or world / 'text/kb/text', world / name, objective, **settings)
    return tiny_training.params_of(world / name)


def test_a_run_is_resumed_only_from_the_same_encoder_wherever_it_lies(world, tmp_path):
    shutil.copytree(world / 'encoder', tmp_path / 'moved')
    other = tiny_text_encoder.make()
    write(tmp_path / 'other', other, jax.tree.map(lambda x: x * 1.1, other.params))
    go_on = functools.partial(train, world, frozen_encoder=True)
    go_on('own', num_steps=2)
    go_on('own', tmp_path / 'moved', num_steps=3)
    with pytest.raises(TrainingError, match='cannot be resumed as another run .bert_hash was'):
        go_on('own', tmp_path / 'other', num_steps=4)
    with pytest.raises(InputError, match='elsewhere/config.json: no such file'):
        go_on('own', tmp_path / 'elsewhere', num_steps=4)


def test_the_encoder_of_a_run_goes_on_over_text_with_other_entities(world, tmp_path):
    before = train(world, 'run', num_steps=1, frozen_encoder=True)
    _, released_params, _ = released.read(world / 'encoder')
    kernel = released_params['w_r']['kernel']
    np.testing.assert_array_equal(before['encoder/w_r/kernel'], kernel)
    reader, tokenizer = Synthetic(10, num_train=1, num_eval=1), world / 'text/tokenizer.json'
    prepare(kb=str(tmp_path), reader=reader, tokenizer=str(tokenizer))
    go_on = functools.partial(
        train, world, 'run-of-others', world / 'run', tmp_path / 'text', frozen_encoder=True
    )
    after = go_on(num_steps=1)
    new = {name for name in after if not np.array_equal(after[name], before[name])}
    assert after.keys() == before.keys() and new <= {'entity_table', 'encoder/w_e/kernel'}
    entities = len(after['entity_table'])
    assert entities == len(Prepared(tmp_path / 'text').vocab) != len(before['entity_table'])
    assert model_config.read(world / 'run-of-others').pair_encoding == 'span_pair'
    go_on(num_steps=2)
    tiny_training.write_prepared(tmp_path / 'other')
    with pytest.raises(InputError, match='run/tokenizer.json is not the tokenizer of .*other, so'):
        train(world, 'none', world / 'run', tmp_path / 'other')
