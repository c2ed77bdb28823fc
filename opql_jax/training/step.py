"""The one train step that serves every stage: loss → gradients of the trainable part → clip → AdamW."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import traverse_util

from opql_jax.parallel import entity_table as table_lib
from opql_jax.parallel import mesh as mesh_lib


class TrainState(NamedTuple):
    """What training changes. `params` holds everything, the frozen part too; `opt_state` covers the trainable part only."""

    step: jax.Array  # int32 scalar: updates made so far
    params: Any
    opt_state: Any


def make_optimizer(
    num_steps: int, learning_rate: float = 1e-3, warmup_steps: int = 100, weight_decay: float = 0.01, clip_norm: float = 1.0
) -> optax.GradientTransformation:
    """AdamW with linear warm-up and cosine decay to 2 %; gradients are clipped by global norm before AdamW sees them."""
    warmup = min(warmup_steps, max(num_steps // 2, 1))
    schedule = optax.warmup_cosine_decay_schedule(0.0, learning_rate, warmup, max(num_steps, warmup + 1), learning_rate * 0.02)
    # Biases, layer norms and entity vectors have no reason to shrink towards 0.
    decay = lambda path, _: name_of(path).endswith(('kernel', 'embedding', 'w_q', 'w_k', 'w_t'))
    decays = lambda params: jax.tree.map_with_path(decay, params)
    return optax.chain(
        optax.clip_by_global_norm(clip_norm), optax.adamw(schedule, b2=0.98, weight_decay=weight_decay, mask=decays)
    )


def name_of(path) -> str:
    """'encoder/w_r/kernel' for the path of a leaf of parameters."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def split_params(params, trainable: Callable[[str], bool]):
    """Splits a nested dict into two flat dicts `(trained, frozen)` keyed by 'a/b/c', by the name of each parameter."""
    flat = traverse_util.flatten_dict(params, sep='/')
    return {k: v for k, v in flat.items() if trainable(k)}, {k: v for k, v in flat.items() if not trainable(k)}


def merge_params(trained: dict, frozen: dict):
    """The nested dict that `split_params` took apart."""
    return traverse_util.unflatten_dict({**frozen, **trained}, sep='/')


def init_state(params, trainable, optimizer) -> TrainState:
    """A state at step 0."""
    trained, _ = split_params(params, trainable)
    if not trained:
        raise ValueError('the stage trains no parameter of the model: its freeze mask excludes all of them')
    return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(trained))


def _of_table(path) -> bool:
    """Whether a leaf of parameters or optimizer state is the entity table or a moment of it."""
    return any(getattr(key, 'key', None) == 'entity_table' for key in path)


def place(tree, layout: table_lib.Layout, trainable):
    """Puts a state, or parameters, on the devices of `layout`.

    An entity table that is trained, and its moments, are split by rows, because they grow with the corpus; everything else
    lies whole on each device.
    """
    split = trainable('entity_table')
    put = lambda path, x: table_lib.place(x, layout) if split and _of_table(path) else mesh_lib.replicate(x, layout.mesh)
    return jax.tree.map_with_path(put, tree)


def without_padding(tree, layout: table_lib.Layout):
    """What `place` was given, the shapes that checkpoints hold: no reader need know how many devices trained."""
    cut = lambda path, x: table_lib.without_padding(x, layout) if _of_table(path) else x
    return jax.tree.map_with_path(cut, tree)


def make_train_step(loss_fn, trainable, optimizer, seed: int):
    """Builds `step(state, batch, constants, static) -> (state, metrics)`, jitted; the old state's buffers are reused.

    Args:
        loss_fn: `(params, batch, constants, static, rng) -> (loss, {name: scalar})`.
        trainable: says by name ('encoder/...') whether a parameter is trained.
        optimizer: an optax transformation.
        seed: of dropout; the key of a step is a function of (seed, step), so a resumed run repeats it.
    """

    def step(state: TrainState, batch, constants, static):
        rng = jax.random.fold_in(jax.random.key(seed), state.step)
        trained, frozen = split_params(state.params, trainable)

        def compute(trained):
            return loss_fn(merge_params(trained, frozen), batch, constants, static, rng)

        (loss, metrics), grads = jax.value_and_grad(compute, has_aux=True)(trained)
        updates, opt_state = optimizer.update(grads, state.opt_state, trained)
        metrics = {'loss': loss, 'grad_norm': optax.tree.norm(grads), **metrics}
        params = merge_params(optax.apply_updates(trained, updates), frozen)
        return TrainState(state.step + 1, params, opt_state), metrics

    return jax.jit(step, static_argnums=3, donate_argnums=0)
