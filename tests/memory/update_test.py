"""Injecting, deleting and compacting: what a memory then holds, and what they refuse."""

import pathlib
import tempfile

import numpy as np
import pytest
from damage import flip
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.build import BuildOptions, build
from opql_jax.memory.format import SPANS, Memory
from opql_jax.memory.update import compact, delete, inject

import tiny_memories as tiny


class Model:
    def __init__(self):
        self.entries, self.next, self.count = {}, 0, tiny.ENTITIES

    def add(self, table, seed, count):
        """`mentions='all'`: an entry per row, by topic, target and place."""
        self.count = max(self.count, count)
        names = ('target_start', 'topic_start', 'passage', 'target', 'topic')
        for row in np.lexsort([getattr(table, name) for name in names]):
            value = lambda name: int(getattr(table, name)[row])
            where = {'entry': self.next, 'passage': value('passage')}
            where |= {span: (value(f'{span}_start'), value(f'{span}_end')) for span in SPANS}
            relation = tiny.encoder(seed)([row])[0].tobytes()
            ends = value('topic'), value('target')
            self.entries[self.next] = *ends, relation, (tuple(sorted(where.items())),)
            self.next += 1

    def delete(self, pairs=(), passages=(), entities=(), entries=()):
        gone = [
            entry
            for entry, (topic, target, _, (where,)) in self.entries.items()
            if entry in entries
            or (topic, target) in pairs
            or {topic, target} & set(entities)
            or dict(where)['passage'] in passages
        ]
        for entry in gone:
            del self.entries[entry]
        return gone


def check(memory, model):
    """The memory is what the model says; rows are sorted, and ranges those of the topics."""
    assert tiny.entries_of(memory) == model.entries
    assert len(memory) == len(model.entries) and memory.manifest.next_entry == model.next
    assert list(zip(memory.topic, memory.ids)) == sorted(zip(memory.topic, memory.ids))
    offsets = np.searchsorted(memory.topic, np.arange(model.count + 1))
    np.testing.assert_array_equal(memory.offsets, offsets)
    np.testing.assert_array_equal(memory.rows(memory.ids[::-1]), np.arange(len(memory))[::-1])
    new = range(tiny.ENTITIES, model.count)
    np.testing.assert_array_equal(memory.entity_rows, tiny.embed(new) if new else np.zeros((0, 0)))
    if len(memory):  # as devices get it
        columns = memory.topic, memory.target, memory.relations(), memory.offsets
        for found, expected in zip(memory.arrays(), columns, strict=True):
            np.testing.assert_array_equal(found, expected)
    for entry in set(range(-1, model.next + 1)) - set(model.entries):
        with pytest.raises(IndexError, match=f'entry {entry} is not in'):
            memory.provenance([entry])


ENTITY, PASSAGE = st.integers(0, tiny.MOST - 1), st.integers(0, 9)
ROWS = st.lists(st.tuples(ENTITY, ENTITY, PASSAGE), min_size=1, max_size=16)
DELETED = st.fixed_dictionaries(
    {
        'pairs': st.lists(st.tuples(ENTITY, ENTITY), max_size=3),
        'passages': st.lists(PASSAGE, max_size=1),
        'entities': st.lists(ENTITY, max_size=1),
        'entries': st.lists(st.integers(0, 99), max_size=8),
    }
)
others = (st.just((name, None)) for name in ('compact', 'again', 'hold'))
changes = st.tuples(st.just('inject'), ROWS), st.tuples(st.just('delete'), DELETED)
OPERATIONS = st.one_of(*changes, *others)


@pytest.mark.parametrize('count', [20, pytest.param(300, marks=pytest.mark.slow)])
def test_any_sequence_of_updates_leaves_what_a_dictionary_holds(count):
    drawn = given(st.lists(OPERATIONS, max_size=9), st.integers(1, 8))
    settings(max_examples=count)(drawn(check_updates))()


def check_updates(operations, shard_rows):
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder, 'memory')
        table = tiny.table_of([3, 0, 0, 5, 2, 3, 3], [1, 2, 2, 0, 5, 1, 4], [0, 1, 2, 2, 3, 3, 9])
        options = BuildOptions(tiny.ENTITIES, tiny.DIM, tiny.HASHES, shard_rows=shard_rows)
        build(directory, table, tiny.encoder(0), options).close()
        model, held, last = Model(), [], None
        model.add(table, 0, tiny.ENTITIES)
        for seed, (operation, what) in enumerate(operations, 1):
            before = Memory.open(directory).hash()
            if operation == 'inject':
                count = max(model.count, 1 + max(max(row[:2]) for row in what))
                last = tiny.table_of(*zip(*what), seed=seed), seed, count
                tiny.add(directory, *last)
                model.add(*last)
            elif operation == 'delete':
                bounds = dict.fromkeys(('pairs', 'entities'), model.count)
                bounds |= {'entries': model.next, 'passages': 10}
                within = lambda name, given: [x for x in given if np.max(x) < bounds[name]]
                what = {name: within(name, given) for name, given in what.items()}
                if any(what.values()):
                    gone = model.delete(**what)
                    assert delete(directory, **what).entries.tolist() == gone
                    assert (Memory.open(directory).hash() != before) == bool(gone)
                    last = None if gone else last
            elif operation == 'compact':
                compact(directory)
                last = last if Memory.open(directory).hash() == before else None
                assert len(Memory.open(directory).manifest.segments) <= 1
                assert not Memory.open(directory).manifest.tombstones
            elif operation == 'again' and last:
                tiny.add(directory, *last)
                assert Memory.open(directory).hash() == before
            elif operation == 'hold':
                held.append((Memory.open(directory), dict(model.entries)))
            memory = Memory.open(directory)
            memory.verify()
            check(memory, model)
            assert memory.descends_from(before)
        for memory, entries in held:
            assert tiny.entries_of(memory) == entries
            memory.close()


