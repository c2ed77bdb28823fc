"""A training run whose loss or gradient is not finite stops before it spoils a checkpoint."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.data.sources.base import Source
from opql_jax.data.sources.entities import EntityBatch
from opql_jax.training import objectives, trainer

import tiny_training

BAD = {'nan loss': (np.nan, 0), 'infinite loss': (np.inf, 0), 'nan gradient': (0, 1)}


@dataclasses.dataclass(frozen=True)
class GoingWrong(objectives.Entities):
    """Training of E whose loss or gradient goes wrong at some steps."""

    kind: str = 'nan loss'
    steps: tuple[int, ...] = ()

    def lineage(self):
        # Resumed without going wrong, it is still the same run.
        return {**super().lineage(), 'kind': None, 'steps': None}

    def build(self, *arguments):
        task = super().build(*arguments)
        return dataclasses.replace(task, source=Marked(task.source, self))

    def loss(self, encoder, layout, params, batch, memory, rng):
        added, root = batch.wrong[0]
        loss, metrics = super().loss(encoder, layout, params, batch.entities, memory, rng)
        # With root = 1 this is 0, too, but its derivative is 0 * infinity.
        whole = 1 - root
        nothing = jnp.sqrt(whole + jnp.sum(params['entity_table']) * batch.zero[0]) - whole
        return loss + added + nothing, metrics


class MarkedBatch(NamedTuple):
    entities: EntityBatch
    wrong: np.ndarray
    zero: np.ndarray


class Marked(Source):
    """A source that says of every batch whether it is to go wrong."""

    def __init__(self, source, objective):
        super().__init__(0)
        self._source, self._objective = source, objective

    def __getitem__(self, step):
        wrong = BAD[self._objective.kind] if step in self._objective.steps else (0, 0)
        return MarkedBatch(self._source[step], np.float32([wrong]), np.zeros(1, np.float32))


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return tiny_training.write_prepared(tmp_path_factory.mktemp('prepared'))


def steps_of(workdir):
    return sorted(int(path.name) for path in (workdir / 'checkpoints').iterdir())


def train_wrongly(prepared, workdir, kind, steps):
    objective = GoingWrong(rows=16, kind=kind, steps=steps)
    # Windows end after 3, 4, 6, 8, 9 and 10 steps.
    windows = dict(num_steps=10, log_every=4, checkpoint_every=3)
    return tiny_training.run(prepared, workdir, objective, **windows)


@pytest.mark.parametrize(
    'how, when, checkpoints, said',
    [
        ('nan loss', (4, 5), [3], r'step 5: the loss is nan \(gradient norm '),
        ('nan loss', (9,), [6, 9], 'step 10: the loss is nan '),
        ('nan gradient', (8,), [3, 6], r'step 9: the loss is \d+\.\d+ \(gradient norm nan\)'),
    ],
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run(
    prepared, tmp_path, how, when, checkpoints, said
):
    with pytest.raises(trainer.TrainingError, match=f'^{said}'):
        train_wrongly(prepared, tmp_path, how, when)
    assert steps_of(tmp_path) == checkpoints
    for step in checkpoints:
        for value in tiny_training.params_of(tmp_path, step).values():
            assert np.isfinite(value).all()
    if len(checkpoints) == 1:  # and once the cause is gone, it goes on from there
        train_wrongly(prepared, tmp_path, how, ())
        assert steps_of(tmp_path) == [9, 10]
