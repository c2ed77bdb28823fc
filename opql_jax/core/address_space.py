"""The address space that a process may use, as `ulimit -v` or a batch system limits it."""

import os
import resource

from opql_jax.core.errors import InputError

# With less, threads of XLA and of tokenizers cannot start, and end the process with a dump. Two
# cores answer with 1.9 GiB; each core has threads in five pools, which take 22 MiB of it (`VmPeak`
# of `opql ask` with 2 and with 16 threads a pool).
_BASE, _CORE = 2 << 30, 32 << 20


def check() -> None:
    """Raises InputError if JAX cannot start within the limit; call it before importing JAX."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    least = _BASE + _CORE * (os.cpu_count() or 1)
    if limit != resource.RLIM_INFINITY and limit < least:
        raise InputError(
            f'the address space is limited to {limit >> 20:,} MiB (ulimit -v): '
            f'at least {least >> 20:,} MiB are needed here, and twice as much '
            'to make or change a knowledge base'
        )