def test_an_averaged_entry_goes_with_any_of_its_passages_and_says_what_else_went(tmp_path):
    table = tiny.table_of([1, 1, 1, 2, 3], [0, 0, 0, 0, 0], [5, 6, 6, 5, 7])
    tiny.make(tmp_path, table, mentions='average')
    deleted = delete(tmp_path, passages=[5])
    # Entry 1 was read in passage 5 only.
    assert (deleted.entries.tolist(), deleted.partly.tolist()) == ([0, 1], [0])
    memory = Memory.open(tmp_path)
    assert memory.ids.tolist() == [2] and memory.manifest.num_entries == 1
    # What was lost with it is injected again, and a pair that is there already has a second entry.
    memory = tiny.add(tmp_path, tiny.table_of([1, 1, 3], [0, 0, 0], [6, 6, 8]), count=tiny.ENTITIES)
    passages_of = lambda entry: [fact['passage'] for fact in memory.provenance([entry])]
    assert [passages_of(entry) for entry in memory.ids] == [[6, 6], [7], [8]]
    assert memory.ids.tolist() == [3, 2, 4] and memory.topic.tolist() == [1, 3, 3]
    np.testing.assert_allclose(memory.relations([0])[0], tiny.encoder(1)([0, 1]).mean(0), rtol=1e-6)


def test_deleting_everything_leaves_an_empty_memory_that_can_be_filled(tmp_path):
    tiny.make(tmp_path)
    assert len(delete(tmp_path, entities=range(tiny.ENTITIES)).entries) == 40
    for memory in (Memory.open(tmp_path), compact(tmp_path)):
        assert len(memory) == 0 and memory.provenance([]) == []
        with pytest.raises(IndexError, match='entry 0 is not in .* 0 entries'):
            memory.provenance([0])
    assert len(delete(tmp_path, entities=[0]).entries) == 0
    memory.close()
    assert compact(tmp_path).manifest.files == {}
    assert [path.name for path in tmp_path.iterdir()] == ['manifest.json']
    memory = tiny.add(tmp_path, tiny.make_table(5, seed=1))
    assert memory.ids.tolist() == [40, 41, 42, 43, 44]


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'encoder_hash': 'f' * 64}, 'built with the encoder e{64}, but .* encoded by f{64}'),
        ({'count': 5}, 'has a vocabulary of 6 entities.* the given one of 5 does not begin'),
        ({'vocab': EntityVocab.from_names('abcdefgh')}, 'of 8 does not begin: put new entities af'),
        ({'embed': None}, 'the vocabulary has 3 entities more than .*: give their embeddings'),
        ({'embed': lambda new: np.full((3, 4), np.nan)}, 'they are not finite'),
    ],
)
def test_an_injection_that_does_not_fit_is_refused(tmp_path, options, message):
    tiny.make(tmp_path)
    before = tiny.digest_of_tree(tmp_path)
    options = dict(table=tiny.make_table(5, seed=1), encode=tiny.relations_of) | options
    with pytest.raises(InputError, match=message):
        inject(tmp_path, options.pop('table'), options.pop('encode'), tiny.injection(**options))
    assert tiny.digest_of_tree(tmp_path) == before


@pytest.mark.parametrize(
    ('what', 'message'),
    [
        ({}, 'nothing to delete'),
        ({'entries': [40]}, r'40 is not an entry id \(next_entry is 40\)'),
        ({'pairs': [(0, 1), (2,)]}, 'pairs=.* is not a list of ids'),
    ],
)
def test_a_deletion_of_what_cannot_exist_is_refused(tmp_path, what, message):
    tiny.make(tmp_path)
    with pytest.raises(InputError, match=message):
        delete(tmp_path, **what)
    assert len(Memory.open(tmp_path)) == 40


DAMAGED = 'segment-00000/relations-00002.npy segment-00001/provenance-00000.parquet'


@pytest.mark.parametrize('name', [*DAMAGED.split(), 'tombstones-00002.npy'])
def test_a_damaged_file_is_not_compacted_into_a_whole_one(tmp_path, name):
    tiny.make(tmp_path)
    tiny.add(tmp_path, tiny.make_table(5, seed=1))
    delete(tmp_path, entries=[1, 44])
    flip(tmp_path / name, -8)
    before = tiny.digest_of_tree(tmp_path)
    with pytest.raises(InputError, match=f'{name}: its sha256 is not the one'):
        compact(tmp_path)
    assert tiny.digest_of_tree(tmp_path) == before
