"""`python -m opql_jax.verify` reads all files of all kinds of folders, and names what is wrong."""

import shutil
import subprocess
import sys

import pytest
from damage import flip

from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.verify import verify

import tiny_training


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    return tiny_training.write_world(tmp_path_factory.mktemp('whole'))


@pytest.fixture
def kb(whole, tmp_path):
    """A copy of the knowledge base, to be damaged."""
    return shutil.copytree(whole, tmp_path / 'kb')


PARTS = {'align': 'a model', 'follow': 'a model', 'memory': 'a memory of'}
PARTS |= {'text': 'a prepared folder of'}


def test_whole_folders_are_read_and_listed(kb):
    lines = []
    assert verify(kb, lines.append) == []
    first, *parts = lines
    assert first == f'{kb}: a knowledge base of text, follow, memory' and len(parts) == len(PARTS)
    for line, (part, said) in zip(parts, PARTS.items()):
        assert line.startswith(f'{kb / part}: {said}')
        assert verify(kb / part, lines.append) == [] and lines[-1] == line


def test_parts_that_a_knowledge_base_lacks_are_named(tmp_path):
    KBFolder(tmp_path).write(text='text', model='follow', memory=None)
    assert verify(tmp_path, print) == [
        f'{tmp_path} has no folder text, follow, which its manifest.json names'
    ]


def test_the_command_prints_what_it_read_and_exits_1_if_something_is_wrong(kb):
    prepared = kb / 'text'
    command = [sys.executable, '-m', 'opql_jax.verify', str(prepared)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f'{prepared}: a prepared folder' in done.stdout and 'all is as' in done.stdout
    flip(prepared / 'pairs.parquet')
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f'error: {prepared}/pairs.parquet: its sha256' in done.stderr
    assert '1 wrong' in done.stdout
