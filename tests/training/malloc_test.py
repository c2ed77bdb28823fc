"""Memory that a process frees and keeps, so that its next step need not ask for it again."""

import ast
import os
import pathlib
import platform
import subprocess
import sys

import pytest

from opql_jax.training import malloc

LIBC, VERSION = platform.libc_ver()
CAN = LIBC == 'glibc' and tuple(map(int, VERSION.split('.'))) >= (2, 35)
needs_glibc = pytest.mark.skipif(
    not CAN, reason='only glibc, from 2.35 on, can be told to keep what is freed'
)

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


@needs_glibc
def test_what_is_freed_is_kept_for_steps_on_a_cpu():
    says, megabytes = kept(JAX_PLATFORMS='cpu')
    assert says and megabytes > MEGABYTES


@needs_glibc
@pytest.mark.parametrize(
    'environment', [dict(JAX_PLATFORMS='tpu'), dict(JAX_PLATFORMS='cpu', MALLOC_ARENA_MAX='4')]
)
def test_what_is_freed_is_given_back_on_accelerators_and_where_the_user_chose_otherwise(
    environment,
):
    says, megabytes = kept(**environment)
    assert not says and megabytes < MEGABYTES


def test_training_sets_it_before_anything_that_starts_threads_is_imported():
    source = (pathlib.Path(malloc.__file__).parents[1] / 'train.py').read_text()
    _, *imports, main = ast.parse(source).body
    first = "if __name__ == '__main__':\n    malloc.keep_freed_memory()\n"
    assert ast.unparse(main).startswith(first)
    code = (
        f'import sys; before = set(sys.modules); {"; ".join(map(ast.unparse, imports))}; '
        'print(*set(sys.modules) - before)'
    )
    out = subprocess.check_output([sys.executable, '-c', code], text=True)
    others = {name for name in out.split() if name.partition('.')[0] not in sys.stdlib_module_names}
    few = 'core core.errors core.preemption core.terminal training training.malloc'.split()
    assert others == {'opql_jax', *(f'opql_jax.{name}' for name in few)}
