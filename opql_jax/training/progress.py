"""Metrics of a training run: their means, rates, where its time goes, and traces for a profiler."""

import contextlib
import logging
import math
import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping

import jax
import numpy as np

from opql_jax.core import distributed, files
from opql_jax.core.errors import InputError
from opql_jax.data.sources.base import named_leaves
from opql_jax.models import flops
from opql_jax.training.tensorboard import ScalarWriter

_log = logging.getLogger(__name__)

# Seconds after which a line tells the progress although no report is due.
SILENCE = 30.0
# Steps that may be queued on devices: enough that they never idle, and few, as a run that is asked
# to stop waits for all of them. By default JAX queues 32 on a CPU, some seconds each in a large
# model.
QUEUED_STEPS = 2


class TrainingError(InputError):
    """Training cannot go on; the message says what and where."""


class Progress:
    """Collects metrics, checks them for NaN, and reports means: log and TensorBoard.

    Each report covers the steps since the last one, its window; if reports are far apart, lines in
    the log alone tell the progress in between. Beside the means of the metrics a report has:

        steps_per_second, sequences_per_second: a sequence is a row of tokens.
        step_seconds, data_seconds, checkpoint_seconds: the time of a step; the part of it spent
            waiting for a batch; and that before the window's first step for saving and scoring.
        tflops_per_device: 1e12 FLOP/s of the encoder alone (`flops.encoder_flops`), padding
            included, as if all layers were trained and the last one computed at the two markers and
            one mention.
        mfu: the same as a share of the device's peak in bfloat16, if known.
        device_memory_gib: peak memory of a device of the first process, if devices tell.
    """

    def __init__(self, config, encoder, start: int, num_devices: int):
        """Opens the logs of a run with a `TrainConfig`, after `start` steps, on so many devices."""
        workdir, self._num_steps = config.workdir, config.num_steps
        first, last = config.profile_steps or (0, 0)
        if config.profile_steps and not 1 <= first <= last <= config.num_steps:
            raise TrainingError(
                f'profile_steps={config.profile_steps}: give (first, last) of the steps 1 to '
                f'{config.num_steps}'
            )
        self._traced = range(max(first, start + 1), last + 1)
        self._trace_folder = files.below(workdir, 'profile')
        self._trace: tempfile.TemporaryDirectory | None = None
        # Steps after a killed run's newest checkpoint are logged again.
        self._writer = None
        if distributed.is_primary():
            self._writer = ScalarWriter(str(workdir), purge_step=start + 1)
        self._encoder, self._num_devices = encoder, num_devices
        self._metrics = []  # (step, metrics) since the last report
        self._since, self._time = start, time.monotonic()
        self._said = self._time  # when the log last had a line
        self._seconds, self._sequences, self._flops = {'data': 0.0, 'checkpoint': 0.0}, 0, 0.0
        self._began, self._saving = self._time, 0.0  # seconds lost to checkpoints since

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except OSError:
            if kind is None:  # else what ended the run says more of the same disk
                raise

    def close(self) -> None:
        """Finishes what is written."""
        if self._trace:
            self._stop_trace(self._trace)
        if self._writer:
            self._writer.close()

    @contextlib.contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Counts the time it is entered as 'data' or 'checkpoint'."""
        start = time.monotonic()
        yield
        self._seconds[part] += time.monotonic() - start
        if part == 'checkpoint':
            self._saving += time.monotonic() - start

    def start_step(self, step: int, batch) -> None:
        """Before step `step` (from 0) on a batch of the whole job; logs progress now and then."""
        if self._metrics and time.monotonic() - self._said >= SILENCE:
            metrics = {name: float(x) for name, x in jax.device_get(self._metrics[-1][1]).items()}
            seconds = time.monotonic() - self._time - self._seconds['checkpoint']
            self._say(step, (step - self._since) / seconds, metrics)
        leaves = named_leaves(batch)
        shapes = [np.shape(leaves[name]) for name in leaves if name.endswith('tokens')]
        self._sequences += sum(n for n, _ in shapes)
        self._flops += flops.TRAINING_OVER_FORWARD * sum(
            flops.encoder_flops(self._encoder, shape) for shape in shapes
        )
        if self._traced and step + 1 == self._traced[0]:
            # Or the trace begins with earlier steps.
            jax.block_until_ready([metrics for _, metrics in self._metrics])
            folder = self._trace = tempfile.TemporaryDirectory()
            jax.profiler.start_trace(folder.name)

    def end_step(self, step: int, metrics) -> None:
        """After step `step` was queued; waits until at most `QUEUED_STEPS` are left."""
        self._metrics.append((step, metrics))
        if len(self._metrics) > QUEUED_STEPS:
            jax.block_until_ready(self._metrics[-1 - QUEUED_STEPS])
        if self._trace and step + 1 == self._traced[-1]:
            jax.block_until_ready(metrics)
            self._stop_trace(self._trace)

    def report(self, done: int) -> dict:
        """Reports mean metrics of the steps since the last; TrainingError: one is not finite."""
        window = [
            (step, {k: float(v) for k, v in metrics.items()})
            for step, metrics in jax.device_get(self._metrics)
        ]
        self._metrics = []
        for step, metrics in window:
            # With a finite loss a NaN gradient would still spoil the next checkpoint.
            if not (math.isfinite(metrics['loss']) and math.isfinite(metrics['grad_norm'])):
                raise TrainingError(
                    f'step {step + 1}: the loss is {metrics["loss"]} (gradient '
                    f'norm {metrics["grad_norm"]}). Checkpoints are from '
                    'before. Lower the learning rate, or look at batch '
                    f'{step}, which is a function of the seed and that number.'
                )
        if not window:
            return {}
        names = sorted({name for _, metrics in window for name in metrics})
        means = {name: float(np.mean([m[name] for _, m in window if name in m])) for name in names}
        speed = self._speed(done)
        self.write(done, {**means, **speed})
        self._say(done, speed['steps_per_second'], means)
        return means

    def _say(self, done: int, rate: float, metrics: Mapping[str, float]) -> None:
        """Logs how far the run has come, in steps per second since the last report."""
        shown = '  '.join(f'{name} {value:.4g}' for name, value in metrics.items())
        if self._saving:
            shown += (
                f'  checkpoints {self._saving / (time.monotonic() - self._began):.2%} of the time'
            )
        told = 'step %d/%d  %.2f steps/s  ETA %ds  %s'
        _log.info(told, done, self._num_steps, rate, (self._num_steps - done) / rate, shown)
        self._said = time.monotonic()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes metrics to TensorBoard."""
        if self._writer:
            self._writer.write(step, metrics)

    def _speed(self, done: int) -> dict[str, float]:
        """Of the steps since the last call."""
        now, steps = time.monotonic(), done - self._since
        seconds = max(now - self._time, 1e-9)
        achieved = self._flops / seconds / self._num_devices
        out = {
            'steps_per_second': steps / seconds,
            'sequences_per_second': self._sequences / seconds,
            'step_seconds': (seconds - self._seconds['checkpoint']) / steps,
            'data_seconds': self._seconds['data'] / steps,
            'checkpoint_seconds': self._seconds['checkpoint'],
            'tflops_per_device': achieved / 1e12,
        }
        if peak := flops.peak_flops(jax.devices()[0].device_kind):
            out['mfu'] = achieved / peak
        held = [
            stats['peak_bytes_in_use']
            for device in jax.local_devices()
            if (stats := device.memory_stats())
        ]
        if held:
            out['device_memory_gib'] = max(held) / 2**30
        self._since, self._time, self._sequences, self._flops = done, now, 0, 0.0
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return out

    def _stop_trace(self, trace: tempfile.TemporaryDirectory):
        jax.profiler.stop_trace()
        with trace as folder:
            for file in filter(pathlib.Path.is_file, pathlib.Path(folder).rglob('*')):
                name = file.relative_to(folder).as_posix()
                files.copy(file, files.below(self._trace_folder, name))
        self._trace = None
        _log.info('a trace is in %s', self._trace_folder)
