"""`python -m opql_jax.verify` reads all files of all kinds of folders, and names what is wrong."""

import shutil

from damage import flip

from opql_jax.data.kb_folder import KBFolder
from opql_jax.kb.verify import verify


def test_whole_folders_are_read_and_listed(world):
    lines = []
    assert verify(world, lines.append) == []
    first, *parts = lines
    assert first == f'{world}: a knowledge base of text, follow, memory'
    said = {'align': 'a model', 'follow': 'a model', 'memory': 'a memory of'}
    said['text'] = 'a prepared folder of'
    for line, part in zip(parts, said, strict=True):
        assert line.startswith(f'{world / part}: {said[part]}')
        assert verify(world / part, lines.append) == [] and lines[-1] == line


def test_parts_that_a_knowledge_base_lacks_are_named(tmp_path):
    KBFolder(tmp_path).write(text='text', model='follow', memory=None)
    (said,) = verify(tmp_path, print)
    assert said.startswith(f'{tmp_path} has no folder text, follow')


def test_the_command_prints_what_it_read_and_exits_1_if_some_is_wrong(world, tmp_path, binaries):
    prepared = shutil.copytree(world / 'text', tmp_path / 'text')
    done = binaries('verify', prepared)
    assert done.returncode == 0, done.stderr
    assert f'{prepared}: a prepared folder' in done.stdout and 'all is as' in done.stdout
    flip(prepared / 'pairs.parquet')
    done = binaries('verify', prepared)
    assert done.returncode == 1
    assert f'error: {prepared}/pairs.parquet: its sha256' in done.stderr
    assert '1 wrong' in done.stdout
