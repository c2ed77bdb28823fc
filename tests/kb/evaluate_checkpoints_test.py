"""Checkpoints of a run evaluated, one by its step, or each as training saves it."""

import json
import shutil

import numpy as np
import pytest

from opql_jax.kb.trained.question_sets import evaluate, evaluate_in_training
from opql_jax.training import objectives
from opql_jax.training.checkpoints import Checkpoints

import tiny_training
from tiny_training import scalars

SPLITS = ('1-hop/dev',)


@pytest.fixture(scope='module')
def kb(world, tmp_path_factory):
    kb = shutil.copytree(world, tmp_path_factory.mktemp('world') / 'kb')
    with Checkpoints(kb / 'follow', read_only=True) as store:
        params, meta = store.load()
    for step in (20, 300):
        shape = params['follower']['w_t'].shape
        w_t = np.random.default_rng(step).normal(size=shape).astype(np.float32)
        follower = {**params['follower'], 'w_t': w_t}
        with Checkpoints(kb / 'follow', keep=None) as store:
            store.save(step, {**params, 'follower': follower}, {'count': np.zeros(1)}, meta)
    return kb


def test_a_checkpoint_is_scored_by_its_step(kb, tmp_path):
    score = lambda folder, step=None: evaluate(
        kb=str(kb), output_dir=str(tmp_path / folder), questions=SPLITS, step=step
    )
    alone = {n: score(str(n), n) for n in (1, 20, 300)}
    assert len({values['1-hop/dev']['mrr'] for values in alone.values()}) == 3
    assert score('newest') == alone[300]


def test_each_checkpoint_is_scored_and_logged_while_a_follower_is_trained(kb, tmp_path):
    kb, (split,) = shutil.copytree(kb, tmp_path / 'kb'), SPLITS
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
