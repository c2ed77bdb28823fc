"""Which parameters are split over devices; training/step_test.py trains with them."""

import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from opql_jax.parallel import fsdp
from opql_jax.parallel.mesh import ROW_AXES, SLICE


@pytest.mark.parametrize(
    'mesh', [AbstractMesh((4, 2), ROW_AXES), AbstractMesh((2, 4, 2), (SLICE, *ROW_AXES))], ids=str
)
@pytest.mark.parametrize(
    'name, shape, split',
    [
        ('encoder/layers_3/qkv/kernel', (768, 3, 12, 64), (ROW_AXES,)),
        ('1/0/mu/encoder/layers_11/attention_out/kernel', (12, 64, 768), (None, ROW_AXES)),
        ('encoder/token_embedding/embedding', (30_522, 768), (None, ROW_AXES)),
        ('encoder/layers_0/mlp_in/kernel', (15, 7), ()),
        ('encoder/layers_0/mlp_in/bias', (3072,), ()),
        ('encoder/w_r/kernel', (1536, 256), ()),
        ('follower/w_q', (512, 512), ()),
    ],
)
def test_matrices_of_the_encoder_are_split_over_a_slice(name, shape, split, mesh):
    assert fsdp.spec(name, shape, mesh) == PartitionSpec(*split)
