"""A recipe that gets a signal passes it on to its step, waits for it, and ends as it; run again, it
goes on.
"""

import os
import signal
import subprocess
import sys

import pytest

from opql_jax.recipes import record

# A recipe of a binary and a function. At `sys.argv[2]` it gets the signal `sys.argv[1]`; in the
# file `sys.argv[3]` it keeps the number of the process of its step.
RECIPE = """
import os, pathlib, subprocess, sys, types
from opql_jax.core import preemption
if __name__ == '__main__':
    preemption.exit_on_signals()
    from opql_jax.recipes import __main__, catalog
    from opql_jax.recipes.recipe import Function, Output, Recipe, prepare
    (number, moment, child), sys.argv[1:] = sys.argv[1:4], sys.argv[4:]
    kill = lambda: os.kill(os.getpid(), int(number))

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            pathlib.Path(child).write_text(str(self.pid))
            if moment == 'started':
                kill()

        def wait(self, *arguments):
            status = super().wait(*arguments)
            if moment == 'ended':
                kill()
                while preemption._status_of_passed == 0:
                    pass
            return status

    preemption.subprocess = types.SimpleNamespace(Popen=Popen)
    last = Function('last', pathlib.Path.touch, {'self': Output('last')}, 'last')
    settings = {'DOCUMENTS': 60, 'prepare.prepare.wordpieces': 300}
    catalog.RECIPES['two'] = Recipe('two', '', lambda options: [prepare('text', 'gin/data/synthetic.gin', **settings), last])
    __main__.main()
"""  # noqa: E501


def run(tmp_path, number, moment):
    (tmp_path / 'recipe.py').write_text(RECIPE)
    child = tmp_path / 'child'
    command = [tmp_path / 'recipe.py', str(int(number)), moment, child]
    command += ['run', 'two', '--out', tmp_path / 'out']
    environment = os.environ | {'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(record.ROOT)}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=tmp_path,
    )
    return done, int(child.read_text()) if child.exists() else None


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ('number', 'moment', 'status', 'words'),
    [
        (signal.SIGTERM, 'started', 75, 'asked to stop: run the same command again'),
        (signal.SIGINT, 'ended', 130, 'interrupted'),
    ],
    ids=['SIGTERM', 'SIGINT'],
)
def test_a_signal_to_the_recipe_alone_ends_its_step_and_then_the_recipe(
    tmp_path, number, moment, status, words
):
    done, child = run(tmp_path, number, moment)
    assert done.returncode == status and 'Traceback' not in done.stderr, done.stderr
    assert words in done.stderr or moment == 'ended'
    assert not is_running(child) and not (tmp_path / 'out' / 'last').exists()
    assert (tmp_path / 'out' / 'text' / 'manifest.json').exists() == (moment == 'ended')
    again, _ = run(tmp_path, number, 'never')
    assert again.returncode == 0 and (tmp_path / 'out' / 'last').exists(), again.stderr
    assert ('text: done before' in again.stderr) == (moment == 'ended')
