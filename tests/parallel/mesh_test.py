"""The mesh that devices make, and how it splits what lies on it."""

import dataclasses

import numpy as np
import pytest
from jax.sharding import AbstractMesh, PartitionSpec

from opql_jax.core.errors import InputError
from opql_jax.parallel import fsdp
from opql_jax.parallel.collectives import QueryLayout
from opql_jax.parallel.mesh import (
    ROW_AXES,
    SLICE,
    batch_devices,
    batch_spec,
    mesh_of,
    row_devices,
    slice_spec,
)


@dataclasses.dataclass(frozen=True)
class Device:
    id: int
    slice_index: int


# In another order than that of slices, as processes may have it.
TWO_SLICES = [Device(i, i % 2) for i in range(8)]
ONE = [Device(i, 0) for i in range(8)]


def ids(mesh):
    return np.vectorize(lambda device: device.id, otypes=[int])(mesh.devices).tolist()


def test_devices_of_one_slice_make_a_mesh_of_data_and_model():
    mesh = mesh_of(ONE, model=2)
    assert dict(mesh.shape) == {'data': 4, 'model': 2}
    assert ids(mesh) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (row_devices(mesh), batch_devices(mesh)) == (8, 4)
    assert batch_spec(mesh) == PartitionSpec(('data',)) and slice_spec(8, mesh) == PartitionSpec()


def test_slices_that_devices_name_come_before_data_and_model():
    mesh = mesh_of(TWO_SLICES, model=2)
    assert dict(mesh.shape) == {'slice': 2, 'data': 2, 'model': 2}
    assert ids(mesh) == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    assert (row_devices(mesh), batch_devices(mesh)) == (4, 4)
    assert batch_spec(mesh) == PartitionSpec(('slice', 'data'))


@pytest.mark.parametrize(
    ('devices', 'slices', 'expected'),
    [
        (ONE, 4, [[[0], [1]], [[2], [3]], [[4], [5]], [[6], [7]]]),
        (TWO_SLICES, 1, [[n] for n in range(8)]),
    ],
)
def test_slices_that_are_asked_for_are_taken_in_the_order_of_devices(devices, slices, expected):
    assert ids(mesh_of(devices, slices=slices)) == expected


def test_what_slices_cannot_share_equally_is_whole_in_each():
    mesh = mesh_of(TWO_SLICES)
    assert slice_spec(6, mesh) == PartitionSpec('slice') and slice_spec(7, mesh) == PartitionSpec()
    whole, shared = QueryLayout.of(6, mesh), QueryLayout.of(16, mesh)
    assert whole.spec == whole.spec_of_slice == PartitionSpec() and not whole.shared
    assert shared.spec == PartitionSpec(('slice', 'data', 'model'))
    assert shared.spec_of_slice == PartitionSpec('slice')


@pytest.mark.parametrize(
    ('devices', 'asked', 'message'),
    [
        (ONE, {'data': 9}, 'a mesh of 9 x 1 devices was asked for, but JAX sees 8'),
        (TWO_SLICES, {'data': 5}, '2 slices of 5 x 1 devices was asked for, but a slice has 4'),
        (ONE, {'model': 3}, r'model \(model_devices\) do not divide 8: take 1, 2, 4, 8, or say'),
        (ONE, {'slices': 3}, '8 devices cannot be taken as 3 slices of equal size'),
        (TWO_SLICES[:3], {}, r'slices have \[2, 1\] devices: say how many .*, at most 1, or'),
    ],
)
def test_a_mesh_that_there_are_no_devices_for_is_an_error(devices, asked, message):
    with pytest.raises(InputError, match=message):
        mesh_of(devices, **asked)


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
