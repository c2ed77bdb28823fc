"""Rows of MetaQA: what they change, and the folders that their own steps write."""

import pytest

from opql_jax.data.sources.follow import read_wordings
from opql_jax.recipes import catalog
from opql_jax.recipes.metaqa import WORDINGS
from opql_jax.recipes.recipe import Options

import tiny_metaqa


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


def test_each_type_of_question_has_many_and_each_is_another():
    learnt = read_wordings(WORDINGS)
    assert len(learnt) == 47 and min(map(len, learnt.values())) > 70
    assert all(len(set(of_type)) == len(of_type) for of_type in learnt.values())
