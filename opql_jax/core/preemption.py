"""How a binary ends when it is asked to: by SIGTERM, which clusters send before they take a machine away, or by Ctrl-C.

An exception raised in a signal handler would unwind the stack while threads of XLA are at work, which crashes the process, and
would not be raised at all as long as XLA compiles. So a thread waits for signals, and ends the process on the spot. Nothing on
disk is lost, because files appear whole or not at all. A training loop has its state to save, and polls a `PreemptionGuard`.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from opql_jax.core.errors import Preempted

INTERRUPTED = 130  # of a process that Ctrl-C ended, as shells have it: 128 + SIGINT
# Seconds after SIGTERM in which a loop has to poll its guard, else it is compiling or stuck. Clusters wait 30 or more before SIGKILL.
GRACE = 20.0


class PreemptionGuard:
    """While it is entered, SIGTERM does not end the process but sets a flag that the training loop polls.

    With several processes `should_stop(step)` is true at the same step in all of them: JAX takes the signal, if
    `distributed.initialize` was told so, and they agree on a step.
    """

    _entered: 'PreemptionGuard | None' = None

    def __init__(self):
        self._signalled = False
        self._polled = threading.Event()  # since the signal
        self._saving = self._installed = False
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
        """Whether to save the state after `step` steps and raise `Preempted`; every process asks after each step."""
        if self._process_count() > 1:
            from jax.experimental import multihost_utils

            return multihost_utils.reached_preemption_sync_point(step)
        if self._signalled:
            self._polled.set()
        return self._signalled

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Saving may take longer than GRACE: it is not cut off."""
        self._saving = True
        try:
            yield
        finally:
            self._saving = False

    @staticmethod
    def _process_count() -> int:
        # Imported late, as `exit_on_signals` comes before the imports that take seconds.
        from opql_jax.core import distributed

        return distributed.process_count()


def exit_on_signals() -> None:
    """From now on SIGTERM ends this process with status 75 and Ctrl-C with 130, whatever it is doing, with one line on stderr.

    For binaries only, in their main thread and before their imports. See `PreemptionGuard` for the exception.
    """
    received, sent = os.pipe()
    os.set_blocking(sent, False)
    # C code writes the numbers of signals there, even while the main thread is inside a library.
    signal.set_wakeup_fd(sent, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Shells start jobs in the background with SIGINT ignored: Ctrl-C is not for these.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    threading.Thread(target=_exit_on_signal, args=(received,), daemon=True).start()


def _exit_on_signal(received: int) -> None:
    """Waits for signals until one of them ends the process."""
    while True:
        number = os.read(received, 1)[0]
        if number == signal.SIGINT:
            _exit('interrupted', INTERRUPTED)
        if number == signal.SIGTERM:
            guard = PreemptionGuard._entered
            if guard is None or not _stops_by_itself(guard):
                _exit('asked to stop: run the same command again', Preempted.CODE)


def _stops_by_itself(guard: PreemptionGuard) -> bool:
    """Whether the loop polls its guard within GRACE, or within as much after it has saved its state."""
    while not guard._polled.wait(GRACE):
        if not guard._saving:
            return False
    return True


def _exit(message: str, status: int):
    os.write(2, f'{message}\n'.encode())
    os._exit(status)
