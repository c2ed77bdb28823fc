"""Runs binaries and scripts without waiting for imports: one process that has imported what
binaries need forks for each command.

In the child a module runs as `python -m opql_jax.X` would run it, and a script as `python FILE`: as
`__main__`, with its own flags, file descriptors and exit status, but with jax imported already. A
binary can also be given a file size limit, or be killed before a file takes its final name.
"""

import atexit
import concurrent.futures.thread
import ctypes
import gc
import json
import os
import pathlib
import re
import resource
import runpy
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {
    'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
}
# The tiny size, made tinier.
ENCODER = [
    '--gin_file=gin/models/tiny.gin',
    *(
        f'--gin.encoder.RelationEncoder.{name}={value}'
        for name, value in dict(
            hidden_size=16, num_layers=1, mlp_size=32, relation_dim=8, entity_dim=8
        ).items()
    ),
]
# seconds; a binary that takes longer hangs, even on a machine with much else to do, and is ended.
LONGEST = 900


def collect_seldom() -> None:
    """Looks for garbage seldom: where many programs are traced it takes a sixth of the time, as all
    that is imported is searched.
    """
    gc.set_threshold(100_000, 20, 50)


class Done(NamedTuple):
    """How a command ended; a negative status is the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


class Binaries:
    """A context manager; `binaries('prepare', '--dry_run', ...)` runs `opql_jax.prepare` in the
    repository.

    It takes some seconds to start: tests share the fixture `binaries`.
    """

    def __enter__(self):
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
        )
        return self

    def __exit__(self, *_):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def __call__(
        self,
        binary: str,
        *flags,
        file_limit: int | None = None,
        kill_before: str | None = None,
        obedient: bool = False,
    ) -> Done:
        """Runs a binary to its end.

        Args:
            binary: its name.
            *flags: its command line.
            file_limit: bytes that any file it writes may have; writing more fails, as on a full
                disk.
            kill_before: SIGKILL before it does this: 'replace NAME' is the rename that gives a file
                its final name, 'unlink NAME' its removal or that of its partial file.
            obedient: without root's right to write what it has no permission for.
        """
        limits = dict(file_limit=file_limit, kill_before=kill_before, obedient=obedient)
        return self._ask(f'opql_jax.{binary}', flags, **limits)

    def script(self, path: pathlib.Path, *arguments, **environment: str) -> Done:
        """Runs a script on CPUs to its end, with these variables of the environment: none that
        importing jax reads.
        """
        return self._ask(str(path), arguments, environment=environment)

    def _ask(self, program: str, arguments, **how) -> Done:
        self._server.stdin.write(
            json.dumps(dict(program=program, arguments=[str(a) for a in arguments], **how)) + '\n'
        )
        self._server.stdin.flush()
        if not (answer := self._server.stdout.readline()):
            raise RuntimeError(
                f'the process that forks ended with {self._server.wait()} while it ran {program}'
            )
        return Done(*json.loads(answer))


def _serve():
    """Forks a child for each request and reports its end; returns the request in the child, None at
    the end of the input.
    """
    import opql_jax.data.prepare
    import opql_jax.gin_utils
    import opql_jax.kb.build_memory
    import opql_jax.kb.trained.question_sets
    import opql_jax.kb.update_memory
    import opql_jax.training.trainer  # noqa: F401

    collect_seldom()
    gc.freeze()  # so that no child's collector touches, and thereby copies, what it got from here
    for line in sys.stdin:
        pipes = [os.pipe(), os.pipe()]
        child = os.fork()
        if not child:
            for descriptor, (_, write) in enumerate(pipes, 1):
                os.dup2(write, descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            return json.loads(line)
        for _, write in pipes:
            os.close(write)
        texts = _read([read for read, _ in pipes])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, *texts]), flush=True)
    return None


def _read(descriptors) -> list[str]:
    """Everything that comes out of several pipes, until all are closed."""
    data = {descriptor: b'' for descriptor in descriptors}
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                chunk = os.read(key.fd, 1 << 16)
                data[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return [text.decode(errors='replace') for text in data.values()]


def _run(program, arguments, environment=None, **limits):
    """The child: ends as the program ends. A script gets an environment, a binary its limits."""
    if script := program.endswith('.py'):
        import jax  # which the parent has imported, and which then read what platforms there are

        jax.config.update('jax_platforms', 'cpu')
        os.environ.update(environment, JAX_PLATFORMS='cpu')
    else:
        _limit(**limits)
    sys.path[0] = os.path.dirname(program) if script else str(ROOT)  # not this file's folder
    sys.argv[1:] = arguments
    code = 0
    try:
        if script:
            runpy.run_path(program, run_name='__main__')
        else:
            runpy.run_module(program, run_name='__main__', alter_sys=True)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    # All that the interpreter does at its end but for taking itself apart, which takes a second.
    concurrent.futures.thread._python_exit()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _limit(file_limit, kill_before, obedient):
    """Sets what `Binaries` was called with, and the longest time."""
    signal.alarm(LONGEST)
    if file_limit is not None:
        import jax  # which the parent has imported

        # Whose files may be longer, of which it warns.
        jax.config.update('jax_enable_compilation_cache', False)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))
    if kill_before is not None:
        _kill_before(kill_before)
    if obedient and sys.platform == 'linux':
        _obey_permissions()


def _obey_permissions():
    # See capabilities(7): version 3, this thread; {effective, permitted, inheritable} of
    # capabilities 0 to 31, then of others.
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, sets) == 0, os.strerror(ctypes.get_errno())
    for kind in range(3):
        sets[kind] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


def _kill_before(step):
    def killing(call, kind):
        def wrapped(*paths, **kwargs):
            name = re.sub(r'^\.|(\.\d+)?\.partial$', '', os.path.basename(paths[-1]))
            if f'{kind} {name}' == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*paths, **kwargs)

        return wrapped

    os.replace, os.unlink = killing(os.replace, 'replace'), killing(os.unlink, 'unlink')


if __name__ == '__main__':
    if request := _serve():
        _run(**request)
    os._exit(0)
