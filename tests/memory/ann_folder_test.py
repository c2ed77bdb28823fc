"""The directory of an index: whose files a build removes, and what is refused that would make ScaNN run code or open other files."""

import contextlib
import json

import pytest
from damage import edit, sign

from opql_jax.core.errors import InputError
from opql_jax.memory import ann, ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index

from ann_memories import TABLE, make_memory, with_scann


@pytest.mark.parametrize('name', ['notes.txt', 'index-page', 'index-html/precious.txt', 'index-00000x/precious.txt'])
def test_files_of_others_are_left_alone(tmp_path, name):
    memory = make_memory(tmp_path / 'memory', 5)
    file = tmp_path / 'index' / name
    file.parent.mkdir(parents=True)
    file.write_text('precious')
    with pytest.raises(InputError, match=f'{name.partition("/")[0]}: not of an index.*directory of its own'):
        build_index(tmp_path / 'index', memory, TABLE)
    # Nor does a build remove what was put beside an index.
    file.rename(tmp_path / 'kept')
    if file.parent != tmp_path / 'index':
        file.parent.rmdir()
    build_index(tmp_path / 'index', memory, TABLE)
    file.parent.mkdir(exist_ok=True)
    (tmp_path / 'kept').rename(file)
    build_index(tmp_path / 'index', memory, TABLE)
    assert file.read_text() == 'precious'


@with_scann
def test_what_a_killed_first_build_left_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 1000)
    memory, folder = make_memory(tmp_path / 'memory', 2000), tmp_path / 'index'

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ann_build, 'write_manifest', killed)
        with pytest.raises(KeyboardInterrupt):
            build_index(folder, memory, TABLE, recall=0.8)
    assert sorted(path.name for path in folder.iterdir()) == ['index-00000', 'plan.json']
    (folder / '.manifest.json.1.partial').touch()
    (folder / 'index-00000' / 'half').touch()
    build_index(folder, memory, TABLE, recall=0.8)
    assert sorted(path.name for path in folder.iterdir()) == ['index-00000', 'manifest.json']
    assert not (folder / 'index-00000' / 'half').exists()


@with_scann
@pytest.mark.parametrize('name', ['index-00007/precious.txt', 'plan.json', 'index-00001/precious.txt', '.x.partial'])
def test_files_of_somebody_else_beside_an_index_outlast_another_build(tmp_path, monkeypatch, name):
    """Also where they are named as a build might name its own; where it would write it refuses to."""
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 1000)
    memory, folder = make_memory(tmp_path / 'memory', 2000), tmp_path / 'index'
    build_index(folder, memory, TABLE, recall=0.8)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text('precious')
    in_the_way = name in ('plan.json', 'index-00001/precious.txt')
    with pytest.raises(InputError, match='is in the way') if in_the_way else contextlib.nullcontext():
        build_index(folder, memory, TABLE, recall=0.8)
    assert (folder / name).read_text() == 'precious'
    assert open_index(folder, memory, TABLE).manifest.folder == ('index-00000' if in_the_way else 'index-00001')


def pickle_beside(directory):
    """Puts a pickle there that makes a folder when it is loaded."""
    code = b'cos\nmkdir\n(V' + str(directory / 'unpickled').encode() + b'\ntR.'
    (directory / 'index-00000' / 'scann_docids.pkl').write_bytes(code)


def list_pickle(directory):
    """Makes the manifest list it, too."""
    pickle_beside(directory)
    listed = json.loads((directory / 'manifest.json').read_text())['files']
    edit(directory, files=listed | {'index-00000/scann_docids.pkl': {}})
    sign(directory)


def lead_elsewhere(directory):
    """Makes ScaNN's list of its files name one outside of the folder."""
    path = directory / 'index-00000' / ann.ASSETS
    path.write_text(path.read_text().replace('ah_codebook.pb', '/etc/codebook'))
    sign(directory)


@with_scann
def test_what_scann_would_run_or_open_elsewhere_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 1000)
    memory, folder = make_memory(tmp_path / 'memory', 2000), tmp_path / 'index'
    build_index(folder, memory, TABLE, recall=0.8)
    manifest, assets = folder / 'manifest.json', folder / 'index-00000' / ann.ASSETS
    whole = {path: path.read_bytes() for path in (manifest, assets)}
    for spoil, message in (
        (pickle_beside, 'scann_docids.pkl: not listed'),
        (list_pickle, 'does not list .* and nothing else'),
        (lead_elsewhere, 'scann_assets.pbtxt: not the list of files that ScaNN writes'),
        (lambda directory: edit(directory, folder='../index-00000'), 'does not list'),
        (lambda directory: edit(directory, scann='1.0'), 'built by ScaNN 1.0.*build the index again'),
        (lambda directory: edit(directory, num_entries=7), r'ids.npy: int64\[2000\], expected int64\[7\]'),
    ):
        spoil(folder)
        with pytest.raises(InputError, match=message):
            open_index(folder, memory, TABLE)
        (folder / 'index-00000' / 'scann_docids.pkl').unlink(missing_ok=True)
        for path, content in whole.items():
            path.write_bytes(content)
    assert not (folder / 'unpickled').exists() and open_index(folder, memory, TABLE).recall
