"""Checkpoints are scored while a follower is trained."""

import json

import pytest

from opql_jax.kb.evaluate_in_training import evaluate_checkpoints
from opql_jax.training import objectives

import tiny_training
from event_files import scalars


def test_each_checkpoint_is_scored_and_logged(tmp_path):
    prepared, _, memory = tiny_training.write_world(tmp_path)
    workdir, split = tmp_path / 'run', '1-hop/dev'
    hook = evaluate_checkpoints(prepared_dir=str(prepared), workdir=str(workdir), memory_dir=str(memory), questions=split)
    objective = objectives.Follow(memory_dir=str(memory), splits=('1-hop/train',), questions=8, k=8)
    model = str(tmp_path / 'model')
    tiny_training.run(prepared, workdir, objective, num_steps=2, checkpoint_every=1, init_from=model, on_checkpoint=hook)
    logged = scalars(workdir)[f'{split}/mrr']
    written = {step: json.loads((workdir / f'evaluation/{step}/metrics.json').read_text()) for step in (1, 2)}
    assert logged == pytest.approx({step: metrics[split]['mrr'] for step, metrics in written.items()})


def test_without_question_sets_nothing_is_scored():
    folders = dict(prepared_dir='p', workdir='w', memory_dir='m')
    assert evaluate_checkpoints(**folders) is None
