"""Rows with fewer training questions, or fewer entries, have some of the official ones, and all else is as it was."""

import numpy as np
import pytest

from opql_jax.datasets.metaqa import MetaQA
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


@pytest.mark.parametrize('count', [1, 120, 1000])
def test_a_part_of_a_memory_has_all_entries_of_passages_drawn_at_random(count, tmp_path):
    table = memory_tables.make_table(300)
    memory_tables.make(tmp_path / 'memory', table)
    source = str(tmp_path / 'memory')
    every = Memory.open(source)
    passages_of = {id: {one['passage'] for one in every.provenance([id])} for id in every.ids}
    drawn = {}
    for name, seed in (('first', 0), ('again', 0), ('other', 1)):
        counts = fewer_entries(str(tmp_path / name), source, count, seed)
        kept = Memory.open(tmp_path / name)
        kept.verify()
        drawn[name] = kept.ids.tolist()
        assert counts == {'entries': len(kept), 'entries_before': 300} and len(kept) >= min(count, 300)
        np.testing.assert_array_equal(kept.relations(), every.relations(every.rows(kept.ids)))
        passages = set().union(*(passages_of[id] for id in drawn[name]))
        inside = {passage: {id for id in passages_of if passage in passages_of[id]} for passage in passages}
        # Whole passages, and without any one of those that nothing else brings there would be too few.
        assert set(drawn[name]) == set().union(*(ids for ids in inside.values() if ids <= set(drawn[name])))
        assert count >= 300 or len(kept) - max(map(len, inside.values())) < count
    assert drawn['first'] == drawn['again'] and (drawn['first'] != drawn['other']) == (count < 300)
