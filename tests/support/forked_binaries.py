"""Runs binaries and scripts without waiting for imports: forks of a process that has done them."""

import atexit
import concurrent.futures.thread
import gc
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {
    'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))
}
# The tiny size, made tinier.
_SIZES = 'hidden_size=16 num_layers=1 mlp_size=32 relation_dim=8 entity_dim=8'
ENCODER = ['--gin_file=gin/models/tiny.gin']
ENCODER += [f'--gin.encoder.RelationEncoder.{size}' for size in _SIZES.split()]
# seconds; a binary that takes longer hangs, even on a machine with much else to do, and is ended.
LONGEST = 900


def collect_seldom() -> None:
    """Looks for garbage seldom: where many programs are traced it takes a sixth of the time."""
    gc.set_threshold(100_000, 20, 50)


class Binaries:
    """A context manager; `binaries('prepare', '--dry_run')` runs `opql_jax.prepare`."""

    def __enter__(self):
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        command = [sys.executable, __file__]
        self._server = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, **pipes)
        return self

    def __exit__(self, *_):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def __call__(self, binary: str, *flags) -> subprocess.CompletedProcess:
        return self._ask(f'opql_jax.{binary}', flags)

    def script(self, path: pathlib.Path, *arguments, **environment: str):
        """Runs a script on CPUs, with variables that importing jax does not read."""
        return self._ask(str(path), arguments, environment=environment)

    def _ask(self, program, arguments, **how):
        request = dict(program=program, arguments=[str(a) for a in arguments], **how)
        self._server.stdin.write(json.dumps(request) + '\n')
        self._server.stdin.flush()
        if not (answer := self._server.stdout.readline()):
            raise RuntimeError(f'the process that forks ended while it ran {program}')
        return subprocess.CompletedProcess(program, *json.loads(answer))


def _serve():
    """Forks a child for each request, which it returns there; None at the end of the input."""
    import opql_jax.data.prepare
    import opql_jax.gin_utils
    import opql_jax.kb.build_memory
    import opql_jax.kb.trained.question_sets
    import opql_jax.kb.update_memory
    import opql_jax.training.trainer  # noqa: F401

    collect_seldom()
    gc.freeze()  # so that no child's collector touches, and thereby copies, what it got from here
    for line in sys.stdin:
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            child = os.fork()
            if not child:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(stdout.fileno(), 1)
                os.dup2(stderr.fileno(), 2)
                return json.loads(line)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode(errors='replace'))
        print(json.dumps([status, *texts]), flush=True)
    return None


def _run(program, arguments, environment=None):
    """The child: ends as the program ends. A script gets an environment."""
    signal.alarm(LONGEST)
    if script := program.endswith('.py'):
        import jax  # which the parent has imported, and which then read what platforms there are

        jax.config.update('jax_platforms', 'cpu')
        os.environ.update(environment, JAX_PLATFORMS='cpu')
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


if __name__ == '__main__':
    if request := _serve():
        _run(**request)
    os._exit(0)
