"""Asks the TPU compiler, without a TPU, what it makes of a program of ours."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'tpu_compile.py'
needs_tpu_compiler = pytest.mark.skipif(
    not importlib.util.find_spec('libtpu'),
    reason="needs the TPU compiler: pip install -e '.[tpu-aot]'",
)


def compiled(options: str) -> dict:
    command = [sys.executable, PROGRAM, *options.split(), '--json']
    environment = os.environ | {'PYTHONPATH': str(PROGRAM.parents[1]), 'JAX_PLATFORMS': 'cpu'}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout)
