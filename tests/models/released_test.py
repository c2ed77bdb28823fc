"""Released encoders: what is written is read back within 8 bits, whole or not at all."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from flax import traverse_util

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import ManifestError
from opql_jax.models import released
from opql_jax.models.mention_kinds import MentionKinds
from opql_jax.models.text_encoder import TextEncoder

import tiny_text_encoder

ENCODER = tiny_text_encoder.make()
CARD = '# A tiny encoder\n\nLicence: none.\n'
FILES = ('model.safetensors', 'tokenizer.json', 'README.md', 'config.json')


def write(folder, params=None, card=CARD):
    params = params or ENCODER.params
    released.write(folder, ENCODER.module, params, ENCODER.tokenizer.to_str(), card)
    return folder


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp('released') / 'a')


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_is_read_back_is_float32_and_differs_by_half_a_step_at_most(folder):
    fields, params, tokenizer = released.read(folder)
    module = released.module(fields)
    assert tokenizer.get_vocab() == ENCODER.tokenizer.get_vocab()
    assert (module.relation_dim, module.entity_dim, module.dropout_rate) == (8, 0, 0)
    found, expected = (traverse_util.flatten_dict(x, sep='.') for x in (params, ENCODER.params))
    assert found.keys() == expected.keys()
    for name in found.keys() - {'w_e.kernel'}:
        value = np.asarray(expected[name], np.float64)
        assert found[name].dtype == np.float32
        # A row of a table, or what leads to one output of a layer.
        axes = {'embedding.': (1,), 'attention_out.kernel': (0, 1)}
        inputs = next((axes[part] for part in axes if part in name), (0,))
        step = np.abs(value).max(axis=inputs, keepdims=True) / 127
        if not name.endswith(('kernel', 'embedding')):
            step = 0
        assert (np.abs(found[name] - value) <= step * 0.501).all(), name


@pytest.mark.parametrize('name', ['notes.txt', 'model.safetensors', 'config.json'])
def test_a_folder_with_other_files_is_refused_and_keeps_them(tmp_path, name):
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(InputError, match='holds other files: give a new or empty folder'):
        write(tmp_path)
    assert content(tmp_path) == {name: b'{"mine": 1}'}


@pytest.mark.parametrize('number', [np.nan, np.inf])
def test_parameters_that_are_not_finite_are_not_released(folder, tmp_path, number):
    params = jax.tree.map(np.array, ENCODER.params)
    params['w_r']['kernel'][3, 1] = number
    with pytest.raises(InputError, match='w_r.kernel has a number that is not finite'):
        write(tmp_path / 'new', params)
    assert not (tmp_path / 'new').exists()
    before = content(write(tmp_path / 'old'))
    with pytest.raises(InputError, match='not finite'):
        write(tmp_path / 'old', params)
    assert content(tmp_path / 'old') == before


def test_an_interrupted_release_is_told_and_made_again(folder, tmp_path, monkeypatch):
    write(tmp_path / 'a')

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(released.manifest_lib, 'write_manifest', killed)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / 'a', jax.tree.map(lambda x: x * 2, ENCODER.params))
    with pytest.raises(ManifestError, match='model.safetensors: its sha256 is not'):
        released.read(tmp_path / 'a')
    assert content(write(tmp_path / 'a')) == content(folder)


def test_what_tells_kinds_is_added_to_a_release_and_replaced(folder, tmp_path):
    shutil.copytree(folder, tmp_path / 'a')
    assert released.read_kinds(folder) is TextEncoder.load(folder).kinds is None
    for seed in range(2):
        kernel = np.random.default_rng(seed).normal(size=(16, 4)).astype(np.float32)
        kinds = MentionKinds(kernel, np.ones(4, np.float32))
        released.add_kinds(tmp_path / 'a', kinds)
        assert TextEncoder.load(tmp_path / 'a').kinds.to_bytes() == kinds.to_bytes()
    others = {name: bytes for name, bytes in content(tmp_path / 'a').items() if name in FILES[:3]}
    assert others == {name: bytes for name, bytes in content(folder).items() if name in FILES[:3]}
    write(tmp_path / 'a')  # another encoder has other vectors of mentions
    assert content(tmp_path / 'a') == content(folder)


def test_an_open_encoder_is_given_again_until_a_file_changes(folder, tmp_path):
    shutil.copytree(folder, tmp_path / 'a')
    encoder = TextEncoder.load(tmp_path / 'a')
    assert TextEncoder.load(tmp_path / 'a') is encoder
    assert TextEncoder.load(os.path.relpath(tmp_path / 'a')) is encoder
    assert TextEncoder.load(folder) is not encoder
    write(tmp_path / 'a', jax.tree.map(lambda x: x * 2, ENCODER.params))
    other = TextEncoder.load(tmp_path / 'a')
    assert other is not encoder and TextEncoder.load(tmp_path / 'a') is other
    for name in FILES:
        whole = (tmp_path / 'a' / name).read_bytes()
        (tmp_path / 'a' / name).write_bytes(whole[:-2])
        with pytest.raises(ManifestError):
            TextEncoder.load(tmp_path / 'a')
        (tmp_path / 'a' / name).write_bytes(whole)
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(lambda _: TextEncoder.load(tmp_path / 'a'), range(8)))) == 1
