"""What the TPU compiler makes of a training step on eight chips of v5e, and on two slices."""

import pytest
import tpu_compiler

ENTITIES, ENTITY_DIM, CHIPS = 40_000, 256, 8
# Parameters of the encoder that are split over the chips: 'tiny' with 30,000 words and 64
# positions.
SPLIT = (30_000 + 64) * 128 + 2 * 12 * 128**2

# In CI the TPU compiler is tried by tests/memory/search_test.py.
pytestmark = [pytest.mark.slow, tpu_compiler.needs_tpu_compiler]


def compile_step(topology):
    sizes = f'--model tiny --entities {ENTITIES}'
    return tpu_compiler.compiled(f'relations --topology {topology} {sizes}')


@pytest.fixture(scope='module')
def compiled():
    return compile_step('v5e-8')


def test_parameters_are_gathered_and_their_gradients_summed_in_bfloat16(compiled):
    received, others = compiled['received_bytes'], (CHIPS - 1) / CHIPS * SPLIT
    assert 1.9 < received['all-gather'] / others < 2.2
    # The compiler sums the gradients of attention whole, which is twice as much.
    assert 1.9 < (received['reduce-scatter'] + received['all-reduce']) / others < 2.6


def test_chips_hold_parts_of_the_parameters_with_their_moments_and_exchange_no_table(compiled):
    parts = 12 * (SPLIT + ENTITIES * ENTITY_DIM) / CHIPS
    assert parts < compiled['argument_bytes'] < 1.4 * parts  # W_r, W_e, biases and norms are whole
    words = 30_000 * 128
    assert compiled['fits']
    assert compiled['largest_collective'] < 1.01 * words < ENTITIES * ENTITY_DIM


def test_slices_exchange_each_chips_part_of_the_gradients_and_little_else(compiled):
    """Of E in float32, of the encoder in bfloat16; parameters and moments are as in one slice."""
    slices, parts = compile_step('v5e-8x2'), (4 * ENTITIES * ENTITY_DIM + 2 * SPLIT) / CHIPS
    assert parts < slices['bytes_of_other_slices'] < 1.1 * parts
    assert slices['argument_bytes'] == pytest.approx(compiled['argument_bytes'], rel=0.01)
    assert compiled['bytes_of_other_slices'] == 0
