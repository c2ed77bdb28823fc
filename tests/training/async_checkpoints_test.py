"""Checkpoints are written in the background, while training changes what they hold."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.training import array_digests
from opql_jax.training.checkpoints import CheckpointError, Checkpoints


def state(step):
    params = {'layer': {'w': jnp.full((50, 4), step, jnp.float32)}, 'table': jnp.arange(6.0) + step}
    return params, {'count': jnp.int32(step), 'mu': jax.tree.map(lambda x: x * 2, params)}


def restored(folder, step=None):
    """(params, opt_state, step) of a checkpoint, which were compared with their digests."""
    with Checkpoints(folder, read_only=True) as checkpoints:
        *trees, meta = checkpoints.restore(*state(0), step)
    return *trees, meta['step']


def assert_is(folder, step):
    params, opt_state, found = restored(folder)
    assert found == step
    jax.tree.map(np.testing.assert_array_equal, (params, opt_state), state(step))


@pytest.fixture
def slow_hashes(monkeypatch):
    """An event until which nothing is hashed; its `begun` says that something is to be."""
    released, hash_of = threading.Event(), array_digests._sha256
    released.begun = threading.Event()
    slow = lambda array: released.begun.set() or (released.wait(60) and hash_of(array))
    monkeypatch.setattr(array_digests, '_sha256', slow)
    return released


def test_training_goes_on_while_its_state_is_hashed_and_the_step_before_is_there_until_then(
    tmp_path, slow_hashes, monkeypatch
):
    advance = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    slow_hashes.set()
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(1, *state(1), {'step': 1})
        checkpoints.wait()
        slow_hashes.clear()
        slow_hashes.begun.clear()
        held = state(2)
        checkpoints.save(2, *held, {'step': 2})  # returns, though nothing is hashed yet
        for _ in range(3):
            held = advance(held)  # in the memory that the state had
        jax.block_until_ready(held)
        assert slow_hashes.begun.wait(60)
        monkeypatch.undo()  # or reading would wait, too
        assert_is(tmp_path, 1)
        slow_hashes.set()
        checkpoints.wait()
        assert checkpoints.steps() == [2]
    assert_is(tmp_path, 2)


def test_what_could_not_be_written_is_told_at_the_next_step_that_is_saved(tmp_path, monkeypatch):
    async def fail(*_):
        raise OSError(28, 'No space left on device')

    with pytest.raises(CheckpointError, match='checkpoints/2 cannot be written .*make room'):
        with Checkpoints(tmp_path) as checkpoints:
            checkpoints.save(1, *state(1), {'step': 1})
            checkpoints.wait()
            monkeypatch.setattr(array_digests, '_write', fail)
            checkpoints.save(2, *state(2), {'step': 2})
            monkeypatch.undo()
            checkpoints.save(3, *state(3), {'step': 3})
    assert_is(tmp_path, 1)
