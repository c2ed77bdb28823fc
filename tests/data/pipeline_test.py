"""Batches in step order, made ahead by threads."""

import jax
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources import base
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.relations import RelationSettings, RelationSource

import tiny_prepared

STEPS = 12


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    prepared = Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))
    return RelationSource(prepared, RelationSettings(rows=32), seed=1)


@pytest.mark.parametrize('options', [{}, {'worker_processes': 2}], ids=['threads', 'processes'])
def test_a_run_resumed_at_any_step_sees_the_batches_of_the_source(source, options):
    made = list(base.batches(source, 7, STEPS, **options))
    assert len(made) == STEPS - 7
    for step, batch in enumerate(made, 7):
        jax.tree.map(np.testing.assert_array_equal, batch, source[step])


class Squares(Source):
    def __init__(self):
        super().__init__(0)
        self.made = []

    def batch(self, step, rng):
        self.made.append(step)
        if step == 5:
            raise ValueError('passage 17 is damaged')
        return {'x': np.int32(step**2)}


def test_steps_come_in_order_no_further_ahead_than_needed_and_an_error_at_its_step():
    source = Squares()
    batches = base.batches(source, 0, 10**9)
    assert [int(next(batches)['x']) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert max(source.made) < 15
    with pytest.raises(Exception, match='passage 17 is damaged'):
        next(batches)


@pytest.mark.parametrize('processes', [1, -1])
def test_numbers_of_processes_that_cannot_be_are_refused(source, processes):
    with pytest.raises(InputError, match='input_processes: give 0, or at least 2'):
        base.batches(source, 0, 1, worker_processes=processes)
