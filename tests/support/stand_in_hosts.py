"""Stand-ins for the machines that launch/ starts binaries on.

The interpreter notes what it was started with, and ends as CODES tells: a word for each start, a
code, or `waits` and `deaf` for a process that runs until it is asked to stop, and one that does not
heed that. gcloud keeps workers as folders, and loses them where there is a file `preempt`.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import records

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = [
    '--gin_file=gin/runs/eval.gin',
    '--gin.QUESTIONS=(\'2-hop/dev\', "a $HOME\\b",)',
    '--gin.SHOW=*',
    '',
]

INTERPRETER = """#!{python} -SE
import json, os, pathlib, shutil, signal, sys, time
if sys.argv[1:4] == ['-m', 'pip', 'install']:
    with open(pathlib.Path(sys.argv[0]).parents[1] / 'installs', 'a') as file:
        file.write(json.dumps(sys.argv[4:]) + '\\n')
    sys.exit()
if '--version' in sys.argv or '-c' in sys.argv:
    sys.exit()
if sys.argv[1:3] == ['-m', 'venv']:
    (folder := pathlib.Path(sys.argv[-1], 'bin')).mkdir(parents=True)
    shutil.copy(__file__, folder / 'python')
    sys.exit()
number = os.environ.get('OPQL_PROCESS') or os.environ.get('WORKER', '0')
log = pathlib.Path(os.environ['FAKE'], 'started-' + number)
attempt = len(log.read_text().splitlines()) if log.exists() else 0
kept = lambda name: name.startswith('OPQL_') or name in ('XLA_FLAGS', 'JAX_PLATFORMS')
given = {{name: value for name, value in os.environ.items() if kept(name)}}
print('attempt', attempt, flush=True)
code = os.environ.get('CODES_' + number, os.environ.get('CODES', '0')).split()[attempt]
signal.signal(signal.SIGTERM, signal.SIG_IGN if code == 'deaf' else lambda *_: (print('saved', flush=True), sys.exit(75)))
with open(log, 'a') as file:
    file.write(json.dumps([sys.argv[2:], given, os.getcwd()]) + '\\n')
if code in ('deaf', 'waits'):
    time.sleep(60)
sys.exit(int(code))
"""  # noqa: E501

GCLOUD = """#!{python} -SE
import glob, json, os, pathlib, shutil, signal, subprocess, sys
fake = pathlib.Path(os.environ['FAKE'])
with open(fake / 'calls', 'a') as file:
    file.write(json.dumps(sys.argv[1:]) + '\\n')
kind, verb, *rest = sys.argv[3:]
flags = dict(a[2:].partition('=')[::2] for a in rest if a.startswith('--'))
names = [a for a in rest if not a.startswith('--')]
state, queue, workers = fake / 'state', fake / 'queue', fake / 'workers'
def homes_of(node):
    homes, slices = sorted(workers.iterdir()), len(state.read_text().splitlines())
    share, number = len(homes) // slices, int(node.rpartition('-')[2]) if slices > 1 else 0
    return homes[number * share:(number + 1) * share]
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
    slices = int(flags.get('node-count', '1'))
    state.write_text('\\n'.join(['READY'] * slices))
    if kind == 'queued-resources':
        queue.write_text('ACTIVE')
    for worker in range(slices * int(os.environ.get('WORKERS', '2'))):
        (workers / f'w-{{worker}}').mkdir(parents=True)
elif verb == 'delete':
    for path in (state, queue):
        path.unlink(missing_ok=True)
    shutil.rmtree(workers, ignore_errors=True)
elif verb == 'scp':
    node, _, name = names[1].partition(':')
    for home in homes_of(node):
        shutil.copy(names[0], home / name)
elif verb == 'ssh':
    if 'READY' not in state.read_text():
        sys.exit('not ready')
    homes = homes_of(names[0])
    homes = homes if flags['worker'] == 'all' else [homes[int(flags['worker'])]]
    remote = ' '.join(flags['command'].split(' '))  # as gcloud and ssh do
    run = lambda home: subprocess.Popen(
        ['bash', '-c', remote], cwd=home, env={{**os.environ, 'HOME': str(home), 'WORKER': home.name[2:]}})
    codes = [process.wait() for process in [run(home) for home in homes]]
    sys.exit(next(filter(None, codes), 0))
else:
    sys.exit(2)
"""  # noqa: E501


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
        sleep = f'#!/bin/sh\nexec {shutil.which("sleep")} 0.$(($1 * 2))\n'
        self.stand_in(self.bin / 'sleep', sleep)
        ours = 'OPQL_ TPU_ SLURM_ XLA_FLAGS JAX_PLATFORMS NODES NODE_RANK COORDINATOR'.split()
        others = {k: v for k, v in os.environ.items() if not k.startswith(tuple(ours))}
        path = f'{self.bin}:{os.environ["PATH"]}'
        self.environment = {**others, 'PATH': path, 'FAKE': str(self.fake)}

    def stand_in(self, path, text):
        is_python = text.startswith('#!{python}')
        path.write_text(text.format(python=sys.executable) if is_python else text)
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
        """[binary and flags, environment, folder] of each start of a process or worker."""
        log = self.fake / f'started-{number}'
        return records.read(log) if log.exists() else []

    def installs(self):
        """What pip was told to install, each time, into the environment."""
        return records.read(self.root / '.venv' / 'installs')

    def calls(self, *verbs):
        """What gcloud was called with, of these verbs."""
        return [call for call in records.read(self.fake / 'calls') if call[3] in verbs]
