"""A process that may use too little address space says so, rather than end in a dump of a library's
threads.
"""

import subprocess
import sys

import pytest


@pytest.mark.parametrize('megabytes', [500, 1000, 1500, 2000])
def test_too_little_address_space_is_told_in_a_line(megabytes, tmp_path):
    command = (
        f'ulimit -c 0; ulimit -v {megabytes << 10}; exec "$0" -m opql_jax.cli ask {tmp_path} who'
    )
    done = subprocess.run(['bash', '-c', command, sys.executable], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, ''), done.stderr
    assert done.stderr.startswith(
        f'error: the address space is limited to {megabytes:,} MiB (ulimit -v): at least '
    )
    assert done.stderr.count('\n') == 1
