"""Batches in step order, made ahead by threads."""

import jax
import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import pipeline
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.align import AlignSettings, AlignSource
from opql_jax.data.sources.base import Source
from opql_jax.data.sources.entities import EntitySource
from opql_jax.data.sources.follow import FollowSource
from opql_jax.data.sources.relations import RelationSettings, RelationSource

import tiny_prepared

STEPS = 12


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


def assert_same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b)):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


SOURCES = {
    'entities': lambda p: EntitySource(p, rows=16, seed=1),
    'relations': lambda p: RelationSource(p, RelationSettings(rows=32), seed=1),
    'align': lambda p: AlignSource(p, AlignSettings(rows=32, topics=4), seed=1),
    'follow': lambda p: FollowSource(p, ['1-hop/train', '2-hop/train'], questions=4, seed=1),
}


@pytest.mark.parametrize('name', SOURCES)
@pytest.mark.parametrize('start', [0, 1, 7, 12])
def test_a_run_resumed_at_step_n_sees_the_batches_of_an_uninterrupted_one(prepared, name, start):
    uninterrupted = list(pipeline.batches(SOURCES[name](prepared), 0, STEPS))
    resumed = list(pipeline.batches(SOURCES[name](prepared), start, STEPS))
    assert len(uninterrupted) == STEPS and len(resumed) == STEPS - start
    for a, b in zip(uninterrupted[start:], resumed, strict=True):
        assert_same(a, b)


def test_threads_do_not_change_the_batches(prepared):
    source = SOURCES['relations'](prepared)
    for step, batch in enumerate(pipeline.batches(source, 0, STEPS)):
        assert_same(batch, source[step])


class Squares(Source):
    """Steps made by a formula; step 5 fails."""

    def __init__(self):
        super().__init__(0)
        self.made = []

    def batch(self, step, rng):
        self.made.append(step)
        if step == 5:
            raise ValueError('passage 17 is damaged')
        return {'x': np.int32(step**2)}


def test_steps_come_in_order_and_no_further_ahead_than_needed():
    source = Squares()
    batches = pipeline.batches(source, 100, 10**9)
    assert [int(next(batches)['x']) for _ in range(3)] == [100**2, 101**2, 102**2]
    assert min(source.made) == 100 and max(source.made) < 110


def test_an_error_surfaces_at_its_step():
    batches = pipeline.batches(Squares(), 0, 10)
    assert [int(next(batches)['x']) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(Exception, match='passage 17 is damaged'):
        next(batches)


@pytest.mark.parametrize('name', SOURCES)
def test_processes_do_not_change_the_batches(prepared, name):
    source = SOURCES[name](prepared)
    made = list(pipeline.batches(source, 2, 6, worker_processes=2))
    assert len(made) == 4
    for step, batch in enumerate(made, 2):
        assert_same(batch, source[step])


@pytest.mark.parametrize('numbers', [{'threads': 0}, {'prefetch': 0}, {'worker_processes': 1}, {'worker_processes': -1}])
def test_numbers_that_cannot_be_are_refused(prepared, numbers):
    with pytest.raises(InputError, match='give at least 1 of the first two, and 0 or at least 2 processes'):
        pipeline.batches(SOURCES['entities'](prepared), 0, 1, **numbers)
