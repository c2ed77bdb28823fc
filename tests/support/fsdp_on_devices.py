"""Parameters split over 3 and 8 devices, and what training makes of them; run by fsdp_test.py in a
process that has 8 virtual ones.

    python tests/support/fsdp_on_devices.py OUTPUT

Leaves in OUTPUT (.npz) the parameters and moments after some steps of AdamW, of each number of
devices; '0-' where nothing is split.
"""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from opql_jax.core.hashing import leaf_name
from opql_jax.models.encoder import init_params
from opql_jax.parallel import fsdp
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh, row_devices
from opql_jax.training import state, trainer
from opql_jax.training.objectives import Task
from opql_jax.training.optimizer import make_optimizer

import eight_devices
import tiny_training

STEPS, ENTITIES, EVERYTHING = 4, 10, lambda name: True
# 12 and 9 are split by the second axis of embeddings, of 16, or not at all.
MESHES = {'3': {'data': 3}} | {mesh: eight_devices.MESHES[mesh] for mesh in ('8', '2x4')}


def check_that_parts_are_the_whole(mesh, rng):
    """Random arrays, split and gathered, and gradients of them."""
    sizes = lambda: tuple(int(n) for n in rng.integers(1, 20, rng.integers(1, 5)))
    arrays = {
        f'encoder/layers_{i}/qkv/kernel': rng.normal(size=sizes()).astype(np.float32)
        for i in range(20)
    }
    arrays |= {'encoder/token_embedding/embedding': rng.normal(size=(24, 5)).astype(np.float32)}
    layout = Layout(mesh, ENTITIES)
    placed = traverse_util.flatten_dict(
        state.place(traverse_util.unflatten_dict(arrays, sep='/'), layout, EVERYTHING), sep='/'
    )
    for dtype in ('float32', 'bfloat16'):
        gathered = jax.jit(lambda params, dtype=dtype: fsdp.gather(params, mesh, dtype))(placed)
        parts = jax.jit(lambda gradients: fsdp.scatter(gradients, mesh))(gathered)
        for name, array in arrays.items():
            split = any(size % row_devices(mesh) == 0 for size in array.shape)
            assert gathered[name].is_fully_replicated
            assert gathered[name].dtype == (dtype if split else 'float32')
            np.testing.assert_array_equal(gathered[name], array.astype(gathered[name].dtype))
            np.testing.assert_array_equal(parts[name], gathered[name].astype(jnp.float32))
            for value in (placed[name], parts[name]):
                share = array.size // row_devices(mesh) if split else array.size
                assert {shard.data.size for shard in value.addressable_shards} == {share}
                assert value.dtype == 'float32'
    for name, array in arrays.items():
        np.testing.assert_array_equal(placed[name][: len(array)], array)


def train(mesh, split: bool):
    """The state after some steps of an encoder towards random relations."""
    encoder = tiny_training.encoder(vocab_size=30, dropout_rate=0.1)
    rng = np.random.default_rng(1)
    tokens, places = rng.integers(1, 30, (STEPS, 24, 12)), rng.integers(0, 12, (STEPS, 2, 24))
    wanted = rng.normal(size=(24, encoder.relation_dim)).astype(np.float32)

    def loss(params, batch, memory, key):
        apply = functools.partial(
            encoder.apply, {'params': params['encoder']}, deterministic=False, rngs={'dropout': key}
        )
        return jnp.square(apply(*batch) - wanted).mean(), {}

    optimizer, layout = make_optimizer(STEPS, 0.01, warmup_steps=1), Layout(mesh, ENTITIES)
    task = Task(source=None, loss=loss, trainable=EVERYTHING, lineage={})
    place = lambda tree: state.place(tree, layout, EVERYTHING)
    start = state.init_state(
        {'encoder': init_params(encoder, ENTITIES, 0)['encoder']}, EVERYTHING, optimizer
    )
    now = place(start) if split else start
    step = trainer.make_train_step(task, optimizer, 0, *([mesh] if split else []))
    shardings = [leaf.sharding for leaf in jax.tree.leaves(now)]
    for batch in zip(tokens, *places.swapaxes(0, 1)):
        now, _ = step(now, batch, None)
    if split:  # the next step is compiled for the same
        assert all(
            leaf.sharding.is_equivalent_to(was, leaf.ndim)
            for leaf, was in zip(jax.tree.leaves(now), shardings)
        )
    return now


def main(output):
    assert jax.device_count() == 8, jax.devices()
    found = {}
    for seed, (devices, shape) in enumerate({'0': {'data': 1}, **MESHES}.items()):
        mesh = make_mesh(**shape)
        if devices != '0':
            check_that_parts_are_the_whole(mesh, np.random.default_rng(seed))
        for path, leaf in jax.tree.leaves_with_path(train(mesh, split=devices != '0')):
            found[f'{devices}-{leaf_name(path)}'] = leaf
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
