"""Rows of MetaQA: what they change, and the folders that their own steps write."""

import dataclasses

import numpy as np
import pytest

from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.follow import read_wordings
from opql_jax.datasets.metaqa import MetaQA
from opql_jax.memory.format import Memory
from opql_jax.recipes import catalog
from opql_jax.recipes.growth import fewer_questions
from opql_jax.recipes.metaqa import WORDINGS, keep_joined_pairs
from opql_jax.recipes.recipe import Options

import tiny_memories
import tiny_metaqa
import tiny_prepared


@pytest.mark.parametrize('hops', [2, 3])
def test_groups_marked_pairs_and_a_follower_of_one_number_of_hops_build_on_one_another(
    hops, tmp_path
):
    tiny_metaqa.write(tmp_path / 'metaqa')
    options = Options(tmp_path / 'runs', tmp_path, hops=hops)
    steps = {step.name: step for step in catalog.find('metaqa/paper-form').steps(options)}
    evaluation = steps[f'results/paper-form-{hops}-hop'].bindings
    follower = steps[evaluation['MODEL']]
    alignment = steps[follower.bindings['INIT_FROM']]
    pretraining = steps[alignment.bindings['INIT_FROM']]
    assert pretraining.bindings['objectives.Relations.sampler'] == 'groups'
    assert alignment.gin[1] == 'gin/runs/align.gin'
    assert evaluation['MEMORY'] == follower.bindings['MEMORY']
    assert steps[evaluation['MEMORY']].bindings['MODEL'] == alignment.name
    assert {name.partition('/')[0] for name in evaluation['QUESTIONS']} == {f'{hops}-hop'}
    assert follower.bindings['objectives.Follow.splits'] == (f'{hops}-hop/train',)

    unset = ('objectives.Follow.weigh_topics', 'objectives.Follow.exclude_topic')
    assert [follower.bindings[name] for name in unset] == [False, False]


@pytest.fixture
def source(tmp_path):
    """Folders of a text and of a memory of its entities, both as strings."""
    text = tiny_prepared.write(tmp_path / 'text')
    table, rng = tiny_memories.make_table(300), np.random.default_rng(3)
    pairs = {name: rng.integers(0, 10, 300) for name in ('topic', 'target')}
    table = dataclasses.replace(table, **pairs)
    tiny_memories.make(tmp_path / 'memory', table, num_entities=len(Prepared(text).vocab))
    return {'memory': str(tmp_path / 'memory'), 'text': str(text)}


def entries(folder):
    memory = Memory.open(folder)
    rows = np.arange(len(memory))
    columns = memory.topic, memory.target, memory.ids
    relations = map(tuple, memory.relations(rows).tolist())
    return list(zip(*(column.tolist() for column in columns), relations))


def test_it_has_the_entries_whose_entities_a_triple_joins_in_either_direction(source, tmp_path):
    names = Prepared(source['text']).vocab.names
    joined = {(0, 3), (3, 0), (7, 2), (5, 9), (4, 20)}
    triples = tmp_path / 'kb.txt'
    lines = [f'{names[a]}|relation_{a}|{names[b]}\n' for a, b in sorted(joined)]
    triples.write_text(''.join(lines), encoding='utf-8')
    before = tiny_memories.digest_of_tree(tmp_path / 'memory')
    counts = keep_joined_pairs(str(tmp_path / 'kept'), triples=str(triples), **source)
    every, kept = entries(source['memory']), entries(tmp_path / 'kept')
    assert kept == [entry for entry in every if {entry[:2], entry[1::-1]} & joined]
    assert 0 < len(kept) < len(every)
    assert counts == {'entries': len(kept), 'entries_before': len(every)}
    assert tiny_memories.digest_of_tree(tmp_path / 'memory') == before
    Memory.open(tmp_path / 'kept').verify()
    listed = Memory.open(tmp_path / 'kept').manifest.files
    assert tiny_memories.digest_of_tree(tmp_path / 'kept').keys() == {'manifest.json', *listed}
    # Of a run that was killed before it left its record.
    assert keep_joined_pairs(str(tmp_path / 'kept'), triples=str(triples), **source) == counts
    assert entries(tmp_path / 'kept') == kept
    assert {path.name for path in tmp_path.iterdir()} == {'text', 'memory', 'kb.txt', 'kept'}


@pytest.mark.parametrize('count', [7, 1000])
def test_some_training_questions_are_drawn_and_the_rest_is_the_same(count, tmp_path):
    source = tiny_metaqa.write(tmp_path / 'metaqa')
    folder, again, other = (tmp_path / name for name in ('folder', 'again', 'other'))
    for written, seed in ((folder, 0), (again, 0), (other, 1)):
        fewer_questions(str(source), str(written), count, seed)
    file = lambda where, hops: where / f'{hops}-hop/train.txt'
    lines = lambda where, hops: file(where, hops).read_text(encoding='utf-8').splitlines()
    for hops in tiny_metaqa.HOPS:
        every, drawn = lines(source, hops), lines(folder, hops)
        assert len(drawn) == min(count, len(every)) and drawn == lines(again, hops)
        assert drawn == [line for line in every if line in drawn]
    differs = any(lines(folder, hops) != lines(other, hops) for hops in tiny_metaqa.HOPS)
    assert differs == (count == 7)
    for path in ('passages.jsonl', 'entities.txt', '1-hop/dev.txt', '3-hop/dev.txt'):
        assert (folder / path).read_bytes() == (source / path).read_bytes()
    assert not list(folder.rglob('*.partial'))
    assert MetaQA(str(folder)).files().keys() == MetaQA(str(source)).files().keys()


def test_each_type_of_question_has_many_and_each_is_another():
    learnt = read_wordings(WORDINGS)
    assert len(learnt) == 47 and min(map(len, learnt.values())) > 70
    assert all(len(set(of_type)) == len(of_type) for of_type in learnt.values())
