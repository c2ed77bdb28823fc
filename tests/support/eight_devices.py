"""Scripts in a process of their own that has 8 virtual CPU devices, which JAX must be told before it starts."""

import os
import pathlib
import subprocess
import sys

SUPPORT = pathlib.Path(__file__).parent


def run(script: str, *arguments) -> None:
    """Runs a script of this folder to its end, which must be a good one."""
    environment = {
        **os.environ,
        'XLA_FLAGS': os.environ.get('XLA_FLAGS', '') + ' --xla_force_host_platform_device_count=8',
        'JAX_PLATFORMS': 'cpu',
        'PYTHONPATH': str(SUPPORT.parents[1]),
    }
    command = [sys.executable, str(SUPPORT / script), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
