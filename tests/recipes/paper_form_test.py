"""The rows in the paper's form train what the ablations change one at a time, on questions of one number of hops."""

import pytest

import gin
from opql_jax import gin_utils
from opql_jax.recipes import catalog
from opql_jax.recipes.recipe import Options
from opql_jax.training import trainer

import tiny_metaqa


@pytest.mark.parametrize('hops', [2, 3])
def test_groups_marked_pairs_and_a_follower_of_one_number_of_hops_build_on_one_another(hops, tmp_path, fresh_gin):
    tiny_metaqa.write(tmp_path / 'metaqa')
    chosen = catalog.find('metaqa/paper-form').steps(Options(tmp_path / 'runs', tmp_path, hops=hops))
    steps = {step.name: step for step in chosen}
    evaluation = steps[f'results/paper-form-{hops}-hop'].bindings
    follower = steps[evaluation['MODEL']]
    alignment = steps[follower.bindings['INIT_FROM']]
    pretraining = steps[alignment.bindings['INIT_FROM']]
    assert pretraining.bindings['objectives.Relations.sampler'] == 'groups'
    assert alignment.gin == ('gin/experiments/metaqa/align_marked_pairs.gin',)
    assert evaluation['MEMORY'] == follower.bindings['MEMORY']
    assert steps[evaluation['MEMORY']].bindings['MODEL'] == alignment.name
    assert {name.partition('/')[0] for name in evaluation['QUESTIONS']} == {f'{hops}-hop'}
    assert follower.bindings['objectives.Follow.splits'] == (f'{hops}-hop/train',)

    gin_utils.configure(follower.gin, ["KB='kb'", "MODEL='follower'"], trainer.train)
    settings = {name: gin.query_parameter(f'objectives.Follow.{name}') for name in ('weigh_topics', 'exclude_topic')}
    assert settings == {'weigh_topics': False, 'exclude_topic': False}
