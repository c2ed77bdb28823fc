"""TensorBoard's event files, without a wait for torch, and without a hang when the disk is full."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping

# tensorboardX imports torch if it is installed, for annotations only, which took half of the start
# of training and evaluation. For some hundredths of a second no other thread can import torch.
_torch_is_hidden = 'torch' not in sys.modules
if _torch_is_hidden:
    sys.modules['torch'] = None  # type: ignore[assignment]  # makes the import fail
try:
    from tensorboardX.event_file_writer import EventsWriter
    from tensorboardX.proto.event_pb2 import Event, SessionLog
    from tensorboardX.record_writer import directory_check
    from tensorboardX.summary import scalar
finally:
    if _torch_is_hidden and sys.modules.get('torch', _torch_is_hidden) is None:
        del sys.modules['torch']


class ScalarWriter:
    """An event file of scalars, on disk or in a bucket, written without a thread that may end."""

    def __init__(self, folder: str, purge_step: int | None = None):
        """Makes the file and its folder; hides earlier files' steps from `purge_step` on."""
        self._folder = folder
        with self._named():
            directory_check(folder)
            self._events = EventsWriter(os.path.join(folder, 'events'))
            if purge_step is not None:
                self._events.write_event(Event(step=purge_step, file_version='brain.Event:2'))
                self._events.write_event(
                    Event(step=purge_step, session_log=SessionLog(status=SessionLog.START))
                )

    def write(self, step: int, scalars: Mapping[str, float]) -> None:
        """Adds a step's values; an OSError, naming the folder, if they cannot be written."""
        with self._named():
            for name, value in scalars.items():
                self._events.write_event(
                    Event(wall_time=time.time(), step=step, summary=scalar(name, value))
                )
            self._events.flush()  # so that what is logged before a checkpoint is there after a kill

    def close(self) -> None:
        """Flushes and closes the file."""
        with self._named():
            self._events.close()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = error.filename or self._folder
            raise
