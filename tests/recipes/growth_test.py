"""Rows with fewer training questions, or fewer entries, have some of the official ones, and all else is as it was."""

import dataclasses

import numpy as np
import pytest

from opql_jax.datasets.metaqa import MetaQA
from opql_jax.memory import update
from opql_jax.memory.format import Memory
from opql_jax.recipes.growth import fewer_entries, fewer_questions

import memory_tables
import tiny_metaqa


@pytest.mark.parametrize('count', [7, 1000])
def test_some_training_questions_are_drawn_and_the_rest_is_the_same(count, tmp_path):
    source = tiny_metaqa.write(tmp_path / 'metaqa')
    folder, again, other = (tmp_path / name for name in ('folder', 'again', 'other'))
    for written, seed in ((folder, 0), (again, 0), (other, 1)):
        fewer_questions(str(source), str(written), count, seed)
    lines = lambda where, hops: (where / f'{hops}-hop/train.txt').read_text(encoding='utf-8').splitlines()
    for hops in tiny_metaqa.HOPS:
        every, drawn = lines(source, hops), lines(folder, hops)
        assert len(drawn) == min(count, len(every)) and drawn == lines(again, hops)
        assert drawn == [line for line in every if line in drawn]
    assert any(lines(folder, hops) != lines(other, hops) for hops in tiny_metaqa.HOPS) == (count == 7)
    for path in ('passages.jsonl', 'entities.txt', '1-hop/dev.txt', '3-hop/dev.txt'):
        assert (folder / path).read_bytes() == (source / path).read_bytes()
    assert not list(folder.rglob('*.partial'))
    assert MetaQA(str(folder)).files().keys() == MetaQA(str(source)).files().keys()


def write_memory(folder, kind):
    """300 mentions as entries of their own, of which a third may be deleted, or as the mean of up to five of a pair."""
    table = memory_tables.make_table(300)
    if kind == 'average':  # more pairs, so that entries have mentions in some passages each
        rng = np.random.default_rng(1)
        table = dataclasses.replace(table, topic=rng.integers(0, 12, 300), target=rng.integers(0, 12, 300))
        memory_tables.make(folder, table, num_entities=12, mentions='average')
    else:
        memory_tables.make(folder, table)
    if kind == 'deleted':
        update.delete(folder, entries=range(0, 300, 3))
    return str(folder)


@pytest.mark.parametrize('kind', ['all', 'average', 'deleted'])
@pytest.mark.parametrize('count', [1, 10, 60, 1000])
def test_a_part_of_a_memory_has_all_entries_of_passages_drawn_at_random(kind, count, tmp_path):
    source = write_memory(tmp_path / 'memory', kind)
    every = Memory.open(source)
    passages_of = {int(id): {int(one['passage']) for one in every.provenance([id])} for id in every.ids}
    last = max(passage for passages in passages_of.values() for passage in passages)
    drawn = {}
    for name, seed in (('first', 0), ('again', 0), ('other', 1)):
        counts = fewer_entries(str(tmp_path / name), source, count, seed)
        kept = Memory.open(tmp_path / name)
        kept.verify()
        # Passage after passage, until there are enough.
        expected = set()
        for passage in np.random.default_rng(seed).permutation(last + 1):
            if len(expected) < count:
                expected |= {id for id, passages in passages_of.items() if passage in passages}
        assert set(kept.ids.tolist()) == expected and counts == {'entries': len(expected), 'entries_before': len(every)}
        np.testing.assert_array_equal(kept.relations(), every.relations(every.rows(kept.ids)))
        assert kept.manifest.tombstones == (None if len(expected) < len(every) else every.manifest.tombstones)
        drawn[name] = expected
    assert drawn['first'] == drawn['again'] and (drawn['first'] != drawn['other']) == (count < len(every))
