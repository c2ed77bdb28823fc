"""Batches in step order, made ahead by threads."""

import numpy as np
import pytest

from opql_jax.data import pipeline, sources
from opql_jax.data.prepared import Prepared

import tiny_prepared


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
        assert a[name].dtype == b[name].dtype


SOURCES = {
    'entities': lambda p: sources.EntitySource(p, num_steps=12, seed=1, rows=16),
    'relations': lambda p: sources.RelationSource(p, num_steps=12, seed=1, rows=32),
    'align': lambda p: sources.AlignSource(p, split='1-hop/train', num_steps=12, seed=1, rows=32, topics=4),
    'follow': lambda p: sources.FollowSource(p, splits=['1-hop/train', '2-hop/train'], num_steps=12, seed=1, questions=4),
}


@pytest.mark.parametrize('name', SOURCES)
@pytest.mark.parametrize('start', [0, 1, 7, 12])
def test_a_run_resumed_at_step_n_sees_the_batches_of_an_uninterrupted_one(prepared, name, start):
    uninterrupted = list(pipeline.batches(SOURCES[name](prepared)))
    resumed = list(pipeline.batches(SOURCES[name](prepared), start_step=start))
    assert len(uninterrupted) == 12 and len(resumed) == 12 - start
    for a, b in zip(uninterrupted[start:], resumed, strict=True):
        assert_same(a, b)


def test_threads_do_not_change_the_batches(prepared):
    source = SOURCES['relations'](prepared)
    for step, batch in enumerate(pipeline.batches(source, num_threads=4, prefetch=8)):
        assert_same(batch, source[step])


class Squares(sources.Source):
    """Steps made by a formula; step 5 fails."""

    def __init__(self, num_steps):
        super().__init__(num_steps, 0, 0, 1)
        self.made = []

    def batch(self, step, rng):
        self.made.append(step)
        if step == 5:
            raise ValueError('passage 17 is damaged')
        return {'x': np.int32(step**2)}


def test_steps_come_in_order_and_no_further_ahead_than_asked():
    source = Squares(10**9)
    batches = pipeline.batches(source, start_step=100, num_threads=2, prefetch=4)
    assert [int(next(batches)['x']) for _ in range(3)] == [100**2, 101**2, 102**2]
    assert min(source.made) == 100 and max(source.made) < 110


def test_an_error_surfaces_at_its_step():
    batches = pipeline.batches(Squares(10))
    assert [int(next(batches)['x']) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(Exception, match='passage 17 is damaged'):
        next(batches)


@pytest.mark.parametrize('start', [-1, 11])
def test_a_start_outside_the_run_is_refused(start):
    with pytest.raises(ValueError, match=f'start_step is {start}, but the source has steps 0..10'):
        pipeline.batches(Squares(10), start_step=start)
