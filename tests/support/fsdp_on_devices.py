"""Parameters split over 3 and 8 devices, gathered and scattered; run by fsdp_test.py in a process
that has 8 virtual ones.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from opql_jax.parallel import fsdp
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh, row_devices
from opql_jax.training import state

import eight_devices

ENTITIES = 10


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
        state.place(traverse_util.unflatten_dict(arrays, sep='/'), layout, lambda name: True),
        sep='/',
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


if __name__ == '__main__':
    assert jax.device_count() == 8, jax.devices()
    for seed, shape in enumerate(
        ({'data': 3}, eight_devices.MESHES['8'], eight_devices.MESHES['2x4'])
    ):
        check_that_parts_are_the_whole(make_mesh(**shape), np.random.default_rng(seed))
