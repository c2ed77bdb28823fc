"""What the TPU compiler makes of a training step on eight chips of v5e: a small encoder over 40,000 entities."""

import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'tpu_compile.py'
ENTITIES, ENTITY_DIM, CHIPS = 40_000, 256, 8
# Parameters of the encoder that are split over the chips: 'tiny' with 30,000 words and 64 positions.
SPLIT = (30_000 + 64) * 128 + 2 * 12 * 128**2
# By this version of the compiler. Where a change is meant, so is a change of this number.
CYCLES, LIBTPU = 957_501, '0.0.42.1'

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec('libtpu'), reason="needs the TPU compiler: pip install -e '.[tpu-aot]'"
)


@pytest.fixture(scope='module')
def compiled():
    command = [sys.executable, PROGRAM, '--programs', 'relations', '--model', 'tiny', '--entities', str(ENTITIES), '--json']
    environment = os.environ | {'PYTHONPATH': str(PROGRAM.parents[1]), 'JAX_PLATFORMS': 'cpu'}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def test_parameters_are_gathered_and_their_gradients_summed_in_bfloat16(compiled):
    received, others = compiled['received_bytes'], (CHIPS - 1) / CHIPS * SPLIT
    assert 1.9 < received['all-gather'] / others < 2.2
    # The compiler sums the gradients of attention whole, which is twice as much.
    assert 1.9 < (received['reduce-scatter'] + received['all-reduce']) / others < 2.6


def test_chips_hold_parts_of_the_parameters_with_their_moments_and_exchange_no_table(compiled):
    parts = 12 * (SPLIT + ENTITIES * ENTITY_DIM) / CHIPS
    assert parts < compiled['argument_bytes'] < 1.4 * parts  # W_r, W_e, biases and norms are whole
    words = 30_000 * 128
    assert compiled['fits'] and compiled['largest_collective'] < 1.01 * words < ENTITIES * ENTITY_DIM


def test_a_step_takes_the_cycles_that_it_took_when_it_was_last_changed(compiled):
    if (version := importlib.metadata.version('libtpu')) != LIBTPU:
        pytest.skip(f'the number is of libtpu {LIBTPU}, not {version}')
    assert compiled['estimated_cycles'] == pytest.approx(CYCLES, rel=0.1)
