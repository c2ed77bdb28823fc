"""SIGTERM as a flag: what a cluster sends before it takes a machine away."""

import signal
import threading

from jax.experimental import multihost_utils

from opql_jax.core import distributed


class PreemptionGuard:
    """Turns SIGTERM into a flag that the training loop polls, while it is entered.

    With several processes, `should_stop(step)` is true at the same step in all of them.
    """

    def __init__(self):
        self._signalled, self._previous = False, None

    def __enter__(self):
        # JAX itself handles SIGTERM where several processes work together; Python allows handlers in the main thread only.
        if distributed.process_count() == 1 and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._handle)
        return self

    def _handle(self, *_):
        self._signalled = True

    def __exit__(self, *_):
        if self._previous is not None:
            signal.signal(signal.SIGTERM, self._previous)

    def should_stop(self, step: int) -> bool:
        """Whether to stop after `step` steps; every process asks after each step."""
        return self._signalled if distributed.process_count() == 1 else multihost_utils.reached_preemption_sync_point(step)
