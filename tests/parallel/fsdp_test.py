"""Parameters split over devices are gathered as they were, and trained as if they were whole."""

import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from opql_jax.parallel import fsdp
from opql_jax.parallel.mesh import ROW_AXES, SLICE

import eight_devices


@pytest.fixture(scope='module')
def on_devices(binaries, tmp_path_factory):
    """What 3 and 8 devices trained. That parts are the whole is checked where the devices are."""
    output = tmp_path_factory.mktemp('fsdp') / 'found.npz'
    eight_devices.run(binaries, 'fsdp_on_devices.py', output)
    return np.load(output)


@pytest.mark.parametrize('devices', ['3', '8', '2x4'])
def test_adam_makes_the_same_of_parts_as_of_the_whole(on_devices, devices):
    names = [name.removeprefix('0-') for name in on_devices if name.startswith('0-')]
    assert sum('kernel' in name for name in names) > 12  # parameters and two moments
    for name in names:
        whole, parts = on_devices[f'0-{name}'], on_devices[f'{devices}-{name}']
        np.testing.assert_allclose(parts, whole, atol=2e-5, rtol=0, err_msg=name)


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
def test_matrices_that_the_encoder_uses_in_its_type_are_split_over_a_slice(
    name, shape, split, mesh
):
    assert fsdp.spec(name, shape, mesh) == PartitionSpec(*split)
