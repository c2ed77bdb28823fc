"""What the TPU compiler makes of a search at the size of the paper: 1.6 million entries over a
million entities, on eight chips.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).parents[2] / 'benchmarks' / 'tpu_compile.py'


@pytest.mark.skipif(
    not importlib.util.find_spec('libtpu'),
    reason="needs the TPU compiler: pip install -e '.[tpu-aot]'",
)
def test_a_search_reads_its_keys_once_and_moves_none_of_them():
    command = [sys.executable, PROGRAM, 'search', '--queries', '1,64', '--json']
    environment = os.environ | {'PYTHONPATH': str(PROGRAM.parents[1]), 'JAX_PLATFORMS': 'cpu'}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    of_one, of_many = map(json.loads, ran.stdout.splitlines())
    assert of_one['loops'] == 0
    for found in (of_one, of_many):
        assert found['fits'] and found['temporary_bytes'] < 1 << 20
        # No row of E, and no key: 32 scores and rows of each chip, and a query.
        assert sum(found['received_bytes'].values()) < 10_000 * found['queries']
        assert found['roofline_seconds'] <= 1.3 * found['limit_seconds']
