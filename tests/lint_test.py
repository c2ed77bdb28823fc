"""Static checks of the repository, with the settings of pyproject.toml: ruff and mypy."""

import subprocess
import sys

import pytest

from forked_binaries import ROOT


@pytest.mark.parametrize('command', ['ruff check', 'ruff format --check', 'mypy'])
def test_nothing_is_found_by(command):
    arguments = [sys.executable, '-m', *command.split()]
    run = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
