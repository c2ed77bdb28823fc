"""A memory of the pairs that a knowledge base joins: entries of another memory, none of them changed."""

import dataclasses

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.memory.format import Memory
from opql_jax.recipes.metaqa import keep_joined_pairs

import memory_tables
import tiny_prepared


@pytest.fixture
def source(tmp_path):
    """Folders of a text and of a memory of its entities, both as strings."""
    text = tiny_prepared.write(tmp_path / 'text')
    table, rng = memory_tables.make_table(300), np.random.default_rng(3)
    table = dataclasses.replace(table, topic=rng.integers(0, 10, 300), target=rng.integers(0, 10, 300))
    memory_tables.make(tmp_path / 'memory', table, num_entities=len(Prepared(text).vocab))
    return {'memory': str(tmp_path / 'memory'), 'text': str(text)}


def entries(folder):
    memory = Memory.open(folder)
    rows = np.arange(len(memory))
    values = zip(memory.topic.tolist(), memory.target.tolist(), memory.relations(rows).tolist(), memory.ids.tolist())
    return [(topic, target, tuple(relation), id) for topic, target, relation, id in values]


def test_it_has_the_entries_whose_entities_a_triple_joins_in_either_direction(source, tmp_path):
    names = Prepared(source['text']).vocab.names
    joined = {(0, 3), (3, 0), (7, 2), (5, 9), (4, 20)}
    triples = tmp_path / 'kb.txt'
    triples.write_text(''.join(f'{names[a]}|relation_{a}|{names[b]}\n' for a, b in sorted(joined)), encoding='utf-8')
    before = memory_tables.digest_of_tree(tmp_path / 'memory')
    counts = keep_joined_pairs(str(tmp_path / 'kept'), triples=str(triples), **source)
    every, kept = entries(source['memory']), entries(tmp_path / 'kept')
    assert kept == [entry for entry in every if {entry[:2], entry[1::-1]} & joined] and 0 < len(kept) < len(every)
    assert counts == {'entries': len(kept), 'entries_before': len(every)}
    assert memory_tables.digest_of_tree(tmp_path / 'memory') == before
    Memory.open(tmp_path / 'kept').verify()
    of_the_kept = {'manifest.json', *Memory.open(tmp_path / 'kept').manifest.files}
    assert {
        path.relative_to(tmp_path / 'kept').as_posix() for path in (tmp_path / 'kept').rglob('*') if path.is_file()
    } == of_the_kept
    # Of a run that was killed before it left its record.
    assert keep_joined_pairs(str(tmp_path / 'kept'), triples=str(triples), **source) == counts
    assert entries(tmp_path / 'kept') == kept and {path.name for path in tmp_path.iterdir()} == {
        'text',
        'memory',
        'kb.txt',
        'kept',
    }


def test_of_a_knowledge_base_that_joins_all_the_memory_stays_whole(source, tmp_path):
    names = Prepared(source['text']).vocab.names[:10]
    triples = tmp_path / 'kb.txt'
    triples.write_text(''.join(f'{a}|relation|{b}\n' for a in names for b in names if a != b), encoding='utf-8')
    same = [entry for entry in entries(source['memory']) if entry[0] != entry[1]]
    keep_joined_pairs(str(tmp_path / 'kept'), triples=str(triples), **source)
    assert entries(tmp_path / 'kept') == same


def test_without_triples_of_the_entities_there_is_no_memory(source, tmp_path):
    (tmp_path / 'kb.txt').write_text('nobody|met|anybody\n', encoding='utf-8')
    with pytest.raises(InputError, match='no triple of two entities'):
        keep_joined_pairs(str(tmp_path / 'kept'), triples=str(tmp_path / 'kb.txt'), **source)
    assert not (tmp_path / 'kept').exists()


def test_triples_that_join_none_of_its_pairs_are_refused(source, tmp_path):
    names = Prepared(source['text']).vocab.names
    (tmp_path / 'kb.txt').write_text(f'{names[20]}|relation|{names[21]}\n', encoding='utf-8')
    with pytest.raises(InputError, match='kb.txt joins no pair of .*memory'):
        keep_joined_pairs(str(tmp_path / 'kept'), triples=str(tmp_path / 'kb.txt'), **source)
    assert not (tmp_path / 'kept').exists()


def test_what_is_no_memory_is_not_replaced_by_one(source, tmp_path):
    names = Prepared(source['text']).vocab.names
    (tmp_path / 'kb.txt').write_text(f'{names[0]}|relation|{names[3]}\n', encoding='utf-8')
    (tmp_path / 'kept').mkdir()
    (tmp_path / 'kept/mine.txt').write_text('mine')
    with pytest.raises(InputError, match='kept'):
        keep_joined_pairs(str(tmp_path / 'kept'), triples=str(tmp_path / 'kb.txt'), **source)
    assert (tmp_path / 'kept/mine.txt').read_text() == 'mine' and not list(tmp_path.glob('.kept*'))
