"""The scripts for a Cloud TPU, with a stand-in for gcloud whose workers are folders."""

import contextlib
import os
import shutil
import signal
import subprocess

import pytest

from stand_in_hosts import FLAGS, Host


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


TPU = dict(TPU_NAME='my-tpu', PROJECT='a-project', ZONE='us-west4-a', TPU_TYPE='v5litepod-16')
# GRACE is in fifths of a second, see `Host`.
TPU |= dict(RUNTIME_VERSION='v2-alpha-tpuv5-lite', POLL='1', GRACE='25')
PLACE = ['--project=a-project', '--zone=us-west4-a']
VM = ['gcloud', 'compute', 'tpus', 'tpu-vm']
QUEUE = ['gcloud', 'compute', 'tpus', 'queued-resources']


@pytest.fixture
def tpu_host(host):
    """A host whose checkout is a git repository with one commit, in `commit`."""
    if not shutil.which('git'):
        pytest.skip('no git on PATH')
    user = ['-c', 'user.name=a', '-c', 'user.email=a@example.org']
    host.git = lambda *command: subprocess.check_output(
        ['git', '-C', str(host.root), *user, *command], text=True
    ).strip()
    for command in (['init', '-q'], ['add', '-A'], ['commit', '-q', '-m', 'first']):
        host.git(*command)
    host.commit = host.git('rev-parse', 'HEAD')
    host.tpu = lambda script, *arguments, **given: host(script, *arguments, **{**TPU, **given})
    yield host
    for job in host.fake.glob('workers/*/opql_jax_jobs/current'):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job.read_text().split()[1]), signal.SIGKILL)


def test_what_is_asked_wrongly_is_named(host):
    for script, arguments, complaint in (
        ('setup_tpu.sh', ('--spot',), 'unknown argument --spot'),
        ('run_tpu.sh', ('--stop', 'train'), '--stop takes no binary'),
        ('run_tpu.sh', ('--stop', '--logs'), '--stop and --logs together'),
    ):
        code, output = host(script, *arguments, **TPU)
        assert code == 1 and complaint in output, (script, arguments, output)
    for script in (('setup_tpu.sh',), ('run_tpu.sh', 'train')):
        for name in ('TPU_NAME', 'PROJECT', 'ZONE', 'TPU_TYPE', 'RUNTIME_VERSION'):
            others = {key: value for key, value in TPU.items() if key != name}
            code, output = host(*script, **others)
            assert code == 1 and f'{name} is not set; for example: {name}=' in output
    assert not list(host.fake.iterdir())


def test_a_tpu_is_made_of_the_type_and_with_the_options_that_are_given(tpu_host):
    made = tpu_host.commands('setup_tpu.sh', '--dry_run', **TPU)
    kind = ['--accelerator-type=v5litepod-16', '--version=v2-alpha-tpuv5-lite']
    assert [*VM, 'create', 'my-tpu', *PLACE, *kind, '--quiet'] in made
    options = {'SPOT': '1', 'NETWORK': 'net', 'SUBNETWORK': 'sub'}
    options |= {'WORKER_SETUP': 'mount /mnt/runs', 'CONNECT_FLAGS': '--internal-ip'}
    options['CREATE_FLAGS'] = '--internal-ips  --labels=team=kb'
    made = tpu_host.commands('setup_tpu.sh', '--queued', '--dry_run', **TPU, **options)
    given = (
        '--accelerator-type=v5litepod-16 --spot --network=net --subnetwork=sub --internal-ips '
        '--labels=team=kb --runtime-version=v2-alpha-tpuv5-lite --quiet'
    ).split()
    assert [*QUEUE, 'create', 'my-tpu', '--node-id=my-tpu', *PLACE, *given] in made
    reached = ['--internal-ip', '--worker=all', '--quiet', '--command=mount /mnt/runs']
    assert made[-1] == [*VM, 'ssh', 'my-tpu', *PLACE, *reached]


