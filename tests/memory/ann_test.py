"""The approximate index of a memory: what it finds, removes and refuses."""

import contextlib
import json
import math
import pathlib
import shutil
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from damage import edit, sign, stating

from opql_jax.core.errors import InputError
from opql_jax.memory import ann, ann_build
from opql_jax.memory.ann import ExactIndex, ScannIndex, open_index
from opql_jax.memory.ann_build import build_index
from opql_jax.memory.follow import Queries
from opql_jax.memory.format import Memory
from opql_jax.memory.search import retrieve
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import shard_memory
from opql_jax.memory.update import Injection, delete, inject
from opql_jax.parallel.mesh import make_mesh

from ann_memories import (
    ENTITIES,
    HASHES,
    TABLE,
    VOCAB,
    K,
    keys_of,
    make_memory,
    queries_near,
    with_scann,
)
from tiny_memories import digest_of_tree, table_of


def scores_of(queries, memory, table=TABLE):
    return np.concatenate(queries, axis=1).astype(np.float64) @ keys_of(memory, table).T


def best_of(scores, k):
    return np.argsort(-scores, axis=1, kind='stable')[:, :k]


def check(found, dense, k):
    """Scores are the rows' own, in order, no row is there twice, and no slot is left unused."""
    scores, rows = found
    batch, size = dense.shape
    used = min(k, size)
    assert scores.shape == rows.shape == (batch, k)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int32)
    assert (rows[:, used:] == -1).all()
    assert (scores[:, used:] == -np.inf).all()
    assert (rows[:, :used] >= 0).all()
    rows, scores = rows[:, :used], scores[:, :used]
    assert all(len(set(row)) == used for row in rows.tolist())
    np.testing.assert_allclose(scores, np.take_along_axis(dense, rows, axis=1), atol=2e-5)
    falls, ties = np.diff(scores) < 0, np.diff(scores) == 0
    assert (falls | ties).all() and (np.diff(rows)[ties] > 0).all()
    return ties


@pytest.fixture(scope='module')
def memory(tmp_path_factory):
    return make_memory(tmp_path_factory.mktemp('memory'), 20_000)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('index')


@pytest.fixture(scope='module')
def index(folder, memory):
    return build_index(folder, memory, TABLE)


@pytest.fixture(scope='module')
def few(tmp_path_factory):
    root = tmp_path_factory.mktemp('few')
    memory = make_memory(root / 'memory', 2000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ann_build, 'MIN_ENTRIES', 1000)
        build_index(root / 'index', memory, TABLE, recall=0.8)
    return memory, root / 'index'


@pytest.fixture
def small(few, monkeypatch):
    """The memory, which is otherwise too small for an index."""
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 1000)
    return few[0]


@pytest.fixture
def small_index(few, small, tmp_path):
    return pathlib.Path(shutil.copytree(few[1], tmp_path / 'index'))


@pytest.fixture
def without_scann(monkeypatch):
    for name in [name for name in sys.modules if name.partition('.')[0] == 'scann']:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, 'scann', None)


@with_scann
@pytest.mark.parametrize('k', [1, K, 300, 20_003])
def test_scores_are_those_of_the_rows_in_order(memory, index, k):
    queries = queries_near(memory, 40)
    ties = check(index.search(*queries, k), scores_of(queries, memory), k)
    assert ties.any() or k == 1


@with_scann
def test_the_stated_recall_is_that_of_other_queries(memory, index):
    queries = queries_near(memory, 600)
    scores = scores_of(queries, memory)
    worst = -np.sort(-scores, axis=1)[:, K - 1 : K]
    found = np.take_along_axis(scores, index.search(*queries, K)[1], axis=1)
    share = (found >= worst - 1e-9).mean(axis=1)  # by score, as some keys are there twice
    stated = index.manifest
    error = math.hypot(share.std(ddof=1) / len(share) ** 0.5, stated.recall_standard_error)
    assert abs(share.mean() - stated.recall) < 4 * error
    assert stated.recall - 2 * stated.recall_standard_error >= stated.recall_target == 0.95
    # It is less than everything that is looked at.
    assert index.leaves < stated.num_leaves / 2 and share.mean() < 1


@with_scann
def test_two_builds_give_the_same_bytes(tmp_path, memory, folder, index):
    build_index(tmp_path, memory, TABLE)
    assert digest_of_tree(tmp_path) == digest_of_tree(folder)
    assert len(digest_of_tree(tmp_path)) > 4


