"""A training run: what it leaves, what it tells, and how it goes on after it was stopped."""

import collections
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.entities import EntityBatch
from opql_jax.memory.format import Memory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.training import objectives, trainer
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.lineage import read_meta

import tiny_training
import train_until_stopped
from tiny_training import scalars
from train_until_stopped import OPTIONS, STEPS

TESTS = pathlib.Path(__file__).parents[1]
OBJECTIVES = ('relations', 'follow')
# What a run tells of itself on a CPU beside the metrics.
SPEED = set(
    'steps_per_second sequences_per_second step_seconds data_seconds checkpoint_seconds '
    'tflops_per_device'.split()
)
Finished = collections.namedtuple('Finished', 'workdir metrics')


@pytest.fixture(scope='module')
def inputs(tmp_path_factory):
    """(prepared folder, model to start from, memory it built)."""
    root = tmp_path_factory.mktemp('inputs')
    prepared = tiny_training.write_prepared(root / 'prepared')
    model = tiny_training.write_untrained(prepared, root / 'model')
    return prepared, model, tiny_training.write_memory(prepared, model, root / 'memory')


def go_on(inputs, objective, workdir):
    prepared, model, memory = inputs
    objective = train_until_stopped.make_objective(objective, memory)
    return tiny_training.run(
        prepared, workdir, objective, init_from=str(model), gin_config=lambda: 'a.b = 1', **OPTIONS
    )


@pytest.fixture(scope='module')
def uninterrupted(inputs, tmp_path_factory):
    root = tmp_path_factory.mktemp('uninterrupted')
    run = lambda objective: go_on(inputs, objective, root / objective)
    return {objective: Finished(root / objective, run(objective)) for objective in OBJECTIVES}


def steps_of(workdir):
    names = (path.name for path in (workdir / 'checkpoints').iterdir())
    return sorted(int(name) for name in names if name.isdigit())


class WithKeys(objectives.Entities):
    """Keys, here one number, are made of E now and then; what they are is told."""

    def build(self, *arguments):
        task = super().build(*arguments)

        def loss(params, batch, keys, rng):
            value, metrics = task.loss(params, batch, None, rng)
            return value, {**metrics, 'keys': keys}

        keys_of = lambda keys, params: params['entity_table'].sum()
        return dataclasses.replace(task, loss=loss, memory=np.float32(0), refresh=keys_of)


def test_keys_of_a_run_that_goes_on_are_those_of_one_that_was_not_stopped(inputs, tmp_path):
    settings = dict(num_steps=8, checkpoint_every=3, keep_checkpoints=None)
    tiny_training.run(inputs[0], tmp_path / 'whole', WithKeys(rows=16), **settings)
    later = shutil.ignore_patterns('6', '8', 'events*')
    shutil.copytree(tmp_path / 'whole', tmp_path / 'again', ignore=later)
    tiny_training.run(inputs[0], tmp_path / 'again', WithKeys(rows=16), **settings)
    whole, again = (scalars(tmp_path / name)['keys'] for name in ('whole', 'again'))
    assert again == {step: whole[step] for step in range(4, 9)}
    # Steps 1, 4, 6 and 7 have keys of E as it was before them: the first, those after a checkpoint,
    # and each fifth.
    assert [step for step in range(2, 9) if whole[step] != whole[step - 1]] == [4, 6, 7]


