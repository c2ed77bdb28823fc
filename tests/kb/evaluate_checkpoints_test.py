"""One checkpoint of a run evaluated, all that are there, or those that are still to come."""

import json
import shutil
import types

import numpy as np
import pytest

from opql_jax.kb.trained.question_sets import evaluate, evaluate_in_training
from opql_jax.training import checkpoints, objectives
from opql_jax.training.checkpoints import Checkpoints, each_step

import tiny_training
from tiny_training import scalars

SPLITS = ('1-hop/dev',)


def save(workdir, *steps, keep=None, params=None, meta=None):
    params = params or {'w': np.zeros(2, np.float32)}
    with Checkpoints(workdir, keep=keep) as store:
        for step in steps:
            store.save(step, params, {'count': np.zeros(1)}, meta or {})


@pytest.fixture(scope='module')
def kb(world, tmp_path_factory):
    kb = shutil.copytree(world, tmp_path_factory.mktemp('world') / 'kb')
    with Checkpoints(kb / 'follow', read_only=True) as store:
        params, meta = store.load()
    for step in (20, 300):
        shape = params['follower']['w_t'].shape
        w_t = np.random.default_rng(step).normal(size=shape).astype(np.float32)
        follower = {**params['follower'], 'w_t': w_t}
        save(kb / 'follow', step, params={**params, 'follower': follower}, meta=meta)
    return kb


def test_every_checkpoint_is_scored_as_it_is_alone(kb, tmp_path):
    score = lambda folder, step=None: evaluate(
        kb=str(kb), output_dir=str(tmp_path / folder), questions=SPLITS, step=step
    )
    found, alone = score('all', 'all'), {n: score(str(n), n) for n in (1, 20, 300)}
    assert len({values['1-hop/dev']['mrr'] for values in alone.values()}) == 3
    for number in alone:
        for name in (f'{number}/metrics.json', f'{number}/1-hop/dev.predictions.jsonl'):
            assert (tmp_path / 'all' / name).read_bytes() == (tmp_path / name).read_bytes()
    assert found == alone[300] == score('newest')
    shown = scalars(tmp_path / 'all')['1-hop/dev/mrr']
    assert shown == pytest.approx({n: values['1-hop/dev']['mrr'] for n, values in alone.items()})


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


def test_new_ones_are_waited_for_until_none_has_come_for_some_time(tmp_path, monkeypatch):
    run, now, coming = tmp_path / 'later', [0.0], {10: [1], 20: [2, 5, 6], 30: [7]}

    def sleep(seconds):
        now[0] += seconds
        save(run, *coming.pop(now[0], []), keep=2)

    clock = types.SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(checkpoints, 'time', clock)
    # Of the second three 2 may be removed at any moment, and 5 soon.
    assert list(each_step(run, 'new', patience=12.0)) == [1, 6, 7]