@with_scann
def test_an_index_of_another_memory_is_refused(folder, index, memory, small, changing):
    delete(changing, entries=memory.ids[: len(memory) // 10 + 1])
    other = TABLE.copy()
    other[-1, -1] += 1e-6
    for searched, table, said in (
        (small, TABLE, 'is an index of the memory .*, not of .*build an index'),
        (memory, other, 'entity table.*another: use that one, or build the index again'),
        (Memory.open(changing), TABLE, '2001 entries were added or deleted .*build the index aga'),
    ):
        with pytest.raises(InputError, match=said):
            open_index(folder, searched, table)


@with_scann
def test_a_killed_build_leaves_the_index_that_was_there(small, small_index, monkeypatch):
    opened, queries = open_index(small_index, small, TABLE), queries_near(small, 5)
    before, found = digest_of_tree(small_index), opened.search(*queries, 4)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        write = ann_build.manifest_lib.write_manifest

        def killed_at_the_end(folder, of, *rest):
            if of is ann.FORMAT:
                raise KeyboardInterrupt
            write(folder, of, *rest)

        patch.setattr(ann_build.manifest_lib, 'write_manifest', killed_at_the_end)
        build_index(small_index, small, TABLE, recall=0.9)
    assert before.items() < digest_of_tree(small_index).items()
    opened = open_index(small_index, small, TABLE)
    np.testing.assert_array_equal(opened.search(*queries, 4), found)
    # What it left is taken over, here or where none was.
    (small_index / '.manifest.json.1.partial').touch()
    (small_index / 'index-00001' / 'half').touch()
    again = build_index(small_index, small, TABLE, recall=0.9)
    assert again.manifest.recall_target == 0.9
    assert {path.name for path in small_index.iterdir()} == {'index-00001', 'manifest.json'}
    assert not (small_index / 'index-00001' / 'half').exists()


@pytest.fixture
def changing(tmp_path, memory):
    shutil.copytree(memory.directory, tmp_path / 'changing')
    return tmp_path / 'changing'


@with_scann
def test_deleted_entries_are_never_returned_and_injected_ones_are(folder, memory, index, changing):
    queries = queries_near(memory, 30)
    _, rows = index.search(*queries, K)
    # All that the first query would find, and whole topics of others.
    delete(changing, entries=memory.ids[rows[0]], entities=memory.topic[rows[1:4, 0]])
    key = [5.0 * part[5] / np.linalg.norm(part[5]) for part in queries]
    new = table_of([ENTITIES, ENTITIES, 0], [1, 2, 3])
    encode = lambda rows: np.stack([key[1], key[1], -key[1]])[rows]
    embed = lambda entities: key[0][None]
    inject(changing, new, encode, Injection(VOCAB, HASHES['encoder'], embed))
    changed = Memory.open(changing)
    table = np.concatenate([TABLE, changed.entity_rows])
    assert len(changed) < len(memory)
    updated = open_index(folder, changed, table)
    assert isinstance(updated, ScannIndex)
    scores = scores_of(queries, changed, table)
    found = updated.search(*queries, K)
    check(found, scores, K)
    ids = changed.ids[found[1]]
    assert not np.isin(ids[0], memory.ids[rows[0]]).any()
    # New entries have their ids in order of the topic, so that of topic 0 has the first.
    assert ids[5, :2].tolist() == [len(memory) + 1, len(memory) + 2]
    recall = np.mean([np.isin(want, got).mean() for want, got in zip(best_of(scores, K), found[1])])
    assert recall > 0.9


@with_scann
@pytest.mark.parametrize('barred', [False, True])
def test_a_program_finds_by_the_index_what_an_exact_search_finds(memory, index, barred):
    queries = Queries(*queries_near(memory, 40))
    placed = shard_memory(memory.topic, memory.target, memory.relations(), make_mesh(1))
    best = memory.target[index.search(*queries, K)[1]]
    filter = SearchFilter(excluded_targets=jnp.asarray(best[:, :2])) if barred else SearchFilter()
    run = jax.jit(lambda memory: retrieve(memory, TABLE, queries, K, filter))
    found, exact = (jax.device_get(run(each)) for each in (ann.searched_by(placed, index), placed))
    rows, wanted = found.entry_rows, exact.entry_rows
    assert (rows >= 0).all() and all(len(set(row)) == K for row in rows.tolist())
    assert np.mean([np.isin(want, got).mean() for want, got in zip(wanted, rows)]) > 0.9
    scores = np.take_along_axis(scores_of(queries, memory), rows, axis=1)
    np.testing.assert_allclose(np.log(found.beta), jax.nn.log_softmax(scores), atol=5e-5)
    if barred:
        assert not (found.entities[:, :, None] == best[:, None, :2]).any()
    else:
        np.testing.assert_array_equal(rows, index.search(*queries, K)[1])


def check_exact(found, memory):
    queries = queries_near(memory, 7)
    dense = scores_of(queries, memory)
    for k in (1, K, len(memory) + 2):
        scores, rows = found.search(*queries, k)
        check((scores, rows), dense, k)
        best = np.take_along_axis(dense, best_of(dense, k), axis=1)
        np.testing.assert_allclose(scores[:, : best.shape[1]], best, atol=2e-5)


def test_without_scann_search_is_exact(tmp_path, without_scann, caplog, monkeypatch):
    monkeypatch.setattr(ann_build, 'MIN_ENTRIES', 100)
    memory = make_memory(tmp_path / 'memory', 300)
    for get in (build_index, open_index):
        found = get(tmp_path / 'index', memory, TABLE)
        assert isinstance(found, ExactIndex)
        check_exact(found, memory)
    said = 'ScaNN was not installed when it was built, so the memory is searched exactly'
    assert caplog.text.count(said) == 1


def test_a_tiny_memory_is_searched_exactly_and_files_of_others_are_left_alone(tmp_path):
    memory = make_memory(tmp_path / 'memory', 5)
    found = build_index(tmp_path / 'index', memory, TABLE)
    assert isinstance(found, ExactIndex)
    check_exact(found, memory)
    for name in ('notes.txt', 'index-html/precious.txt', 'index-00000x/precious.txt'):
        file = tmp_path / name.partition('.')[0] / name
        file.parent.mkdir(parents=True)
        file.write_text('precious')
        said = f'{name.partition("/")[0]}: not of an index.*directory of its own'
        with pytest.raises(InputError, match=said):
            build_index(tmp_path / name.partition('.')[0], memory, TABLE)
        assert file.read_text() == 'precious'


@with_scann
@pytest.mark.parametrize(
    'name', ['index-00007/precious.txt', '.x.partial', 'plan.json', 'index-00001/precious.txt']
)
def test_files_of_somebody_else_beside_an_index_outlast_another_build(small, small_index, name):
    """Also where they are named as a build names its own; where it would write it refuses to."""
    (small_index / name).parent.mkdir(exist_ok=True)
    (small_index / name).write_text('precious')
    in_the_way = name in ('plan.json', 'index-00001/precious.txt')
    refused = pytest.raises(InputError, match='is in the way')
    with refused if in_the_way else contextlib.nullcontext():
        build_index(small_index, small, TABLE, recall=0.8)
    assert (small_index / name).read_text() == 'precious'
    folder = 'index-00000' if in_the_way else 'index-00001'
    assert open_index(small_index, small, TABLE).manifest.folder == folder


def pickle_beside(directory):
    """Puts a pickle there that makes a folder when it is loaded."""
    code = b'cos\nmkdir\n(V' + str(directory / 'unpickled').encode() + b'\ntR.'
    (directory / 'index-00000' / 'scann_docids.pkl').write_bytes(code)


def list_pickle(directory):
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
def test_what_scann_would_run_or_open_elsewhere_is_refused(small, small_index):
    memory, folder = small, small_index
    manifest, assets = folder / 'manifest.json', folder / 'index-00000' / ann.ASSETS
    whole = {path: path.read_bytes() for path in (manifest, assets)}
    for spoil, message in (
        (pickle_beside, 'scann_docids.pkl: not listed'),
        (list_pickle, 'does not list .* and nothing else'),
        (lead_elsewhere, 'scann_assets.pbtxt: not the list of files that ScaNN writes'),
        (stating(folder='../index-00000'), 'does not list'),
        (stating(scann='1.0'), 'built by ScaNN 1.0.*build the index again'),
        (stating(num_entries=7), r'ids.npy: int64\[2000\], expected int64\[7\]'),
    ):
        spoil(folder)
        with pytest.raises(InputError, match=message):
            open_index(folder, memory, TABLE)
        (folder / 'index-00000' / 'scann_docids.pkl').unlink(missing_ok=True)
        for path, content in whole.items():
            path.write_bytes(content)
    assert not (folder / 'unpickled').exists() and open_index(folder, memory, TABLE).recall
