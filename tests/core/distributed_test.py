"""A program in several processes, as one sees it; real ones: several_processes_test.py."""

import pytest

from opql_jax.core import distributed, locks
from opql_jax.core.errors import InputError


def test_all_processes_are_told_that_another_program_writes_the_folder(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(distributed, 'process_count', lambda: 2)
    monkeypatch.setattr(distributed, 'broadcast', lambda number: told.append(number) or told[0])
    with locks.writer(tmp_path):
        messages = 'is being written by process', 'is not locked: the log of process 0 says why'
        for index, message in enumerate(messages):
            monkeypatch.setattr(distributed, 'process_index', lambda index=index: index)
            refused = pytest.raises(InputError, match=f'{tmp_path} {message}')
            with refused, distributed.writer(tmp_path):
                pass
    assert told == [True, False]


def test_process_0_holds_the_lock_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, 'process_count', lambda: 2)
    monkeypatch.setattr(distributed, 'broadcast', lambda number: 0)
    for index in (0, 1):
        monkeypatch.setattr(distributed, 'process_index', lambda index=index: index)
        with distributed.writer(tmp_path):
            assert [path.name for path in tmp_path.iterdir()] == ['.lock'] * (index == 0)
