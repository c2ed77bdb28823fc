"""`python -m opql_jax.verify` reads all files of all kinds of folders, and names what is wrong."""

import json
import subprocess
import sys

import pytest
from damage import edit, flip, sign

from opql_jax.core.errors import InputError
from opql_jax.kb.verify import verify

import tiny_training


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """(prepared, follower, memory), side by side."""
    return tiny_training.write_world(tmp_path_factory.mktemp('kb'))


def test_whole_folders_are_read_and_listed(folders):
    prepared, follower, memory = folders
    for folder, said in ((prepared, 'a prepared folder of'), (memory, 'a memory of'), (follower, 'a model')):
        lines = []
        assert verify(folder, lines.append) == []
        assert len(lines) == 1 and lines[0].startswith(f'{folder}: {said}')


def test_all_parts_of_a_folder_are_read_and_all_damaged_files_named(folders, tmp_path):
    prepared, _, memory = folders
    for part in (prepared, memory):
        (tmp_path / part.name).symlink_to(part)
    damaged = [prepared / 'passages.parquet', prepared / 'tokenizer.json', memory / 'segment-00000' / 'target.npy']
    whole = {path: path.read_bytes() for path in damaged}
    for path in damaged:
        flip(path)
    lines = []
    try:
        wrong = verify(tmp_path, lines.append)
    finally:
        for path, data in whole.items():
            path.write_bytes(data)
    assert len(lines) == 2 and len(wrong) == 3
    for path in damaged:
        assert any(f'{path.name}: its sha256 is not the one' in message for message in wrong)


def test_what_digests_do_not_show_is_told(folders, tmp_path):
    memory = folders[2]
    text = (memory / 'manifest.json').read_text()
    try:
        sign(memory, num_mentions=json.loads(text)['num_mentions'] + 1)
        (message,) = verify(memory, print)
        edit(memory, format='opql-else')
        (other,) = verify(memory, print)
    finally:
        (memory / 'manifest.json').write_text(text)
    assert 'manifest.json: num_mentions is' in message and "format 'opql-else', not one of" in other
    with pytest.raises(InputError, match='no folder of this program'):
        verify(tmp_path, print)


def test_the_command_prints_what_it_read_and_exits_1_if_something_is_wrong(folders):
    prepared = folders[0]
    command = [sys.executable, '-m', 'opql_jax.verify', str(prepared)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and f'{prepared}: a prepared folder' in done.stdout and 'all is as' in done.stdout, done.stderr
    flip(prepared / 'pairs.parquet')
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and f'error: {prepared}/pairs.parquet: its sha256' in done.stderr and '1 wrong' in done.stdout
