"""The directory of an index: whose files a build removes, and an index that is built again while it is being opened."""

import contextlib

import pytest

from opql_jax.core.errors import InputError
from opql_jax.memory import ann, ann_build
from opql_jax.memory.ann import open_index
from opql_jax.memory.ann_build import build_index

from ann_memories import TABLE, K, make_memory, queries_near, with_scann


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


@pytest.mark.parametrize('plan', [None, '{}', '{"format": "opql-memory"}', 'mine'])
def test_a_folder_named_as_an_index_but_not_begun_by_a_build_is_left_alone(tmp_path, plan):
    memory = make_memory(tmp_path / 'memory', 5)
    (tmp_path / 'index' / 'index-00000').mkdir(parents=True)
    (tmp_path / 'index' / 'index-00000' / 'precious.txt').write_text('precious')
    if plan is not None:
        (tmp_path / 'index' / 'plan.json').write_text(plan)
    with pytest.raises(InputError, match='index-00000: not of an index.*directory of its own'):
        build_index(tmp_path / 'index', memory, TABLE)
    assert (tmp_path / 'index' / 'index-00000' / 'precious.txt').read_text() == 'precious'


@with_scann
def test_an_index_replaced_while_it_is_being_opened_is_opened_as_it_is_then(tmp_path, monkeypatch):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 1000)
    memory = make_memory(tmp_path / 'memory', 2000)
    build_index(tmp_path / 'index', memory, TABLE, recall=0.8)
    read, check_files = ann.read_manifest, ann.check_files
    for name, whole in (('read_manifest', read), ('check_files', check_files)):

        def overtaken(*given):
            found = whole(*given)
            monkeypatch.setattr(ann, name, whole)
            build_index(tmp_path / 'index', memory, TABLE, recall=0.8)  # removes the folder that `found` names
            return found

        before = read(tmp_path / 'index', ann.FORMAT).folder
        monkeypatch.setattr(ann, name, overtaken)
        index = open_index(tmp_path / 'index', memory, TABLE)
        assert index.manifest == read(tmp_path / 'index', ann.FORMAT) and index.manifest.folder != before
        assert (index.search(*queries_near(memory, 3), K)[1] >= 0).all()