def test_a_run_asked_to_stop_saves_its_step_and_goes_on(inputs, uninterrupted, tmp_path):
    script = TESTS / 'support' / 'train_until_stopped.py'
    command = [sys.executable, *map(str, [script, *inputs, tmp_path])]
    environment = {**os.environ, 'PYTHONPATH': str(TESTS.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 75, done.stderr[-3000:]
    assert steps_of(tmp_path) == [2, 3]
    whole = uninterrupted['relations']
    assert go_on(inputs, 'relations', tmp_path) == whole.metrics
    state, wanted = (tiny_training.state_of(of, STEPS) for of in (tmp_path, whole.workdir))
    assert state.keys() == wanted.keys() and len(wanted) > 40
    for name in wanted:
        np.testing.assert_array_equal(state[name], wanted[name], err_msg=name)
    told, wanted = scalars(tmp_path), scalars(whole.workdir)
    for name in wanted.keys() - SPEED:
        assert told[name][STEPS] == wanted[name][STEPS], name


@pytest.mark.parametrize('objective', OBJECTIVES)
def test_a_checkpoint_says_where_it_comes_from(inputs, uninterrupted, objective):
    for step in (4, 6):
        with Checkpoints(uninterrupted[objective].workdir, read_only=True) as store:
            meta = store.meta(step)
        lineage = meta.pop('lineage')
        assert meta.pop('seconds') > 0
        assert re.fullmatch(r'1 x \w+(, \d+ cores)?', meta.pop('hardware'))
        assert len(meta.pop('opt_state_hash')) == len(meta.pop('params_hash')) == 64
        assert meta == {'step': step, 'seed': 0, 'gin': 'a.b = 1'}
        assert lineage['objective'] == {'relations': 'Relations', 'follow': 'Follow'}[objective]
        assert lineage['init_hash'] == read_meta(inputs[1])['params_hash']
        assert lineage['prepared_hash'] == Prepared(inputs[0]).hash() and lineage['seed'] == 0
        if objective == 'follow':
            assert lineage['memory_hash'] == Memory.open(inputs[2]).hash()
            assert lineage['memory_dir'] is None


@pytest.mark.parametrize(
    ('done', 'seconds', 'settings', 'due'),
    [
        (4, 0, {'checkpoint_every': 2}, True),
        (3, 1e9, {'checkpoint_every': 2}, False),
        (4, 60, {'checkpoint_every': None, 'checkpoint_minutes': 1.0}, True),
        # Time is looked at with each report.
        (5, 60, {'checkpoint_every': None, 'checkpoint_minutes': 1.0}, False),
        (50, 0, {'checkpoint_every': 50, 'checkpoint_minutes': 1.0}, True),
        (50, 1e9, {'checkpoint_every': None}, False),
    ],
)
def test_checkpoints_are_due_by_steps_and_by_time(done, seconds, settings, due):
    config = trainer.TrainConfig('kb', 'model', 100, log_every=2, **settings)
    assert trainer.checkpoint_is_due(done, seconds, config) == due


class MarkedBatch(NamedTuple):
    entities: EntityBatch
    wrong: np.ndarray  # [1, 3]: what is added to the loss, whether its gradient is none, and 0


class Marked(Source):
    """A source that says of every batch whether it is to go wrong."""

    def __init__(self, source, objective):
        super().__init__(0)
        self._source, self._objective = source, objective

    def __getitem__(self, step):
        wrong = self._objective.wrong if step in self._objective.steps else (0, 0)
        return MarkedBatch(self._source[step], np.float32([[*wrong, 0]]))


@dataclasses.dataclass(frozen=True)
class GoingWrong(objectives.Entities):
    """Training of E whose loss or gradient goes wrong at some steps."""

    wrong: tuple[float, ...] = (0, 0)
    steps: tuple[int, ...] = ()

    def lineage(self):
        # Resumed without going wrong, it is still the same run.
        return {**super().lineage(), 'wrong': None, 'steps': None}

    def build(self, *arguments):
        task = super().build(*arguments)
        return dataclasses.replace(task, source=Marked(task.source, self))

    def loss(self, encoder, layout, params, batch, memory, rng):
        added, root, zero = batch.wrong[0]
        loss, metrics = super().loss(encoder, layout, params, batch.entities, memory, rng)
        # With root = 1 this is 0, too, but its derivative is 0 * infinity.
        nothing = jnp.sqrt(1 - root + jnp.sum(params['entity_table']) * zero) - (1 - root)
        return loss + added + nothing, metrics


@pytest.mark.parametrize(
    'wrong, when, checkpoints, said',
    [
        ((np.nan, 0), (4, 5), [3], r'step 5: the loss is nan \(gradient norm '),
        ((np.nan, 0), (9,), [6, 9], 'step 10: the loss is nan '),
        ((0, 1), (8,), [3, 6], r'step 9: the loss is \d+\.\d+ \(gradient norm nan\)'),
    ],
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run_before_a_checkpoint_is_spoilt(
    inputs, tmp_path, wrong, when, checkpoints, said
):
    def train(steps):
        objective = GoingWrong(rows=16, wrong=wrong, steps=steps)
        # Windows end after 3, 4, 6, 8, 9 and 10 steps.
        windows = dict(num_steps=10, log_every=4, checkpoint_every=3)
        tiny_training.run(inputs[0], tmp_path / 'run', objective, **windows)

    with pytest.raises(trainer.TrainingError, match=f'^{said}'):
        train(when)
    assert steps_of(tmp_path / 'run') == checkpoints
    for step in checkpoints:
        for value in tiny_training.params_of(tmp_path / 'run', step).values():
            assert np.isfinite(value).all()
    if len(checkpoints) == 1:  # and once the cause is gone, it goes on from there
        train(())
        assert steps_of(tmp_path / 'run') == [9, 10]


def follow_in(kb, name, text='prepared', memory='memory', **options):
    objective = train_until_stopped.make_objective('follow', memory)
    tiny_training.run(text, kb / name, objective, init_from='model', num_steps=1, **options)


def test_the_model_trained_last_is_the_one_that_answers(inputs, tmp_path):
    kb = pathlib.Path(shutil.copytree(inputs[0].parent, tmp_path / 'kb'))
    parts = {'text': 'prepared', 'memory': 'memory'}
    first, second = (parts | {'model': model} for model in ('first', 'second'))
    follow_in(kb, 'first', dry_run=True)
    assert not KBFolder(kb).manifest.exists()
    follow_in(kb, 'first')
    assert KBFolder(kb).read() == first

    def fail(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follow_in(kb, 'second', on_checkpoint=fail)
    assert steps_of(kb / 'second') == [1] and KBFolder(kb).read() == first
    follow_in(kb, 'second')  # which is done, but was not stated
    assert KBFolder(kb).read() == second


@pytest.mark.parametrize(
    'name', ['notes.txt', 'tokenizer.json', 'checkpoints/7/thesis.tex', 'model.json']
)
def test_a_folder_with_files_of_somebody_else_is_not_trained_into(inputs, tmp_path, name):
    file = tmp_path / 'mine' / name
    file.parent.mkdir(parents=True)
    file.write_text('{"name": "precious"}')
    other = 'holds other files .* and no model: give a new or empty'
    said = {'model.json': 'not the manifest of a model'}.get(name, other)
    with pytest.raises(InputError, match=said):
        tiny_training.run(inputs[0], tmp_path / 'mine')
    assert [path for path in (tmp_path / 'mine').rglob('*') if path.is_file()] == [file]
    assert file.read_text() == '{"name": "precious"}'


@pytest.mark.parametrize(
    ('settings', 'said'),
    [
        ({}, 'starts from nothing: give init_from or bert_folder'),
        ({'num_steps': 0}, 'num_steps=0: give at least 1'),
        ({'init_from': 'model', 'bert_folder': 'minilm'}, 'both say where to start: leave out one'),
        ({'bert_folder': 'default', 'orthogonal_w_r': True}, 'brings its W_r: leave out orth'),
    ],
)
def test_settings_that_say_no_start_or_two_are_refused(settings, said):
    config = trainer.TrainConfig(**{'kb': 'kb', 'model': 'new', 'num_steps': 1} | settings)
    with pytest.raises(trainer.TrainingError, match=said):
        trainer.train(objectives.Entities(frozen_encoder=True), RelationEncoder, config)
