"""Gin at the edge: what a flag means, and what is refused."""

import os
import subprocess
import sys

import pytest

from opql_jax import gin_utils
from opql_jax.data.prepare import prepare

from examples import table
from forked_binaries import ROOT

pytestmark = pytest.mark.usefixtures('fresh_gin')


def bindings(*flags):
    """What `--gin.X=Y` flags become, as the values of --gin_bindings."""
    rewritten = gin_utils.rewrite_gin_args(list(flags))
    return [flag.removeprefix('--gin_bindings=') for flag in rewritten]


@table("""
    flag | binding
    --gin.DIR=runs/x | DIR='runs/x'
    --gin.QUOTE=it's | QUOTE="it's"
    --gin.RATE=3e-4 | RATE=3e-4
    --gin.SPLITS=('1-hop/dev', '2-hop/dev') | SPLITS=('1-hop/dev', '2-hop/dev')
    --gin.SEED=%OTHER | SEED=%OTHER
    --gin.train.stage=@objectives.Align() | train.stage=@objectives.Align()
""")
def test_a_value_that_is_no_literal_and_no_reference_is_a_string(flag, binding):
    assert bindings(flag) == [binding]


def test_files_of_the_repository_are_found_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    gin_utils.configure(['gin/data/synthetic.gin'], bindings('--gin.KB=x'), prepare)(dry_run=True)
    assert 'Synthetic' in capsys.readouterr().out


def test_a_binary_of_one_process_refuses_to_be_one_of_several_before_anything_is_written(tmp_path):
    command = [sys.executable, '-m', 'opql_jax.prepare', '--gin_file=gin/data/synthetic.gin']
    command += [f'--gin.KB={tmp_path / "new"}']
    refused = {
        'OPQL_PROCESSES': 'prepare works in one process',
        'OPQL_DISTRIBUTED': 'OPQL_DISTRIBUTED=1, and JAX does not find',
    }
    for (variable, said), value in zip(refused.items(), '21'):
        where = {'cwd': ROOT, 'env': os.environ | {variable: value}}
        done = subprocess.run(command, capture_output=True, text=True, **where)
        assert done.returncode == 1 and f'error: {said}' in done.stderr
        assert not (tmp_path / 'new').exists()
