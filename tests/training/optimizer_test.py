"""The optimizer, AdamW or another of optax, whose state a run goes on from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from opql_jax.core.errors import InputError
from opql_jax.training.checkpoints import CheckpointError
from opql_jax.training.optimizer import adamw, make_optimizer, make_schedule

import tiny_training

MOMENTUM = functools.partial(optax.sgd, momentum=0.9)


def updates(optimizer, gradients, params):
    state, made = optimizer.init(params), []
    for gradient in gradients:
        update, state = optimizer.update(gradient, state, params)
        made.append(update)
    return made


def test_only_matrices_decay():
    names = 'a/kernel a/bias norm/scale token/embedding entity_table w_q'
    params = {name: jnp.ones(2) for name in names.split()}
    decaying = functools.partial(adamw, weight_decay=0.1)
    optimizer = make_optimizer(10, 1.0, warmup_steps=1, optimizer=decaying)
    *_, last = updates(optimizer, [jax.tree.map(jnp.zeros_like, params)] * 2, params)
    assert {name for name in params if last[name].any()} == {'a/kernel', 'token/embedding', 'w_q'}


@pytest.mark.parametrize(
    ('factory', 'of_optax', 'schedule'),
    [
        # A huge gradient must not fill Adam's second moment.
        (functools.partial(adamw, weight_decay=0.0),
            functools.partial(optax.adamw, b2=0.98, weight_decay=0.0), None),
        (optax.adafactor, optax.adafactor, None),
        (optax.lion, optax.lion, optax.exponential_decay(0.1, 2, 0.5)),
        (MOMENTUM, MOMENTUM, optax.constant_schedule(0.3)),
    ],
)  # fmt: skip
def test_an_optimizer_is_that_of_optax_over_clipped_gradients(factory, of_optax, schedule):
    rng, params = np.random.default_rng(0), {'a/kernel': jnp.ones((3, 2)), 'b': jnp.ones(4)}
    draw = lambda x: jnp.asarray(9 * rng.normal(size=x.shape), jnp.float32)
    gradients = [jax.tree.map(draw, params) for _ in range(3)]
    given = dict(optimizer=factory, schedule=schedule)
    ours = make_optimizer(20, 0.2, warmup_steps=2, clip_norm=1.5, **given)
    clipped = [jax.tree.map(lambda x: x * min(1, 1.5 / optax.tree.norm(g)), g) for g in gradients]
    rate = schedule or optax.warmup_cosine_decay_schedule(0, 0.2, 2, 20, 0.004)
    found, wanted = updates(ours, gradients, params), updates(of_optax(rate), clipped, params)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-7)
    jax.tree.map(close, found, wanted)
    assert make_schedule(20, 0.2, 2, schedule)(5) == rate(5)


@pytest.mark.parametrize(
    ('given', 'message'),
    [
        ({'optimizer': optax.lion(1e-3)},
            'cannot be made of a learning_rate .*without parentheses, such as @optax.lion'),
        ({'schedule': optax.cosine_decay_schedule},
            'schedule=cosine_decay_schedule gives no learning rate .*_schedule\\(\\)$'),
        ({'optimizer': functools.partial(adamw, moment_dtype='int8')},
            "moment_dtype='int8': give one of 'float32', 'bfloat16'"),
    ],
)  # fmt: skip
def test_what_makes_no_optimizer_is_told_before_anything_is_written(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        tiny_training.run(tmp_path / 'prepared', tmp_path / 'run', **given)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return tiny_training.write_prepared(tmp_path_factory.mktemp('text') / 'prepared')


def test_a_run_goes_on_with_its_optimizer_and_with_no_other(prepared, tmp_path, monkeypatch):
    half = functools.partial(adamw, moment_dtype='bfloat16')
    own = dict(optimizer=half, schedule=optax.constant_schedule(1e-3))
    whole = tiny_training.run(prepared, tmp_path / 'whole', num_steps=4, **own)
    tiny_training.run(prepared, tmp_path / 'run', num_steps=2, **own)
    saved = tiny_training.state_of(tmp_path / 'run', 2)
    assert {str(saved[name].dtype) for name in saved if 'mu' in name} == {'bfloat16'}
    compiled = []
    monkeypatch.setattr('opql_jax.training.trainer.make_train_step', lambda *_: compiled.append(_))
    for other in (adamw, optax.sgd, optax.lion):
        said = r'run/checkpoints/2 was trained by another optimizer \(.* was .* and is '
        with pytest.raises(CheckpointError, match=said):
            tiny_training.run(prepared, tmp_path / 'run', num_steps=4, optimizer=other)
    assert not compiled
    monkeypatch.undo()
    assert tiny_training.run(prepared, tmp_path / 'run', num_steps=4, **own) == whole
