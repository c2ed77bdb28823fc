"""glibc's allocator, set so that memory freed after a training step is kept for the next one."""

import ctypes
import importlib.util
import os
import platform
import sys
from importlib import metadata

# Parameters of mallopt in glibc's malloc.h, and their values. The first is refused before glibc
# 2.35, and then the others, which would make large arrays more expensive without it, are left
# alone.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_SETTINGS = ((_MMAP_THRESHOLD, 2**31 - 1), (_TRIM_THRESHOLD, -1), (_ARENA_MAX, 1))


def keep_freed_memory() -> bool:
    """Keeps freed memory if steps run on CPUs under glibc 2.35 or later; returns whether it does.

    To be called before any other import: threads that were started before keep part of the memory
    to themselves.

    Otherwise all arrays within a step lie in memory that the system gives, page by page, and takes
    back after it, and a fifth to a third of a step is spent on that. Single arrays of 2 GB and more
    are still given back. What is set in the environment (`MALLOC_ARENA_MAX` and others,
    GLIBC_TUNABLES) stays as it is.
    """
    if sys.platform != 'linux' or platform.libc_ver()[0] != 'glibc' or not _runs_on_cpus():
        return False
    if any(name.startswith('MALLOC_') or name == 'GLIBC_TUNABLES' for name in os.environ):
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(name, value) == 1 for name, value in _SETTINGS)


def _runs_on_cpus():
    """Whether JAX will find no accelerator, whose steps use its own memory."""
    if platforms := os.environ.get('JAX_PLATFORMS'):
        return platforms == 'cpu'
    plugins = map(importlib.util.find_spec, ('libtpu', 'jax_plugins'))
    return not any(plugins) and not metadata.entry_points(group='jax_plugins')
