"""What is refused of an index: damage, and all that would make ScaNN run code or open other files."""

import json
import shutil

import pytest
from damage import edit, flip, sign

from opql_jax.core.errors import InputError
from opql_jax.memory import ann, ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index

from ann_memories import TABLE, make_memory, with_scann


@pytest.fixture(scope='module')
def memory(tmp_path_factory):
    return make_memory(tmp_path_factory.mktemp('memory'), 2000)


@pytest.fixture(scope='module')
def folder(tmp_path_factory, memory):
    folder = tmp_path_factory.mktemp('index')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann_build, 'MIN_ENTRIES', 1000)
        build_index(folder, memory, TABLE, recall=0.8)
    return folder


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


DAMAGE = {
    'other format version': (
        lambda d: edit(d, version=0),
        'version 0, this program reads 1; .* run ann_build.build_index again',
    ),
    'other ScaNN': (lambda d: edit(d, scann='1.0'), 'built by ScaNN 1.0.*build the index again'),
    'not an index': (lambda d: edit(d, format='opql-memory'), 'not the manifest of an index'),
    'killed build': (lambda d: (d / 'manifest.json').unlink(), 'is not an index, or ann_build.build_index did not end'),
    'cut manifest': (lambda d: truncate(d / 'manifest.json') or truncate(d / 'manifest.json'), 'not valid JSON'),
    'cut file': (lambda d: truncate(d / 'index-00000' / 'hashed_dataset.npy'), 'hashed_dataset.npy: .*truncated'),
    'missing file': (
        lambda d: (d / 'index-00000' / 'ah_codebook.pb').unlink(),
        'ah_codebook.pb: listed in manifest.json but missing',
    ),
    'flipped bit': (lambda d: flip(d / 'index-00000' / 'ah_codebook.pb', 900), 'ah_codebook.pb: its sha256 is not the one'),
    'a pickle': (lambda d: pickle_beside(d), 'scann_docids.pkl: not listed'),
    'a pickle that is listed': (
        lambda d: pickle_beside(d) or list_also(d, 'scann_docids.pkl'),
        'does not list .* and nothing else',
    ),
    'paths of others': (
        lambda d: replace(d / 'index-00000' / ann.ASSETS, 'ah_codebook.pb', '/etc/codebook') or sign(d),
        'scann_assets.pbtxt: not the list of files that ScaNN writes',
    ),
    'a folder outside': (lambda d: edit(d, folder='../index-00000'), 'does not list'),
    'another count': (lambda d: edit(d, num_entries=7), r'ids.npy: int64\[2000\], expected int64\[7\]'),
    'unknown field': (lambda d: edit(d, leafs=3), 'manifest.json: not what this program writes: .*unknown field `leafs`'),
}


def pickle_beside(directory):
    """Puts a pickle there that makes a folder when it is loaded."""
    code = b'cos\nmkdir\n(V' + str(directory / 'unpickled').encode() + b'\ntR.'
    (directory / 'index-00000' / 'scann_docids.pkl').write_bytes(code)


def list_also(directory, name):
    """Makes the manifest list one more file."""
    listed = json.loads((directory / 'manifest.json').read_text())['files']
    edit(directory, files=listed | {f'index-00000/{name}': {}})
    sign(directory)


def replace(path, old, new):
    path.write_text(path.read_text().replace(old, new))


@with_scann
@pytest.mark.parametrize('name', DAMAGE)
def test_an_index_that_is_not_whole_is_refused(memory, folder, tmp_path, name):
    spoil, message = DAMAGE[name]
    copy = shutil.copytree(folder, tmp_path / 'copy')
    open_index(copy, memory, TABLE)
    spoil(copy)
    with pytest.raises(InputError, match=message):
        open_index(copy, memory, TABLE)
    assert not (copy / 'unpickled').exists()
