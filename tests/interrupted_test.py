"""What binaries say on a full disk or without permission to write; crash_test tries the rerun."""

import re

import pytest

from opql_jax.training.checkpoints import Checkpoints

import tiny_training
from complaints import complaint
from forked_binaries import ENCODER

# Few WordPieces, so that the tokenizer is smaller than some of the tables, and a disk can be full
# at either.
WORLD = (
    'prepare --gin_file=gin/data/synthetic.gin --gin.DOCUMENTS=60 '
    '--gin.prepare.prepare.wordpieces=300'
).split()


def prepare(folder, *flags):
    return [*WORLD, f'--gin.KB={folder.parent}', f'--gin.TEXT={folder.name}', *flags]


def succeed(binaries, command):
    done = binaries(*command)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope='module')
def world(tmp_path_factory, binaries):
    """A folder with `prepared`, an untrained `model` and its `memory` of three shards."""
    root = tmp_path_factory.mktemp('world')
    succeed(binaries, prepare(root / 'prepared'))
    tiny_training.write_untrained(root / 'prepared', root / 'model')
    succeed(binaries, build(root, root / 'memory'))
    return root


def build(world, memory, shard_rows=200):
    parts = {'KB': world, 'TEXT': 'prepared', 'MODEL': 'model', 'MEMORY': memory}
    flags = [f'--gin.{name}={value}' for name, value in parts.items()]
    flags += [f'--gin.build_memory.build_memory.shard_rows={shard_rows}']
    return ['build_memory', '--gin_file=gin/runs/build_memory.gin', *flags]


def training(world, workdir):
    flags = ['--gin.STEPS=2', '--gin.objectives.Relations.rows=16', '--gin.TEXT=prepared']
    flags += [f'--gin.KB={world}', f'--gin.MODEL={workdir}']
    return ['train', *ENCODER, '--gin_file=gin/runs/relations.gin', *flags]


# A full disk: no file may be larger than so many bytes.


@pytest.mark.parametrize(
    ('binary', 'name', 'limit'),
    [('prepare', r'passages/\w+\.arrow', 10_000), ('build_memory', 'relations-00000.npy', 6000)],
)
def test_a_full_disk_is_reported_in_one_line_that_names_the_file(
    binaries, world, tmp_path, binary, name, limit
):
    command = prepare(tmp_path) if binary == 'prepare' else build(world, tmp_path)
    said = complaint(binaries(*command, file_limit=limit))
    assert re.search(rf'{tmp_path}/.*{name}', said), said
    assert 'File too large' in said or 'cannot be written' in said, said


# A folder in which nothing may be written.


@pytest.mark.parametrize('binary', ['prepare', 'build_memory'])
def test_a_read_only_folder_is_named_and_stays_as_it_was(binaries, world, tmp_path, binary):
    folder = tmp_path / 'locked'
    folder.mkdir()
    command = prepare(folder) if binary == 'prepare' else build(world, folder)
    folder.chmod(0o555)
    said = complaint(binaries(*command, obedient=True))
    assert str(folder) in said and 'Permission denied' in said
    assert list(folder.iterdir()) == []
    folder.chmod(0o755)
    succeed(binaries, command)


def test_training_on_a_full_disk_says_so_and_begins_again_when_there_is_room(
    binaries, world, tmp_path
):
    command = training(world, tmp_path)
    said = complaint(binaries(*command, file_limit=20000))
    assert f'checkpoint {tmp_path}/checkpoints/2 cannot be written' in said and 'make room' in said
    assert re.search(r'\(\w+: Failed to write \d+ bytes .*File too large', said), said
    assert Checkpoints(tmp_path, read_only=True).steps() == []
    succeed(binaries, command)
    assert Checkpoints(tmp_path, read_only=True).steps() == [2]
