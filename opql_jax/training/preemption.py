"""The notice that a cluster gives before it takes a machine away."""

import signal
import threading

from jax.experimental import multihost_utils

from opql_jax.core import distributed


class Notice:
    """While it is entered, a SIGTERM does not end the process but is remembered.

    Of several processes, which may not be told at the same moment, JAX finds a step that none has passed.
    """

    def __init__(self):
        self._asked, self._before = False, None

    def __enter__(self):
        # JAX listens by itself where several processes have met; Python allows handlers in the main thread only.
        if distributed.process_count() == 1 and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._remember)
        return self

    def _remember(self, *_):
        self._asked = True

    def __exit__(self, *_):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def came(self, step: int) -> bool:
        """Whether to stop after so many steps; every process asks after each of its steps."""
        return self._asked if distributed.process_count() == 1 else multihost_utils.reached_preemption_sync_point(step)
