"""t5x's own binaries over gin/t5x, as the page calls them; skipped where it cannot be imported."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from opql_jax.corpus.questions import read_questions
from opql_jax.data.prepared import Prepared
from opql_jax.evaluation import predictions
from opql_jax.evaluation.evaluate import evaluate_predictions
from opql_jax.training import optimizer, t5x_checkpoints

import question_records
import tiny_training

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASKED = "('asked.jsonl',)"
FOLLOW = {'INIT_FROM': 'start', 'objectives.Follow.questions': 8, 'objectives.Follow.k': 8}
FOLLOW |= {'objectives.Follow.splits': "('1-hop/train', '2-hop/train')"}
LM = {'INIT_FROM': 'start', 'ENTITY_LAYER': 0}
SETTINGS = {
    'entities': {'objectives.Entities.rows': 16},
    'relations': {'objectives.Relations.rows': 16},
    'align': {'objectives.Align.rows': 16, 'objectives.Align.topics': 4, 'INIT_FROM': 'start'}
    | {'EVAL_QUESTIONS': ASKED},
    'follow': FOLLOW | {'EVAL_QUESTIONS': ASKED, 'EVAL_ROWS': 4},
    'lm_cloze': LM | {'objectives.Cloze.rows': 8, 'objectives.Cloze.k': 4},
    'lm_questions': LM
    | {f'objectives.AnswerQuestions.{name}': 4 for name in ('rows', 'k', 'text_rows')}
    | {'QUESTIONS': 'asked.jsonl', 'EVAL_QUESTIONS': ASKED, 'EVAL_ROWS': 4},
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec('t5x') is None, reason='t5x is not installed; it is not on PyPI'
    ),
]


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    """Where the binaries run: a knowledge base, questions, a gin file of a small encoder."""
    root = tmp_path_factory.mktemp('world')
    tiny_training.write_prepared(root / 'kb' / 'text')
    tiny_training.write_untrained(root / 'kb' / 'text', root / 'kb' / 'start', spread=8.0)
    tiny_training.write_memory(root / 'kb' / 'text', root / 'kb' / 'start', root / 'kb' / 'memory')
    question_records.write_from_splits(Prepared(root / 'kb' / 'text'), root / 'asked.jsonl')
    settings = tiny_training.encoder.keywords | {'dropout_rate': 0.0}
    sizes = ''.join(f'  {name} = {value}\n' for name, value in settings.items())
    (root / 'tiny.gin').write_text(
        'from __gin__ import dynamic_registration\nfrom opql_jax.models import encoder\n'
        f'ENCODER = @encoder.RelationEncoder\nencoder.RelationEncoder:\n{sizes}'
    )
    return root


def quoted(value) -> str:
    return (
        f'"{value}"' if isinstance(value, str) and not value.startswith(('(', '@')) else str(value)
    )


def run(world, module, files, settings) -> str:
    """Runs a binary, which must end well; returns what it logs."""
    bindings = [f'--gin.{name}={quoted(value)}' for name, value in settings.items()]
    command = [sys.executable, '-m', module, *files, *bindings]
    environment = {**os.environ, 'JAX_PLATFORMS': 'cpu'}
    environment['PYTHONPATH'] = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run(command, cwd=world, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def run_t5x(world, binary, kind, **settings):
    """Runs a binary of t5x over an objective with its settings."""
    base = {'train': 'pretrain'}.get(binary, binary)
    files = ['tiny.gin', f'gin/runs/{kind}.gin']
    files += [f't5x/configs/runs/{base}.gin', f'gin/t5x/{binary}.gin']
    settings = SETTINGS[kind] | {'KB': 'kb', 'MODEL_DIR': f'run-{kind}'} | settings
    settings['MODEL_DIR'] = str(world / settings['MODEL_DIR'])
    arguments = [f'--gin_search_paths=.,{ROOT}', *(f'--gin_file={file}' for file in files)]
    return run(world, f't5x.{binary}', arguments, settings)


def train(world, kind, steps=4, **settings):
    """Trains the first steps of a run of 4."""
    periods = {'CHECKPOINT_PERIOD': 2, 'EVAL_PERIOD': 2}
    return run_t5x(world, 'train', kind, STEPS=4, TRAIN_STEPS=steps, **periods, **settings)


def check_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize('kind', SETTINGS)
def test_each_objective_is_trained_evaluated_and_asked(world, kind):
    logged = train(world, kind)
    assert 'collection=train' in logged and '=nan' not in logged
    run_t5x(world, 'eval', kind, EVAL_OUTPUT_DIR=f'scores-{kind}')
    (scores,) = (world / f'scores-{kind}').rglob('opql-metrics.jsonl')
    scores = json.loads(scores.read_text())
    logged = next((world / f'run-{kind}').rglob('opql-metrics.jsonl'))
    in_training = list(map(json.loads, logged.open()))
    assert scores == pytest.approx(in_training[-1], rel=1e-5) and scores['step'] == 4
    answers = kind in ('follow', 'lm_questions')
    names = {'hits@1', 'hits@5', 'hits@10', 'answer_coverage'} if answers else {'loss'}
    assert scores.keys() - {'step'} == names
    mode = 'predict_with_aux' if answers else 'score'
    run_t5x(world, 'infer', kind, INFER_OUTPUT_DIR=f'answers-{kind}', MODE=mode)
    (written,) = (world / f'answers-{kind}').glob('*.jsonl-00000-of-00001')
    lines = [json.loads(line) for line in written.open()]
    if answers:
        vocab = Prepared(world / 'kb' / 'text').vocab
        asked = read_questions(world / 'asked.jsonl', vocab)
        predictions.check_same_questions(predictions.read_predictions(written), asked, written)
        scored = evaluate_predictions(asked, lines, vocab)
        assert scores == pytest.approx({'step': 4} | {name: scored[name] for name in names})
    else:
        loss = -np.mean([line['score'] for line in lines])
        assert loss == pytest.approx(scores['loss'], rel=1e-5)


@pytest.mark.parametrize('kind', ['relations', 'follow'])
def test_a_run_that_was_stopped_ends_as_train_does_and_its_import_is_the_same_model(world, kind):
    options = {'SEED': 3, 'INIT_FROM': 'start', 'trainer.TrainConfig.warmup_steps': 1}
    for steps in (2, 4):
        logged = train(world, kind, steps=steps, MODEL_DIR=f'stopped-{kind}', **options)
        (rate,) = re.findall(r'collection=train .*learning_rate/current=([\d.e-]+)', logged)
        peak = {'relations': 5e-4, 'follow': 3e-4}[kind]
        expected = float(optimizer.make_schedule(4, peak, 1)(steps - 1))
        assert float(rate) == pytest.approx(expected, rel=0.01)
    folders = {'kb': str(world / 'kb'), 'model_dir': str(world / f'stopped-{kind}')}
    t5x_checkpoints.import_checkpoint(**folders, model=f'from-{kind}')
    settings = {'KB': 'kb', 'MODEL': f'ours-{kind}', 'STEPS': 4} | SETTINGS[kind] | options
    settings.pop('EVAL_ROWS', None), settings.pop('EVAL_QUESTIONS', None)
    files = ['--gin_file=tiny.gin', f'--gin_file=gin/runs/{kind}.gin']
    run(world, 'opql_jax.train', files, settings)
    models = (world / 'kb' / f'{whose}-{kind}' for whose in ('from', 'ours'))
    check_same(*map(tiny_training.params_of, models))
    with pytest.raises(AssertionError, match='cannot be resumed as another run'):
        train(world, kind, MODEL_DIR=f'stopped-{kind}', SEED=4, INIT_FROM='start')
