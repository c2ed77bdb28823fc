"""Checkpoints of a run evaluated, each as training saves it."""

import json
import shutil

import pytest

from opql_jax.kb.trained.question_sets import evaluate_in_training
from opql_jax.training import objectives

import tiny_training
from tiny_training import scalars


def test_each_checkpoint_is_scored_and_logged_while_a_follower_is_trained(world, tmp_path):
    kb, split = shutil.copytree(world, tmp_path / 'kb'), '1-hop/dev'
    workdir, parts = kb / 'run', dict(text='text', model='run', memory='memory')
    hook = evaluate_in_training(kb=str(kb), **parts, questions=split)
    objective = objectives.Follow(memory_dir='memory', splits=('1-hop/train',), questions=8, k=8)
    options = dict(num_steps=2, checkpoint_every=1, init_from='align', on_checkpoint=hook)
    tiny_training.run('text', workdir, objective, **options)
    logged = scalars(workdir)[f'{split}/mrr']
    assert logged.keys() == {1, 2}
    for step, found in logged.items():
        metrics = json.loads((workdir / f'evaluation/{step}/metrics.json').read_text())
        assert found == pytest.approx(metrics[split]['mrr'])
