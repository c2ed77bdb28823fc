"""Memory that a process frees and keeps, so that its next step need not ask for it again."""

import os
import platform
import subprocess
import sys

import pytest

LIBC, VERSION = platform.libc_ver()
CAN = LIBC == 'glibc' and tuple(map(int, VERSION.split('.'))) >= (2, 35)
MEGABYTES = 600
USED = f"""
import re, numpy as np
from opql_jax.training import malloc
print(malloc.keep_freed_memory())
array = np.ones(({MEGABYTES}, 1 << 20), np.uint8)
del array
print(int(re.search(r'VmRSS:\\s+(\\d+) kB', open('/proc/self/status').read())[1]) >> 10)
"""


def kept(**environment):
    """What `keep` says, and how many megabytes a process has after it freed an array."""
    names = [name for name in os.environ if not name.startswith(('MALLOC_', 'GLIBC_'))]
    env = {name: os.environ[name] for name in names} | environment
    out = subprocess.check_output([sys.executable, '-c', USED], env=env, text=True)
    says, megabytes = out.split()
    return says == 'True', int(megabytes)


@pytest.mark.skipif(not CAN, reason='only glibc, from 2.35 on, can be told to keep what is freed')
@pytest.mark.parametrize(
    'environment, keeps',
    [
        (dict(JAX_PLATFORMS='cpu'), True),
        (dict(JAX_PLATFORMS='tpu'), False),
        (dict(JAX_PLATFORMS='cpu', MALLOC_ARENA_MAX='4'), False),
    ],
)
def test_what_is_freed_is_kept_on_a_cpu_unless_the_user_chose_otherwise(environment, keeps):
    says, megabytes = kept(**environment)
    assert says == keeps == (megabytes > MEGABYTES)