def test_slices_run_one_job_together_and_are_made_again_together(tpu_host):
    variables = {'SLICES': '2', 'WORKERS': '1'}
    assert tpu_host.tpu('setup_tpu.sh', SLICES='two')[0] == 1
    code, output = tpu_host.tpu('setup_tpu.sh', **variables)
    assert code == 0, output
    (tpu_host.fake / 'preempt').touch()
    (tpu_host.root / 'edited_meanwhile.py').touch()
    command = ['--all_logs', 'XLA_FLAGS=--a=b c', 'train', *FLAGS]
    code, output = tpu_host.tpu('run_tpu.sh', *command, CODES='waits 0', **variables)
    said = 'train: the TPU was preempted; starting it again (1 of at most 100)'
    assert code == 0 and said in output, output
    assert {'w-0: attempt 1', 'w-1: attempt 1'} <= set(output.splitlines()), output
    kinds = [(call[2], call[3]) for call in tpu_host.calls('create', 'delete')]
    assert kinds == [('queued-resources', verb) for verb in ('create', 'delete', 'create')]
    for i in (0, 1):
        (_, (binary, given, folder)) = tpu_host.started(i)
        home = tpu_host.fake / 'workers' / f'w-{i}' / 'opql_jax'
        assert (binary, folder) == (['opql_jax.train', *FLAGS], str(home))
        assert given == {'OPQL_DISTRIBUTED': '1', 'XLA_FLAGS': '--a=b c'}
        assert (home / '.commit').read_text() == tpu_host.commit + '\n'
    # One slice that is gone is not all that there is.
    (tpu_host.fake / 'state').write_text('READY\nPREEMPTED')
    code, output = tpu_host.tpu('run_tpu.sh', '--detach', 'train', CODES='0 0 0', **variables)
    assert code == 1 and 'my-tpu is PREEMPTED' in output


def test_a_tpu_is_made_once_and_gets_what_is_committed(tpu_host):
    code, output = tpu_host.tpu('setup_tpu.sh', WORKER_SETUP='pwd >mounted')
    assert code == 0, output
    homes = [tpu_host.fake / 'workers' / f'w-{i}' for i in (0, 1)]
    for home in homes:
        assert (home / 'opql_jax' / '.commit').read_text() == tpu_host.commit + '\n'
        assert (home / 'opql_jax' / 'launch' / 'tpu.sh').exists()
        assert (home / 'opql_jax' / '.venv' / '.installed-tpu,gcs').exists()
        assert (home / 'mounted').read_text() == f'{home}\n'
        (home / 'opql_jax' / 'left_over.py').touch()
        (home / 'opql_jax' / 'runs').mkdir()
    assert tpu_host.tpu('setup_tpu.sh')[0] == 0 and len(tpu_host.calls('create')) == 1
    for home in homes:
        assert not (home / 'opql_jax' / 'left_over.py').exists()
        assert (home / 'opql_jax' / 'runs').exists()
    (tpu_host.root / 'new.py').touch()
    code, output = tpu_host.tpu('setup_tpu.sh')
    assert code == 1 and 'there are uncommitted changes' in output
    assert tpu_host.tpu('setup_tpu.sh', COMMIT='HEAD')[0] == 0
    assert not (homes[0] / 'opql_jax' / 'new.py').exists()


def test_code_75_of_any_worker_starts_all_again_and_any_other_code_is_passed_on(tpu_host):
    assert tpu_host.tpu('setup_tpu.sh')[0] == 0
    code, output = tpu_host.tpu('run_tpu.sh', 'train', CODES_0='waits 0', CODES_1='75 0', POLL='0')
    assert code == 0 and 'train: it was interrupted; starting it again (1 of at most 100)' in output
    assert [len(tpu_host.started(i)) for i in (0, 1)] == [2, 2]
    # A worker that fails leaves the other waiting for it.
    codes = {'CODES_0': '0 0 waits', 'CODES_1': '0 0 3'}
    code, output = tpu_host.tpu('run_tpu.sh', 'train', **codes, POLL='0')
    assert code == 3 and 'train ended with code 3' in output
    logs = sorted((tpu_host.fake / 'workers' / 'w-0' / 'opql_jax_jobs').glob('*.log'))
    texts = ['attempt 0\nsaved\n', 'attempt 1\n', 'attempt 2\nsaved\n']
    assert [log.read_text() for log in logs] == texts
    assert tpu_host.tpu('run_tpu.sh', 'train', CODES='0 0 0 75 75 0', MAX_RESTARTS='1')[0] == 75
    assert len(tpu_host.started()) == 5


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
    assert shown.returncode == 1
    assert output.splitlines() == ['saved', '[opql_jax] error: the job was stopped with --stop']

    tpu_host.git('commit', '-q', '--allow-empty', '-m', 'second')
    code, output = tpu_host.tpu('run_tpu.sh', 'train')
    assert code == 1 and f'the TPU has commit {tpu_host.commit}' in output
    assert tpu_host.tpu('run_tpu.sh', '--delete')[0] == 0 and len(tpu_host.calls('delete')) == 1
    code, output = tpu_host.tpu('run_tpu.sh', '--delete')
    assert code == 1 and 'there is no TPU my-tpu' in output
