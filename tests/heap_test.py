"""Memory that a process frees and keeps, so that its next step need not ask for it again."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='only glibc can be told to keep what is freed')

MEGABYTES = 600
USED = f"""
import re, numpy as np
from opql_jax.training import heap
print(heap.keep())
array = np.ones(({MEGABYTES}, 1 << 20), np.uint8)
del array
print(int(re.search(r'VmRSS:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) >> 10)
"""


def kept(**environment):
    """What `keep` says, and how many megabytes a process has after it freed an array."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(('MALLOC_', 'GLIBC_'))}
    out = subprocess.run([sys.executable, '-c', USED], env=inherited | environment, capture_output=True, text=True, check=True)
    says, megabytes = out.stdout.split()
    return says == 'True', int(megabytes)


def test_what_is_freed_is_kept_for_steps_on_a_cpu():
    says, megabytes = kept(JAX_PLATFORMS='cpu')
    assert says and megabytes > MEGABYTES


@pytest.mark.parametrize('environment', [dict(JAX_PLATFORMS='tpu'), dict(JAX_PLATFORMS='cpu', MALLOC_ARENA_MAX='4')])
def test_what_is_freed_is_given_back_on_accelerators_and_where_the_user_chose_otherwise(environment):
    says, megabytes = kept(**environment)
    assert not says and megabytes < MEGABYTES
