"""Metrics of a training run: means, rates, where its time goes, traces."""

import errno
import os
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.data.sources.base import Hops
from opql_jax.models import flops
from opql_jax.training import progress as progress_lib
from opql_jax.training.progress import Progress
from opql_jax.training.trainer import TrainConfig

import tiny_training
from tiny_training import scalars

ENCODER = tiny_training.encoder(vocab_size=100)
DEVICES = 4
BATCH = {
    'questions': {'tokens': np.zeros((2, 8))},
    'pairs': [{'tokens': np.zeros((6, 16)), 'topic': np.zeros(6)}],
    'hops': Hops(2),
}
COUNTED = 3 * (flops.encoder_flops(ENCODER, (6, 16)) + flops.encoder_flops(ENCODER, (2, 8)))


@pytest.fixture
def clock(monkeypatch):
    clock = types.SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress_lib, 'time', types.SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def make_progress(workdir, start, num_steps, **options):
    return Progress(TrainConfig('', str(workdir), num_steps, **options), ENCODER, start, DEVICES)


def spend(progress, clock, part, seconds):
    with progress.timed(part):
        clock.now += seconds


def take(progress, step, **metrics):
    progress.start_step(step, BATCH)
    progress.end_step(step, {name: jnp.float32(value) for name, value in metrics.items()})


def test_a_run_is_never_far_ahead_of_its_devices(tmp_path):
    """Else one that is asked to stop would first have to make all steps that are queued."""

    @jax.jit
    def step(x):
        return jax.lax.fori_loop(0, 50, lambda _, x: jnp.tanh(x @ x), x)

    x, steps = jnp.eye(500), []
    progress = make_progress(tmp_path, 0, 12)
    for number in range(12):
        x = step(x)
        steps.append(x[0, 0])
        progress.start_step(number, BATCH)
        progress.end_step(number, {'loss': steps[-1], 'grad_norm': steps[-1]})
        left = sum(not made.is_ready() for made in steps)
        assert left <= progress_lib.QUEUED_STEPS
    progress.close()


@pytest.mark.parametrize('start', [0, 2])
def test_what_a_run_reports_again_is_not_there_twice(tmp_path, start):
    for begin, end in ((0, 4), (start, 3)):
        with make_progress(tmp_path, begin, 4) as progress:
            for step in range(begin, end):
                take(progress, step, loss=end, grad_norm=1)
                progress.report(step + 1)
        time.sleep(1 if end == 4 else 0)  # files are named after the second
    assert scalars(tmp_path)['loss'] == {step: 4.0 if step <= start else 3.0 for step in (1, 2, 3)}


def test_means_of_a_window_are_told_and_where_its_time_went(tmp_path, clock):
    progress = make_progress(tmp_path, 0, 10)
    for step in range(4):
        spend(progress, clock, 'data', 0.25)
        take(progress, step, loss=step, grad_norm=1)
        clock.now += 1.75
    assert progress.report(4) == {'loss': 1.5, 'grad_norm': 1.0}
    spend(progress, clock, 'checkpoint', 3.0)
    for step in range(4, 6):
        spend(progress, clock, 'data', 0.5)
        take(progress, step, loss=step, grad_norm=1)
        clock.now += 0.5
    assert progress.report(6) == {'loss': 4.5, 'grad_norm': 1.0}
    progress.close()
    told = scalars(tmp_path)
    assert told['step_seconds'] == {4: 2.0, 6: 1.0} and told['data_seconds'] == {4: 0.25, 6: 0.5}
    assert told['checkpoint_seconds'] == {4: 0.0, 6: 3.0}
    assert told['steps_per_second'] == pytest.approx({4: 0.5, 6: 0.4})
    assert told['sequences_per_second'] == pytest.approx({4: 4.0, 6: 3.2})
    rates = {4: COUNTED * 4 / 8, 6: COUNTED * 2 / 5}
    expected = {step: rate / 1e12 / DEVICES for step, rate in rates.items()}
    assert told['tflops_per_device'] == pytest.approx(expected)
    assert 'mfu' not in told and 'device_memory_gib' not in told


def test_a_device_is_measured_against_its_peak_and_memory(tmp_path, clock, monkeypatch):
    device = lambda used: types.SimpleNamespace(
        device_kind='TPU v4', memory_stats=lambda: {'peak_bytes_in_use': used}
    )
    monkeypatch.setattr(jax, 'devices', lambda: [device(2**30), device(3 * 2**30)])
    monkeypatch.setattr(jax, 'local_devices', jax.devices)
    progress = make_progress(tmp_path, 0, 10)
    take(progress, 0, loss=1, grad_norm=1)
    clock.now += 0.5
    progress.report(1)
    progress.close()
    told = scalars(tmp_path)
    assert told['mfu'][1] == pytest.approx(COUNTED / 0.5 / DEVICES / 275e12)
    assert told['device_memory_gib'] == {1: 3.0}


def test_chosen_steps_are_traced(tmp_path):
    progress = make_progress(tmp_path, 0, 5, profile_steps=(2, 3))
    double = jax.jit(lambda x: 2 * x)
    for step in range(5):
        progress.start_step(step, BATCH)
        assert bool(list(tmp_path.rglob('*.xplane.pb'))) == (step > 2)
        progress.end_step(step, {'loss': double(1.0), 'grad_norm': double(1.0)})
    progress.close()
    assert len(list((tmp_path / 'profile').rglob('*.xplane.pb'))) == 1


@pytest.fixture
def full_disk(monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'fsync', fsync)


def test_a_full_disk_is_told_with_the_folder(tmp_path, full_disk):
    said = f'No space left on device.*{tmp_path}'
    with pytest.raises(OSError, match=said), make_progress(tmp_path, 0, 100) as progress:
        for step in range(100):
            progress.write(step, {f'metric {i}': 1.0 for i in range(10)})


def test_an_error_of_the_run_is_not_hidden_by_that_of_closing(tmp_path, full_disk, capfd):
    with pytest.raises(ZeroDivisionError), make_progress(tmp_path, 0, 100):
        1 / 0  # noqa: B018
    assert capfd.readouterr().err == ''
