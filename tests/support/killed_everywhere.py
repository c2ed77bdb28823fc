"""Runs a function in child processes, each killed with SIGKILL before another of its fsyncs, renames and removals.

    python tests/support/killed_everywhere.py MODULE FUNCTION ROOT [ARGUMENT...]

Calls MODULE.FUNCTION(ROOT/1, ...), ROOT/2 and so on, until one comes to its end, and prints the number of that one. Where
there is a ROOT/before, each begins with a copy of it.
"""

import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

_countdown = 0


def run(tmp_path, module: str, function: str, *arguments) -> int:
    """Does this in a process of its own, which has no threads that a fork would lose; returns the printed number."""
    environment = os.environ | {'PYTHONPATH': os.pathsep.join(sys.path), 'JAX_PLATFORMS': 'cpu'}
    command = [sys.executable, __file__, module, function, str(tmp_path), *map(str, arguments)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def _killing(call):
    def wrapped(*args, **kwargs):
        global _countdown
        _countdown -= 1
        if _countdown == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)

    return wrapped


def main(module, function, root, *arguments):
    global _countdown
    call, root = getattr(importlib.import_module(module), function), pathlib.Path(root)
    for name in ('fsync', 'replace', 'unlink', 'rmdir'):
        setattr(os, name, _killing(getattr(os, name)))
    point, status = 0, None
    while status != 0:
        point += 1
        directory = root / str(point)
        if (root / 'before').exists():
            shutil.copytree(root / 'before', directory)
        child = os.fork()
        if not child:
            _countdown = point
            call(directory, *arguments)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0 or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL), status
    print(point)


if __name__ == '__main__':
    main(*sys.argv[1:])
