"""Runs a function in forks, each with a fault at another of the system calls by which it changes
files; native libraries are seen too, by a library between them and the system (system_calls.c).
"""

import collections
import contextlib
import ctypes
import errno
import gc
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

import pytest

# What happens at a call, with the numbers of system_calls.c.
KILL = 'killed before it'
TEAR = 'killed in the middle of writing'
FULL = 'the disk is full from then on'
BROKEN = 'an error of the disk'
HOW = {KILL: (1, 0), TEAR: (2, 0), FULL: (4, errno.ENOSPC), BROKEN: (3, errno.EIO)}
KILLED = -9
_COUNT = 0


# What came of a run with a fault: at which call, from 1, its kind and file; exit code, or minus the
# signal; what the run reported; what a reader finds; what there is after the run was repeated.
Outcome = collections.namedtuple('Outcome', 'point kind name status said state content')
# Outcomes, and an undisturbed run's calls (kind, name), states and content.
Tried = collections.namedtuple('Tried', 'calls old new content outcomes')


def preload(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the library; skips the test where there is no compiler."""
    compiler = shutil.which('cc') or shutil.which('gcc') or shutil.which('clang')
    if not compiler or sys.platform != 'linux':
        pytest.skip('system calls are interposed by a library for Linux: needs a C compiler')
    library, source = folder / 'system_calls.so', pathlib.Path(__file__).with_suffix('.c')
    command = [compiler, *'-shared -fPIC -O1 -Wall -Werror -o'.split(), library, source, '-ldl']
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return library


def tried(folder: pathlib.Path, module: str, requests) -> list[Tried]:
    """Runs works of a module with faults: for each (work, how, most) at every call, or at `most` of
    them, of different kinds. A work has functions of a folder: `before` makes what it starts from,
    `state` is what a reader finds, `content` all that must be the same after each `run`, as JSON.
    """
    environment = {'LD_PRELOAD': str(preload(folder)), 'PYTHONPATH': os.pathsep.join(sys.path)}
    environment |= {'JAX_PLATFORMS': 'cpu', 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0'}
    # In main memory where that can be: the runs wait for nothing but the disk.
    memory = pathlib.Path('/dev/shm')
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else folder) as root:
        environment['JAX_COMPILATION_CACHE_DIR'] = f'{root}/cache'
        command = [sys.executable, __file__, module, root, json.dumps(requests)]
        ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-5000:]
        found = [Tried(*one) for one in json.loads(pathlib.Path(root, 'found.json').read_text())]
    return [one._replace(outcomes=[Outcome(*outcome) for outcome in one.outcomes]) for one in found]


def _main(module, root, requests):
    root, module = pathlib.Path(root), importlib.import_module(module)
    works, found = {}, []
    for name, how, most in json.loads(requests):
        if name not in works:
            (root / name).mkdir()
            works[name] = _Work(root / name, getattr(module, name))
        found.append(works[name].tried(how, most))
    (root / 'found.json').write_text(json.dumps(found))


class _Work:
    """A work, and what an undisturbed run of it has, as in `Tried`."""

    def __init__(self, root, work):
        self._root, self._work, self._before = root, work, root / 'before'
        _forked(lambda: work.before(self._before))
        every = lambda folder: (work.run(folder), work.state(folder), work.content(folder))
        _warm(every, self._before, root / 'warm')
        status, said, self._calls = self._run(root / 'whole', _COUNT, 0, 0)
        assert status == 0, said
        self._old = self._look(work.state, self._before)
        self._new = self._look(work.state, root / 'whole')
        self._content = self._look(work.content, root / 'whole')

    def tried(self, how, most):
        outcomes = []
        for point in _chosen(self._calls, how, most):
            folder = self._root / str(point)
            status, said, seen = self._run(folder, HOW[how][0], point, HOW[how][1])
            # TensorStore writes now in more pieces, now in fewer; then nothing happened.
            if len(seen) >= point:
                state = self._look(self._work.state, folder)
                again, complaint = _forked(lambda folder=folder: self._work.run(folder))
                ended = again == 0
                found = self._look(self._work.content, folder) if ended else f'{again} {complaint}'
                said = said.replace(str(folder), 'FOLDER')
                outcomes.append((point, *seen[point - 1], status, said, state, found))
            shutil.rmtree(folder, ignore_errors=True)
        return self._calls, self._old, self._new, self._content, outcomes

    def _run(self, folder, mode, point, number):
        log = self._root / 'calls'
        if self._before.exists():
            shutil.copytree(self._before, folder)
        log.unlink(missing_ok=True)

        def armed():
            place = os.fsencode(folder), os.fsencode(log)
            ctypes.CDLL(None).arm(*place, mode, ctypes.c_long(point), number)
            self._work.run(folder)

        status, said = _forked(armed)
        lines = log.read_text().splitlines() if log.exists() else []
        return status, said, [_normal(line, folder) for line in lines]

    def _look(self, function, folder):
        status, found = _forked(lambda: function(folder), result=True)
        return found if status == 0 else f'{status} {found}'


def _warm(function, before, folder):
    """Imports what a run imports on the way, so that no fork has to do it."""
    if before.exists():
        shutil.copytree(before, folder)
    status, modules = _forked(lambda: (function(folder), sorted(sys.modules))[1], result=True)
    assert status == 0, modules
    for module in modules:
        with contextlib.suppress(Exception):  # some are made by their packages
            importlib.import_module(module)
    gc.freeze()  # so that no child's collector touches, and thereby copies, what it got from here


def _chosen(calls, how, most):
    """The numbers of calls: all, or so many, of different kinds and files if possible, evenly."""
    apt = lambda kind: (
        kind == 'write' if how == TEAR else kind not in ('unlink', 'rmdir') if how == FULL else True
    )
    points = [point for point, (kind, _) in enumerate(calls, 1) if apt(kind)]
    if most is None or most >= len(points):
        return points
    first = {calls[point - 1]: point for point in reversed(points)}
    chosen = sorted(first.values()) if len(first) >= most else points
    return [chosen[i * (len(chosen) - 1) // (most - 1)] for i in range(most)]


def _normal(line, folder):
    """(kind, name) of a line of the log, without process ids, random names and times."""
    kind, _, path = line.partition(' ')
    name = path.removeprefix(str(folder)).lstrip('/') or '.'
    name = re.sub(r'\.\d+\.partial$', '.N.partial', name)
    return kind, re.sub(r'[0-9a-f]{16,}|\d{8,}', 'N', name)


def _forked(function, result=False):
    """(status, complaint) of a function in a fork, as binaries report errors; or its result."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        status, said = 0, ''
        try:
            found = function()
            said = json.dumps(found) if result else ''
        except BaseException as error:
            from opql_jax.core.errors import InputError, error_message

            is_told = isinstance(error, (InputError, OSError))
            said = f'error: {error_message(error)}' if is_told else traceback.format_exc()
            status = 1 if is_told else 2
        with os.fdopen(write, 'w') as pipe:
            pipe.write(said)
        os._exit(status)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(said) if result and status == 0 else said


if __name__ == '__main__':
    _main(*sys.argv[1:])
