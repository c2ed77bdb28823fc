"""How a binary ends on SIGTERM, which clusters send before they take a machine, Ctrl-C or a hangup.

An exception in a signal handler would unwind the stack while XLA's threads are at work, which
crashes the process. So a thread waits for signals, and ends the process on the spot; nothing on
disk is lost, as files appear whole or not at all. A hangup becomes a SIGTERM. A training loop,
which has its state to save, polls a `PreemptionGuard`; `run_binary` passes the signal on; a prompt
goes on after Ctrl-C, and calls `raise_on_interrupt`.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from opql_jax.core.errors import Preempted

STOP_SIGNALS = signal.SIGTERM, signal.SIGINT
INTERRUPTED = 130  # of a process that Ctrl-C ended, as shells have it: 128 + SIGINT
# Seconds after SIGTERM in which a loop has to poll its guard, else it is compiling or stuck.
# Clusters wait 30 or more before SIGKILL.
GRACE = 20.0

# Held while a signal is answered and while a child starts, so that no signal falls between the two.
_answering = threading.Lock()
_child: subprocess.Popen | None = None  # of `run_binary`
_status_of_passed = 0  # that of the last signal which the child was sent
_interrupts_raise = False  # see `raise_on_interrupt`


class PreemptionGuard:
    """While it is entered, SIGTERM only sets a flag, which the training loop polls.

    With several processes `should_stop(step)` is true at the same step in all of them: JAX takes
    the signal, if `distributed.initialize` was told so, and they agree on a step.
    """

    _entered: 'PreemptionGuard | None' = None

    def __init__(self):
        self._signalled = False
        self._polled = threading.Event()  # since the signal
        self._installed = False
        # When it last ended saving, in seconds of the monotonic clock; inf while it saves.
        self._save_end = -math.inf
        self._previous = None

    def __enter__(self):
        # Python allows handlers in the main thread only.
        if self._process_count() == 1 and threading.current_thread() is threading.main_thread():
            self._previous, self._installed = signal.signal(signal.SIGTERM, self._handle), True
            PreemptionGuard._entered = self
        return self

    def _handle(self, *_):
        self._signalled = True

    def __exit__(self, *_):
        if self._installed:
            PreemptionGuard._entered = None
            self._polled.set()  # the loop has ended by itself
            # None is a handler that C code had installed, which Python cannot restore.
            signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)

    def should_stop(self, step: int) -> bool:
        """Whether to save after `step` steps and raise `Preempted`; all processes ask each step."""
        if self._process_count() > 1:
            from jax.experimental import multihost_utils

            return multihost_utils.reached_preemption_sync_point(step)
        if self._signalled:
            self._polled.set()
        return self._signalled

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Saving may take longer than GRACE: it is not cut off."""
        self._save_end = math.inf
        try:
            yield
        finally:
            self._save_end = time.monotonic()

    @staticmethod
    def _process_count() -> int:
        # Imported late, as `exit_on_signals` comes before the imports that take seconds.
        from opql_jax.core import distributed

        return distributed.process_count()


def exit_on_signals() -> None:
    """From now on SIGTERM and SIGHUP end this binary with a line and status 75, Ctrl-C with 130."""
    received, sent = os.pipe()
    os.set_blocking(sent, False)
    # C code writes the numbers of signals there, even while the main thread is inside a library.
    signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    for number in STOP_SIGNALS:
        # Shells start jobs in the background with SIGINT ignored: Ctrl-C is not for these.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave_to_thread)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # see `run_binary`
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup leaves it
        # Blocked in this thread, and so in all that are started: only one takes it, whatever
        # libraries do with handlers.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        threading.Thread(target=_terminate_on_hangup, daemon=True).start()
    threading.Thread(target=_exit_on_signal, args=(received,), daemon=True).start()


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt in the main thread, where no JAX may run."""
    global _interrupts_raise
    if signal.getsignal(signal.SIGINT) is _leave_to_thread:
        _interrupts_raise = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Blocks signals for this thread and for processes that are started meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def run_binary(command: Sequence[str], cwd: str | os.PathLike) -> int:
    """Runs a Python command line that calls `exit_on_signals`; returns its exit status.

    If this process called `exit_on_signals`, too, the command is sent what this one is sent, and is
    waited for; the status is then the one with which this process is to end.
    """
    global _child, _status_of_passed
    # Until the binary answers signals, they wait: Python would print a traceback.
    with _answering, blocked(*STOP_SIGNALS):
        child = _child = subprocess.Popen([sys.executable, *command], cwd=cwd)
        _status_of_passed = 0
    status = child.wait()
    with _answering:
        _child = None
        return _status_of_passed or status


def _leave_to_thread(*_) -> None:
    """Handles a signal that the thread of `exit_on_signals` answers."""


def _terminate_on_hangup() -> None:
    """Sends this process a SIGTERM, which a guard or a web server may answer, upon a SIGHUP."""
    while True:
        signal.sigwait([signal.SIGHUP])
        os.kill(os.getpid(), signal.SIGTERM)


def _exit_on_signal(received: int) -> None:
    """Waits for signals until one of them ends the process."""
    global _status_of_passed
    while True:
        number = os.read(received, 1)[0]
        if number == signal.SIGINT and _interrupts_raise:
            continue
        if number == signal.SIGINT:
            message, status = 'interrupted', INTERRUPTED
        elif number == signal.SIGTERM:
            message, status = 'asked to stop: run the same command again', Preempted.CODE
        else:
            continue
        with _answering:
            guard = PreemptionGuard._entered
            if _child:
                _status_of_passed = status
                _child.send_signal(number)
            elif number == signal.SIGINT or guard is None or not _stops_by_itself(guard):
                _exit(message, status)


def _stops_by_itself(guard: PreemptionGuard) -> bool:
    """Whether the loop polls its guard within GRACE, or within GRACE of saving its state."""
    since = time.monotonic()
    while not guard._polled.wait(max(0.0, since + GRACE - time.monotonic())):
        alive = min(guard._save_end, time.monotonic())
        if alive <= since:
            return False
        since = alive
    return True


def _exit(message: str, status: int):
    with contextlib.suppress(OSError):  # a terminal that is gone
        os.write(2, f'{message}\n'.encode())
    os._exit(status)
