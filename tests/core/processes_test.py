"""A function over items in several processes, and a program in several: who may write."""

import os
import pathlib
import subprocess
import sys
import time

import pytest

from opql_jax.core import distributed, locks
from opql_jax.core.errors import InputError
from opql_jax.core.processes import LimitedProcess, map_ordered


def of_process(number):
    if number < 0:
        raise ValueError(f'{number} is below 0')
    return number * number, os.getpid()


def test_several_keep_the_order_and_take_only_a_few_items_ahead():
    taken = []
    found = map_ordered(of_process, (taken.append(n) or n for n in range(50)), 2)
    first = next(found)
    assert first[0] == 0 and first[1] != os.getpid() and len(taken) < 8
    assert [square for square, _ in found] == [n * n for n in range(1, 50)]


def test_an_error_of_an_item_comes_in_its_place():
    found = map_ordered(of_process, [1, 2, -3, 4], 2)
    assert [next(found)[0] for _ in range(2)] == [1, 4]
    with pytest.raises(ValueError, match='-3 is below 0'):
        next(found)
    assert list(map_ordered(of_process, [3], 2)) == [(9, os.getpid())]  # alone, by this process


@pytest.mark.parametrize('of_file', [True, False], ids=['a script', 'standard input'])
def test_a_program_that_does_all_at_its_top_level_is_run_once(of_file, tmp_path):
    program = (
        "from opql_jax.core.processes import map_ordered\nprint('begins')\n"
        'print([*map_ordered(abs, [-1, -2, -3], 2)])\n'
    )
    (tmp_path / 'script.py').write_text(program)
    command = [sys.executable, tmp_path / 'script.py'] if of_file else [sys.executable, '-']
    environment = os.environ | {'PYTHONPATH': str(pathlib.Path(__file__).parents[2])}
    options = {'input': None if of_file else program, 'timeout': 120, 'env': environment}
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    assert (ran.stdout, ran.stderr, ran.returncode) == ('begins\n[1, 2, 3]\n', '', 0)


def fill_memory(mib):
    return len(bytes(mib << 20))


def use_time(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return 'done'


def test_what_takes_more_than_it_may_is_an_error_and_the_next_call_is_answered():
    with LimitedProcess(memory=200 << 20) as process:
        for function, argument, reason in [
            (fill_memory, 400, 'more than 200 MiB of memory'),
            (use_time, 60, 'more than 1 s of CPU time'),
            (os._exit, 3, 'its process ended with 3'),
        ]:
            with pytest.raises(InputError, match=f'^cannot be read within limits: {reason}$'):
                process.call(function, argument, seconds=1)
            assert process.call(fill_memory, 1, seconds=1) == 1 << 20
        with pytest.raises(ValueError, match='^-1 is below 0$'):
            process.call(of_process, -1, seconds=1)


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
