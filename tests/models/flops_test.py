"""FLOPs are those that the compiler counts; peaks are known by the names of devices."""

import jax
import pytest

from opql_jax.models.flops import encoder_flops, peak_flops

import tiny_encoder

ENCODER = tiny_encoder.make(**tiny_encoder.WIDER, max_length=64, dropout_rate=0.1)


def counted(encoder, shape, mentions):
    """FLOPs of the forward pass by XLA's own count, before it optimises anything."""
    tokens = jax.ShapeDtypeStruct(shape, 'int32')
    position = jax.ShapeDtypeStruct(shape[:1], 'int32')
    params = jax.eval_shape(encoder.init, jax.random.key(0), tokens, position, position)
    context = jax.ShapeDtypeStruct((shape[0], mentions), 'int32')
    run = lambda params, *arguments: encoder.apply(params, *arguments, method='encode')
    return jax.jit(run).lower(params, tokens, position, position, context).cost_analysis()['flops']


@pytest.mark.parametrize('shape', [(4, 64), (8, 24)])
@pytest.mark.parametrize('mentions', [1, 16])
@pytest.mark.parametrize('layers', [1, 3])
def test_encoding_is_as_much_work_as_the_compiler_says(shape, mentions, layers):
    encoder = ENCODER.clone(num_layers=layers)
    # What is no product with weights, such as layer norms, is in the compiler's count: 2 % here,
    # less in wider layers.
    wanted = pytest.approx(counted(encoder, shape, mentions), rel=0.04)
    assert encoder_flops(encoder, shape, 2 + mentions) == wanted


@pytest.mark.parametrize(
    'kind, peak', [('TPU v5 lite', 197e12), ('NVIDIA H100 80GB HBM3', 989e12), ('cpu', None)]
)
def test_the_peak_of_a_device_is_found_by_its_name(kind, peak):
    assert peak_flops(kind) == peak
