"""Binaries that are asked to stop: which status they end with, how soon, and what they say."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from opql_jax.core.preemption import GRACE

ROOT = pathlib.Path(__file__).parents[2]
ENVIRONMENT = os.environ | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)}
START_IN = {'cwd': ROOT, 'env': ENVIRONMENT}
TERM = (signal.SIGTERM, 75, 'asked to stop: run the same command again\n')
INT = (signal.SIGINT, 130, 'interrupted\n')
HUP = signal.SIGHUP, *TERM[1:]  # of a terminal that is closed

START = """
import sys, time
from opql_jax.core import preemption
preemption.exit_on_signals()
"""
# Longer than a test may take, in one call of XLA, during which the main thread runs no Python.
IN_XLA = (
    START
    + """
import jax
count = jax.jit(lambda n: jax.lax.while_loop(lambda i: i < n, lambda i: i + 1, 0.0))
print('ready', flush=True)
count(float('inf')).block_until_ready()
"""
)
# Polls for a while, then works on without polling.
GUARDED = (
    START
    + """
preemption.GRACE = float(sys.argv[2])
with preemption.PreemptionGuard() as guard:
    print('ready', flush=True)
    while not guard._signalled:
        time.sleep(0.01)
    if sys.argv[1] == 'saves':
        # Longer than GRACE, which counts anew afterwards.
        with guard.saving():
            time.sleep(1.8 * preemption.GRACE)
        time.sleep(0.5 * preemption.GRACE)
    if sys.argv[1] in ('polls', 'saves'):
        assert guard.should_stop(1)
    time.sleep({'polls': 2, 'hangs': 60}.get(sys.argv[1], 0.5))
print('ended', flush=True)
"""
)


@pytest.fixture(autouse=True)
def hangups():
    """Children begin with hangups as a terminal has them, though tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Running:
    """A Python process in a group of its own, which is ended with the context."""

    def __init__(self, *arguments):
        pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True}
        command = [sys.executable, *arguments]
        self._process = subprocess.Popen(command, **pipes, **START_IN, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def wait_until_ready(self):
        assert self._process.stdout.readline() == 'ready\n'

    def wait_for_handlers(self):
        """Returns once the process handles SIGTERM and SIGINT, and a thread of its own SIGHUP."""
        handled, blocked = 1 << signal.SIGTERM - 1 | 1 << signal.SIGINT - 1, 1 << signal.SIGHUP - 1
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            lines = pathlib.Path(f'/proc/{self._process.pid}/status').read_text().splitlines()
            fields = dict(line.split(':', 1) for line in lines)
            mask = lambda name: int(fields[name], 16)
            if mask('SigCgt') & handled == handled and mask('SigBlk') & blocked:
                return
        raise AssertionError('the process handles no signals')

    def end(self, number) -> tuple[int, str, str]:
        """Signals the whole group, as a terminal does; returns (status, stdout, stderr)."""
        os.killpg(self._process.pid, number)
        return self.wait()

    def wait(self):
        stdout, stderr = self._process.communicate(timeout=15)
        return self._process.returncode, stdout, stderr


@pytest.mark.parametrize(('number', 'status', 'message'), [TERM, INT], ids=['SIGTERM', 'SIGINT'])
def test_a_process_inside_xla_ends_at_once_with_one_line(number, status, message):
    with Running('-c', IN_XLA) as process:
        process.wait_until_ready()
        time.sleep(0.5)
        assert process.end(number) == (status, '', message)


@pytest.mark.parametrize(
    ('binary', 'number', 'status', 'message'), [('train', *TERM), ('train', *INT), ('verify', *HUP)]
)
@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_a_binary_that_still_imports_ends_the_same_way(binary, number, status, message):
    with Running('-m', f'opql_jax.{binary}', '--gin_file=gin/models/tiny.gin') as process:
        process.wait_for_handlers()
        assert process.end(number) == (status, '', message)


@pytest.mark.parametrize(('loop', 'number'), [('polls', signal.SIGHUP), ('saves', signal.SIGTERM)])
def test_a_guarded_loop_that_polls_or_saves_has_all_the_time_it_needs(loop, number):
    with Running('-c', GUARDED, loop, '1') as process:
        process.wait_until_ready()
        assert process.end(number) == (0, 'ended\n', '')


def test_a_guarded_loop_that_does_not_poll_is_ended_after_a_while():
    number, status, message = TERM
    with Running('-c', GUARDED, 'hangs', '0.2') as process:
        process.wait_until_ready()
        assert process.end(number) == (status, '', message)


@pytest.mark.parametrize('name', ['SIGINT', 'SIGHUP'])
def test_a_signal_that_was_ignored_at_the_start_stays_so(name):
    # As a shell without job control starts a job in the background, and nohup any.
    ignore = f'import signal\nsignal.signal(signal.{name}, signal.SIG_IGN)\n'
    with Running('-c', ignore + GUARDED, 'polls', str(GRACE)) as process:
        process.wait_until_ready()
        os.killpg(process._process.pid, getattr(signal, name))
        time.sleep(0.3)
        assert process.end(signal.SIGTERM) == (0, 'ended\n', '')
