"""Updates of a memory that are stopped, and readers and files of others beside them."""

import shutil

import pytest

from opql_jax.core.errors import InputError
from opql_jax.core.manifest import plan_update
from opql_jax.memory import format, leftovers
from opql_jax.memory.format import Memory
from opql_jax.memory.update import compact, delete, inject

import tiny_memories as tiny


@pytest.mark.parametrize('next_update', ['inject', 'delete', 'compact'])
def test_files_of_somebody_else_outlast_every_update(tmp_path, next_update):
    """Also where they are named as an update might name its own."""
    tiny.make(tmp_path)
    tiny.add(tmp_path, tiny.make_table(12, seed=1)).close()
    names = (
        'segment-mine/notes.txt segment-00009/notes.txt tombstones-00000.npy entity_rows-00009.npy '
        '.film.partial mine/plan.json plan.json segment-00000/notes.txt segment-00000/plan.json '
        'segment-00000/relations-mine.npy'
    ).split()
    for path in (tmp_path / name for name in names):
        path.parent.mkdir(exist_ok=True)
        path.write_text('precious')
    before = Memory.open(tmp_path).hash()
    tiny.UPDATES[next_update](tmp_path)
    assert Memory.open(tmp_path).hash() != before
    assert {(tmp_path / name).read_text() for name in names} == {'precious'}


@pytest.mark.parametrize(
    'name',
    ['segment-00001/notes.txt', 'tombstones-00001.npy', 'entity_rows-00001.npy', 'update.json'],
)
def test_files_of_somebody_else_where_an_update_would_write_are_refused_and_kept(tmp_path, name):
    tiny.make(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"format": "precious"}')
    before = tiny.digest_of_tree(tmp_path)
    for update in (tiny.UPDATES['inject'], tiny.UPDATES['delete']):
        said = f'{name.split("/")[0]} is in the way, and nothing that update_memory wrote'
        with pytest.raises(InputError, match=said):
            update(tmp_path)
    assert tiny.digest_of_tree(tmp_path) == before


class Interrupted:
    """An encoder that is stopped at the `after`-th shard; counts what it has encoded."""

    def __init__(self, after=None):
        self.after, self.shards = after, 0

    def __call__(self, rows):
        if self.shards == self.after:
            raise KeyboardInterrupt
        self.shards += 1
        return tiny.relations_of(rows)


def interrupted(directory, seed=1):
    """A memory into which an injection of three shards was stopped after the second."""
    tiny.make(directory).close()
    with pytest.raises(KeyboardInterrupt):
        inject(directory, tiny.make_table(21, seed=seed), Interrupted(2), tiny.injection())


BETWEEN = 'nothing', 'damage', 'other pairs', 'another vocabulary', 'another state'


@pytest.mark.parametrize('between', BETWEEN)
def test_an_injection_goes_on_with_its_own_whole_shards_alone(tmp_path, between):
    interrupted(tmp_path)
    if between == 'another state':
        delete(tmp_path, entries=[3])
    elif between == 'damage':
        (tmp_path / 'segment-00001' / 'relations-00000.npy').write_bytes(b'half')
    table = tiny.make_table(21, seed=2 if between == 'other pairs' else 1)
    vocab = tiny.vocab_of(tiny.MOST - 1) if between == 'another vocabulary' else tiny.VOCAB
    encode = Interrupted()
    memory = inject(tmp_path, table, encode, tiny.injection(vocab=vocab))
    assert encode.shards == {'nothing': 1, 'damage': 2}.get(between, 3)
    memory.verify()


def test_files_of_a_state_that_is_open_stay_until_it_is_closed(tmp_path):
    reader = tiny.make(tmp_path)
    before = tiny.entries_of(reader)
    tiny.add(tmp_path, tiny.make_table(12, seed=1)).close()
    compact(tmp_path).close()
    names = lambda: {path.name for path in tmp_path.iterdir()}
    kept = {'entity_rows-00001.npy', 'manifest.json', 'segment-00002'}
    assert names() == kept | {'segment-00000', 'update.json'}
    assert tiny.entries_of(reader) == before and len(reader.provenance(reader.ids)) == 40
    reader.close()
    compact(tmp_path)
    assert names() == kept


def test_a_state_replaced_while_it_is_being_opened_is_not_opened(tmp_path, monkeypatch):
    tiny.make(tmp_path).close()
    tiny.add(tmp_path, tiny.make_table(12, seed=1)).close()
    read = format.read_manifest

    def overtaken(directory):
        manifest = read(directory)
        monkeypatch.undo()
        compact(directory).close()  # removes the two segments that `manifest` names
        return manifest

    monkeypatch.setattr(format, 'read_manifest', overtaken)
    memory = Memory.open(tmp_path)
    assert [segment.name for segment in memory.manifest.segments] == ['segment-00002']
    assert len(tiny.entries_of(memory)) == 52


@pytest.mark.parametrize('next_update', ['inject', 'delete', 'compact'])
def test_what_a_killed_update_left_is_removed_by_any_next_one(tmp_path, next_update):
    tiny.make(tmp_path / 'killed')
    shutil.copytree(tmp_path / 'killed', tmp_path / 'whole')
    written = ['segment-00001', 'tombstones-00001.npy', 'entity_rows-00001.npy']
    plan_update(tmp_path / 'killed', leftovers.PLAN, ['segment-00000'], written)
    names = 'segment-00001/topic.npy segment-00001/.target.npy.1.partial tombstones-00001.npy'
    for name in (*names.split(), '.manifest.json.1.partial'):
        path = tmp_path / 'killed' / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b'half')
    for directory in (tmp_path / 'killed', tmp_path / 'whole'):
        tiny.UPDATES[next_update](directory)
    assert tiny.digest_of_tree(tmp_path / 'killed') == tiny.digest_of_tree(tmp_path / 'whole')
