"""What the TPU compiler makes of a training step on eight chips."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'tpu_compile.py'


@pytest.mark.skipif(not importlib.util.find_spec('libtpu'), reason="needs the TPU compiler: pip install -e '.[tpu-aot]'")
def test_gradients_are_summed_over_chips_in_bfloat16():
    command = [sys.executable, PROGRAM, '--programs', 'relations', '--model', 'tiny', '--entities', '8000', '--json']
    environment = os.environ | {'PYTHONPATH': str(PROGRAM.parents[1]), 'JAX_PLATFORMS': 'cpu'}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout)
    # A parameter and its two moments are float32. An all-reduce receives twice 7/8 of what it sums.
    parameters = found['argument_bytes'] / 12
    bytes_a_gradient = found['received_bytes']['all-reduce'] / (2 * 7 / 8) / parameters
    assert 1.9 < bytes_a_gradient < 2.5  # W_r and W_e, and vectors of mentions, are float32
