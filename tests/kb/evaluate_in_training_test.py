"""Checkpoints are scored while a follower is trained."""

import json

import pytest

from opql_jax.kb.trained.evaluate_in_training import evaluate_checkpoints
from opql_jax.training import objectives

import tiny_training
from event_files import scalars


def test_each_checkpoint_is_scored_and_logged(tmp_path):
    kb, workdir, split = tiny_training.write_world(tmp_path), tmp_path / 'run', '1-hop/dev'
    hook = evaluate_checkpoints(
        kb=str(kb), text='text', model='run', memory='memory', questions=split
    )
    objective = objectives.Follow(memory_dir='memory', splits=('1-hop/train',), questions=8, k=8)
    tiny_training.run(
        'text',
        workdir,
        objective,
        num_steps=2,
        checkpoint_every=1,
        init_from='align',
        on_checkpoint=hook,
    )
    logged = scalars(workdir)[f'{split}/mrr']
    written = {
        step: json.loads((workdir / f'evaluation/{step}/metrics.json').read_text())
        for step in (1, 2)
    }
    assert logged == pytest.approx(
        {step: metrics[split]['mrr'] for step, metrics in written.items()}
    )
