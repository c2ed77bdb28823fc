"""The scripts for GPU machines and Slurm, with stand-ins for the hardware and the scheduler."""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from stand_in_hosts import FLAGS, ROOT, Host

GPU = {'JAX_PLATFORMS': 'cuda,cpu'}


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    host.stand_in(host.bin / 'nvidia-smi', '#!/bin/sh\n')
    return host


def test_code_75_starts_the_same_command_again_so_often_and_another_is_passed_on(host):
    code, output = host('run_gpu.sh', 'train', *FLAGS, CODES='75 75 0')
    assert code == 0
    assert host.started() == [[['opql_jax.train', *FLAGS], GPU, os.getcwd()]] * 3
    assert '[opql_jax] train was preempted: running it again (2 of at most 100)' in output
    assert host('run_gpu.sh', 'train', CODES='0 0 0 75 75', MAX_RESTARTS='1')[0] == 75
    assert host('run_gpu.sh', 'eval', CODES='0 0 0 0 0 3')[0] == 3
    assert len(host.started()) == 6


def test_stopped_from_outside_the_process_saves_and_nothing_starts_again(host):
    process = host.start('run_gpu.sh', 'train', CODES='waits 0')
    wait_for(host.started)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 75 and output.count('saved') == 1 and len(host.started()) == 1


def wait_for(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError('not in 30 seconds')


def test_what_is_asked_wrongly_is_named(host):
    second = {'NODES': '2', 'NODE_RANK': '1'}
    third = {'NODES': '2', 'NODE_RANK': '2', 'COORDINATOR': 'h:1'}
    for arguments, variables, complaint in (
        ((), {}, 'name a binary; usage: launch/run_gpu.sh'),
        (('train',), {'MAX_RESTARTS': 'x'}, 'MAX_RESTARTS=x is not a whole number'),
        (('train',), {'NODES': '2'}, 'NODE_RANK is not set; for example: NODE_RANK=0'),
        (('train',), second, 'COORDINATOR is not set; for example: COORDINATOR=node'),
        (('train',), third, 'NODE_RANK=2 is not a number from 0 to 1'),
    ):
        code, output = host('run_gpu.sh', *arguments, **variables)
        assert code == 1 and complaint in output, (arguments, output)
    host.stand_in(host.bin / 'nvidia-smi', '#!/bin/sh\nexit 6\n')
    code, output = host('run_gpu.sh', 'train')
    assert code == 1 and 'nvidia-smi finds no GPU; on a CPU run the binary itself' in output
    assert not list(host.fake.iterdir())


def test_there_is_one_process_for_each_machine(host):
    nodes = {'NODES': '4', 'NODE_RANK': '3', 'COORDINATOR': 'node-0:1234'}
    meeting = {'OPQL_COORDINATOR': 'node-0:1234', 'OPQL_PROCESSES': '4', 'OPQL_PROCESS': '3'}
    variables = [f'{name}={value}' for name, value in (GPU | meeting).items()]
    setup, started = host.commands('run_gpu.sh', '--dry_run', 'train', *FLAGS, **nodes)
    command = [str(host.python), '-m', 'opql_jax.train', *FLAGS]
    assert setup == ['setup_env', 'cuda'] and started == ['env', *variables, *command]
    assert host('run_gpu.sh', 'train', *FLAGS, CODES_3='75 0', **nodes)[0] == 0
    runs = [(binary, given) for binary, given, _ in host.started(3)]
    assert runs == [(['opql_jax.train', *FLAGS], GPU | meeting)] * 2


SRUN = """#!/usr/bin/env bash
# Two tasks at once; the code is the highest.
[ "$1 $2" = '--kill-on-bad-exit=0 --label' ] || exit 99
shift 2
SLURM_PROCID=0 "$@" & first=$!
SLURM_PROCID=1 "$@" & second=$!
code=0
for task in $first $second; do wait $task || { this=$?; [ $this -le $code ] || code=$this; }; done
exit $code
"""
SCONTROL = """#!/usr/bin/env bash
if [ "$1" = show ]; then printf 'n7\\nn8\\n'; else printf '%s\\n' "$*" >>"$FAKE/requeued"; fi
"""


def test_under_slurm_nodes_meet_at_the_first_and_a_preempted_job_is_queued_again(host, tmp_path):
    for name, text in {'srun': SRUN, 'scontrol': SCONTROL}.items():
        host.stand_in(host.bin / name, text)
    job = {'SLURM_SUBMIT_DIR': str(host.root), 'SLURM_JOB_NODELIST': 'n[7-8]'}
    job |= {'SLURM_JOB_NUM_NODES': '2', 'SLURM_JOB_ID': '41'}
    copy = shutil.copy(host.root / 'launch' / 'slurm.sbatch', tmp_path / 'slurm_script')
    assert host(copy, 'train', *FLAGS, **job)[0] == 0
    for rank in (0, 1):
        ((binary, given, folder),) = host.started(rank)
        assert (binary, folder) == (['opql_jax.train', *FLAGS], str(host.root))
        meeting = {'OPQL_COORDINATOR': 'n7:20041', 'OPQL_PROCESSES': '2', 'OPQL_PROCESS': str(rank)}
        assert given == GPU | meeting
    assert host(copy, 'train', CODES='0 75', **job)[0] == 75
    assert (host.fake / 'requeued').read_text() == 'requeue 41\n' and len(host.started()) == 2
    most = {'MAX_RESTARTS': '2', 'SLURM_RESTART_COUNT': '2'}
    assert host(copy, 'train', CODES='0 0 75', **most, **job)[0] == 75
    assert host(copy, 'train', CODES='0 0 0 3', **job)[0] == 3
    assert (host.fake / 'requeued').read_text() == 'requeue 41\n'
    code, output = host(copy, **job)
    assert code == 1 and 'usage: sbatch launch/slurm.sbatch' in output


def test_shellcheck_has_no_complaint():
    shellcheck = pathlib.Path(sys.executable).parent / 'shellcheck'
    scripts = [*(ROOT / 'launch').glob('*.sh'), ROOT / 'launch' / 'slurm.sbatch', ROOT / '.ci/run']
    done = subprocess.run([shellcheck, '-x', *scripts], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
