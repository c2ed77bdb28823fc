"""Several processes that meet on the loopback train what one process trains."""

import functools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

import numpy as np
import pytest

from opql_jax.core.errors import Preempted
from opql_jax.training import objectives

import tiny_training
from tiny_training import PLAIN

TESTS = pathlib.Path(__file__).parents[1]
SCRIPT = TESTS / 'support' / 'train_in_processes.py'
# What CI tries in two processes, and `-m slow` in four: a process compiles for itself.
STAGES = {2: ('memory', 'eval', 'relations', 'follow'), 4: ('relations', 'slices')}


@pytest.fixture(scope='module')
def inputs(tmp_path_factory):
    """(prepared folder, a model, its memory); beside them a follower."""
    root = tmp_path_factory.mktemp('inputs')
    prepared = tiny_training.write_prepared(root / 'prepared')
    tiny_training.write_untrained(prepared, root / 'model')
    memory = tiny_training.write_memory(prepared, root / 'model', root / 'memory')
    following = objectives.Follow(memory_dir=str(memory))
    tiny_training.write_untrained(prepared, root / 'follower', following)
    return prepared, root / 'model', memory


def start(processes, devices, *command):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    flags = f'{os.environ.get("XLA_FLAGS", "")} --xla_force_host_platform_device_count={devices}'
    given = os.environ | {'XLA_FLAGS': flags, 'JAX_PLATFORMS': 'cpu'}
    given |= {'PYTHONPATH': str(TESTS.parent)}
    if processes > 1:
        given |= {'OPQL_COORDINATOR': f'127.0.0.1:{port}', 'OPQL_PROCESSES': str(processes)}
    command, running = [sys.executable, *map(str, command)], []
    for i in range(processes):
        env = given | ({'OPQL_PROCESS': str(i)} if processes > 1 else {})
        running.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True))
    return running


def finish(running):
    said = [process.communicate(timeout=900)[1] for process in running]
    return [process.returncode for process in running], said


@pytest.fixture(scope='module')
def trained(inputs, tmp_path_factory):
    """The folders of one process and of several, of four devices in all, that ran stages, once."""

    @functools.cache
    def train(processes, stages):
        folder = tmp_path_factory.mktemp(f'of-{processes}')
        command = (SCRIPT, *inputs, folder, *stages)
        codes, said = finish(start(processes, 4 // processes, *command))
        assert not any(codes), said[0][-3000:]
        return folder

    return lambda processes: [train(number, STAGES[processes]) for number in (1, processes)]


def content(folder, pattern='*'):
    files = (path for path in folder.rglob(pattern) if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    ('processes', 'stage'),
    [(2, 'relations'), (2, 'follow')]
    + [pytest.param(4, stage, marks=pytest.mark.slow) for stage in STAGES[4]],
)
def test_several_processes_train_what_one_trains(inputs, trained, processes, stage):
    folders = trained(processes)
    one, several = (json.loads((folder / 'metrics.json').read_text())[stage] for folder in folders)
    assert several == pytest.approx(one, rel=1e-4)
    before = tiny_training.params_of(inputs[1])
    expected, found = (tiny_training.params_of(folder / stage) for folder in folders)
    assert expected.keys() == found.keys()
    assert any(not np.array_equal(expected[name], before[name]) for name in before)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_each_process_writes_the_parts_that_it_holds(trained):
    """Each of two processes hashes the rows of E on its two devices, and their moments."""
    folder = trained(2)[1] / 'relations/checkpoints/3/digests'
    assert sorted(path.name for path in folder.glob('*.json')) == ['0.json', '1.json']
    for name in ('0.json', '1.json'):
        rows = [row for row in json.loads((folder / name).read_text()) if 'entity_table' in row[1]]
        assert [row[0] for row in rows] == ['params'] * 2 + ['opt_state'] * 2


def test_processes_encode_the_bytes_that_one_encodes(trained):
    folders = trained(2)
    one, two = (content(folder / 'memory') for folder in folders)
    shards = sum(path.name.startswith('relations-') for path in one)
    assert one == two and shards > 3
    encoded = [int((folders[1] / f'encoded-memory-{i}').read_text()) for i in (0, 1)]
    assert sum(encoded) == shards and min(encoded) == shards // 2


def test_processes_answer_and_score_as_one_does(trained):
    one, two = (content(folder / 'eval') for folder in trained(2))
    assert one == two
    for hops in (1, 2):
        written = one[pathlib.Path(f'{hops}-hop/train.predictions.jsonl')]
        assert len(written.splitlines()) > 4


@pytest.mark.parametrize('processes', [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_run_goes_on_with_another_number_of_processes(inputs, trained, tmp_path, processes):
    """And of devices; what it gives is what one process gives that was not stopped."""
    folder = shutil.copytree(trained(processes)[1] / 'relations', tmp_path / 'relations')
    goes_on = dict(num_steps=4, init_from=inputs[1], **PLAIN)
    several = tiny_training.run(inputs[0], folder, objectives.Relations(rows=16), **goes_on)
    alone = tiny_training.run(inputs[0], tmp_path / 'a', objectives.Relations(rows=16), **goes_on)
    assert several == pytest.approx(alone, rel=1e-4)


def test_processes_stop_at_the_same_step_when_one_is_asked_to(inputs, tmp_path):
    codes, said = finish(start(2, 2, SCRIPT, *inputs, tmp_path, 'stopped'))
    assert codes == [Preempted.CODE] * 2, said[0][-3000:]
    (step,) = (int(path.name) for path in (tmp_path / 'stopped/checkpoints').iterdir())
    assert 3 <= step < 100
    stage = objectives.Relations(rows=16)
    goes_on = dict(num_steps=step + 1, init_from=inputs[1], **PLAIN)
    tiny_training.run(inputs[0], tmp_path / 'stopped', stage, **goes_on)
