"""prepare and build_memory when they are killed or the disk is full: the next run ends as if nothing had happened."""

import hashlib
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from opql_jax.training.checkpoints import CheckpointError, Checkpoints

import full_disk
import memory_tables
import tiny_training
from complaints import complaint
from forked_binaries import ENCODER, ENVIRONMENT, ROOT
from own_process import own_process

# Few WordPieces, so that the tokenizer is smaller than some of the tables, and a disk can be full at either.
WORLD = ['prepare', '--gin_file=gin/data/synthetic.gin', '--gin.DOCUMENTS=60', '--gin.prepare.prepare.wordpieces=300']
LARGER = ['--gin.DOCUMENTS=600', '--gin.prepare.prepare.wordpieces=4000']
MANIFEST, KILLED = 'manifest.json', -9


def prepare(folder, *flags):
    return [*WORLD, f'--gin.KB={folder.parent}', f'--gin.TEXT={folder.name}', *flags]


def succeed(binaries, command):
    done = binaries(*command)
    assert done.returncode == 0, done.stderr
    return done.stderr


def files(folder):
    """The digest of every file but what a killed or failed run may leave unnoticed."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob('*'))
        if path.is_file() and not path.name.endswith('.partial')
    }


def partial(folder):
    return [path.name for path in folder.rglob('*.partial')]


@pytest.fixture(scope='module')
def world(tmp_path_factory, binaries):
    """A folder of `prepared`, an untrained `model` and its `memory` of three shards, made without interruption."""
    root = tmp_path_factory.mktemp('world')
    succeed(binaries, prepare(root / 'prepared'))
    tiny_training.write_untrained(root / 'prepared', root / 'model')
    succeed(binaries, build(root, root / 'memory'))
    return root


def build(world, memory, shard_rows=200):
    parts = {'KB': world, 'TEXT': 'prepared', 'MODEL': 'model', 'MEMORY': memory}
    flags = [f'--gin.{name}={value}' for name, value in parts.items()]
    return [
        'build_memory',
        '--gin_file=gin/runs/build_memory.gin',
        f'--gin.build_memory.build_memory.shard_rows={shard_rows}',
        *flags,
    ]


def training(world, workdir):
    flags = ['--gin.STEPS=2', '--gin.objectives.Relations.rows=16', f'--gin.KB={world}', '--gin.TEXT=prepared']
    return ['train', *ENCODER, '--gin_file=gin/runs/relations.gin', *flags, f'--gin.MODEL={workdir}']


def kill_when(path, command):
    """Runs `python -m opql_jax.<command>` and kills it once `path` is there."""
    module, *flags = command
    arguments = [sys.executable, '-m', f'opql_jax.{module}', *flags]
    with subprocess.Popen(
        arguments, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    return process.returncode


# Killed.


@pytest.fixture(scope='module')
def larger(tmp_path_factory, binaries):
    folder = tmp_path_factory.mktemp('larger')
    succeed(binaries, prepare(folder, *LARGER))
    return files(folder)


def test_what_a_killed_run_left_is_not_found_in_what_is_prepared_there_next(binaries, tmp_path):
    assert binaries(*prepare(tmp_path / 'killed'), kill_before=f'replace {MANIFEST}').returncode == KILLED
    (tmp_path / 'mine.jsonl').write_text(
        '{"id": 1, "title": "Up", "title_entity": "Up", "text": "Up is by Bob.", "mentions":'
        ' [{"start": 0, "end": 2, "entity": "Up"}, {"start": 9, "end": 12, "entity": "Bob"}]}'
    )
    for folder in ('killed', 'whole'):
        mine = [
            '--gin_file=gin/data/jsonl.gin',
            f'--gin.CORPUS={tmp_path}/mine.jsonl',
            f'--gin.KB={tmp_path}',
            f'--gin.TEXT={folder}',
        ]
        succeed(binaries, ['prepare', *mine])
    assert files(tmp_path / 'killed') == files(tmp_path / 'whole')


def test_building_a_memory_killed_from_outside_goes_on_where_it_was(binaries, world, tmp_path):
    command = build(world, tmp_path / 'killed', shard_rows=8)
    assert kill_when(tmp_path / 'killed/segment-00000/shard-00005.json', command) == KILLED
    flags = [f'--gin.KB={world}', '--gin.TEXT=prepared', f'--gin.MEMORY={tmp_path / "killed"}', '--dry_run']
    read = binaries('train', *ENCODER, '--gin_file=gin/runs/follow.gin', '--gin.INIT_FROM=None', *flags)
    assert f'{tmp_path / "killed"}: the build of this memory is unfinished' in complaint(read)
    encoded = [line for line in succeed(binaries, command).splitlines() if ' mentions ' in line]
    succeed(binaries, build(world, tmp_path / 'whole', shard_rows=8))
    assert files(tmp_path / 'killed') == files(tmp_path / 'whole') and partial(tmp_path) == []
    shards = len(list((tmp_path / 'whole').rglob('relations-*.npy')))
    assert 0 < len(encoded) <= shards - 6


# A full disk: no file may be larger than so many bytes. Each limit meets another kind of file first.

TABLES = {'tokenizer.json': 1000, r'passages/\w+\.arrow': 10000, 'passages.array_record': 100000}
ARRAYS = {'topic.npy': 1500, 'relations-00000.npy': 6000}


FULL = [*(('prepare', name) for name in TABLES), *(('build_memory', name) for name in ARRAYS)]


@pytest.mark.parametrize('binary, name', FULL)
def test_a_full_disk_is_reported_in_one_line_that_names_the_file(binaries, world, tmp_path, binary, name):
    command = prepare(tmp_path) if binary == 'prepare' else build(world, tmp_path)
    said = complaint(binaries(*command, file_limit=(TABLES | ARRAYS)[name]))
    assert re.search(rf'{tmp_path}/.*{name}', said) and ('File too large' in said or 'cannot be written' in said), said


def test_a_full_disk_on_which_the_parts_of_passages_lie_already_is_reported_for_the_passages(binaries, world, tmp_path):
    complaint(binaries(*prepare(tmp_path), file_limit=TABLES['passages.array_record']))
    said = complaint(binaries(*prepare(tmp_path), file_limit=10000))
    assert re.search(rf'{tmp_path}/\S*passages.parquet', said) and 'File too large' in said, said


# A folder in which nothing may be written.


@pytest.mark.parametrize('binary', ['prepare', 'train', 'build_memory'])
def test_a_read_only_folder_is_named_and_stays_as_it_was(binaries, world, tmp_path, binary):
    folder = tmp_path / 'locked'
    folder.mkdir()
    command = {'prepare': prepare(folder), 'train': training(world, folder), 'build_memory': build(world, folder)}[binary]
    folder.chmod(0o555)
    said = complaint(binaries(*command, obedient=True))
    assert str(folder) in said and 'Permission denied' in said
    assert list(folder.iterdir()) == []
    folder.chmod(0o755)
    succeed(binaries, command)


def test_a_memory_is_whole_though_the_disk_was_full_for_a_while(tmp_path):
    make, table = memory_tables.make, memory_tables.make_table(400)
    with own_process() as call:
        call(full_disk.build_on_a_disk_that_is_full_for_a_while, tmp_path / 'full', table)
    make(tmp_path / 'full', table)
    make(tmp_path / 'whole', table)
    assert files(tmp_path / 'full') == files(tmp_path / 'whole')


def test_training_on_a_full_disk_says_so_and_begins_again_when_there_is_room(binaries, world, tmp_path):
    command = training(world, tmp_path)
    said = complaint(binaries(*command, file_limit=20000))
    assert f'checkpoint {tmp_path}/checkpoints/2 cannot be written' in said and 'make room' in said
    assert re.search(r'\(\w+: Failed to write \d+ bytes .*File too large', said), said
    assert Checkpoints(tmp_path, read_only=True).steps() == []
    succeed(binaries, command)
    assert Checkpoints(tmp_path, read_only=True).steps() == [2]


def test_training_keeps_its_last_checkpoint_when_the_disk_is_full_and_goes_on_from_it(tmp_path):
    prepared, options = tiny_training.write_prepared(tmp_path / 'prepared'), dict(num_steps=4, checkpoint_every=2)
    with own_process() as call, pytest.raises(CheckpointError, match='checkpoints/4 cannot be written'):
        call(full_disk.train_until_the_disk_is_full, prepared, tmp_path / 'full', **options)
    assert Checkpoints(tmp_path / 'full', read_only=True).steps() == [2]
    for name in ('full', 'whole'):
        tiny_training.run(prepared, tmp_path / name, **options)
    found, wanted = (tiny_training.state_of(tmp_path / name, 4) for name in ('full', 'whole'))
    assert found.keys() == wanted.keys() and all(np.array_equal(found[name], wanted[name]) for name in wanted)
