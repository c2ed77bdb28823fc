"""Event files are read back as they were written, and a full disk is told, not waited for."""

import errno
import os

import pytest

from opql_jax.training.progress import Progress
from opql_jax.training.trainer import TrainConfig

import tiny_training


@pytest.fixture
def full_disk(monkeypatch):
    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'fsync', fsync)


def make_progress(folder):
    config = TrainConfig('', str(folder), 100)
    return Progress(config, tiny_training.encoder(vocab_size=100), 0, 1)


def test_a_full_disk_is_told_with_the_folder(tmp_path, full_disk):
    said = f'No space left on device.*{tmp_path}'
    with pytest.raises(OSError, match=said), make_progress(tmp_path) as progress:
        for step in range(100):
            progress.write(step, {f'metric {i}': 1.0 for i in range(10)})


def test_an_error_of_the_run_is_not_hidden_by_that_of_closing(tmp_path, full_disk, capfd):
    with pytest.raises(ZeroDivisionError), make_progress(tmp_path):
        1 / 0  # noqa: B018
    assert capfd.readouterr().err == ''
