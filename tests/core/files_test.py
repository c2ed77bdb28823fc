"""Folders on disk and in a bucket (here in main memory), and what lies below them."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from damage import edit

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import CACHE_VARIABLE, ManifestError, local_copy
from opql_jax.memory.format import Memory

from bucket import Bucket, use_bucket
from tiny_memories import make, make_table


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Makes gs:// an empty bucket; gives the folder where copies of its folders are kept."""
    use_bucket(monkeypatch)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / 'cache'))
    return tmp_path / 'cache'


def contents(folder):
    if files.is_remote(folder):
        start = '/' + str(folder).removeprefix('gs://') + '/'
        inside = {name: file for name, file in Bucket.store.items() if name.startswith(start)}
        return {name.removeprefix(start): file.getvalue() for name, file in inside.items()}
    paths = [path for path in folder.rglob('*') if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def test_a_path_is_that_of_its_place():
    assert files.path('runs/x') == pathlib.Path('runs/x')
    assert str(files.path('gs://b/x') / 'y') == 'gs://b/x/y'
    with pytest.raises(InputError, match='http://b/x: folders lie on disk or in buckets, gs://'):
        files.path('http://b/x')
    with pytest.raises(InputError, match='gs://b/x: this is only done on disk'):
        files.require_local('gs://b/x')


def test_a_file_in_a_bucket_appears_when_it_is_whole(monkeypatch):
    path = files.path('gs://b/x/file')
    with files.atomic_path(path) as partial:
        partial.write_text('old')

    def interrupted(read, written, _):
        written.write(read.read(5))
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, 'copyfileobj', interrupted)
    with pytest.raises(KeyboardInterrupt), files.atomic_path(path) as partial:
        partial.write_text('new and whole')
    left = contents('gs://b/x')
    assert left.pop('file') == b'old' and [*left.values()] == [b'new a']  # under another name
    assert all(name.startswith('.file.') and name.endswith('.partial') for name in left)


def test_a_memory_in_a_bucket_has_the_bytes_of_one_on_disk(tmp_path, cache):
    memory, on_disk = make('gs://b/memory'), make(tmp_path / 'memory')
    assert contents('gs://b/memory') == contents(tmp_path / 'memory')
    assert memory.hash() == on_disk.hash()
    np.testing.assert_array_equal(memory.relations(), on_disk.relations())
    make('gs://b/memory', encode=None)  # finished: nothing is encoded
    with pytest.raises(InputError, match='gs://b/memory holds a finished memory of something else'):
        make('gs://b/memory', seed=1)
    assert memory.provenance([3]) == on_disk.provenance([3])
    # It is copied once for each of its states.
    (copy,) = cache.iterdir()
    Memory.open('gs://b/memory')
    assert [*cache.iterdir()] == [copy]
    files.rmtree('gs://b/memory')
    make('gs://b/memory', make_table(seed=1))
    assert Memory.open('gs://b/memory').hash() != memory.hash()


@pytest.mark.parametrize(
    'harm, complaint',
    [
        (lambda path: path.unlink(), 'listed in manifest.json but missing'),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), 'truncated or overwritten'),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b'x'), 'truncated or overwritten'),
    ],
)
def test_a_damaged_file_in_a_bucket_is_named(cache, harm, complaint):
    make('gs://b/memory')
    for copy in cache.iterdir():
        files.rmtree(copy)
    harm(files.path('gs://b/memory/segment-00000/target.npy'))
    message = f'gs://b/memory/segment-00000/target.npy: .*{complaint}'
    with pytest.raises(ManifestError, match=message):
        Memory.open('gs://b/memory')
    assert [*cache.iterdir()] == []  # nothing that a later call would take for a copy


@pytest.mark.parametrize(
    'name',
    ['../../../x', 'segment-00000/../../x', '{outside}', '..\\\\x', 'manifest.json', 'gs://b/x'],
)
def test_a_name_in_the_manifest_of_a_bucket_writes_nothing_outside_its_copy(cache, tmp_path, name):
    outside = tmp_path / 'outside'
    outside.write_text('precious')
    make('gs://b/memory')
    for copy in cache.iterdir():
        files.rmtree(copy)
    name = name.format(outside=outside)
    manifest = json.loads(files.path('gs://b/memory/manifest.json').read_text())
    manifest['files'][name] = manifest['files']['segment-00000/topic.npy']
    edit('gs://b/memory', files=manifest['files'])
    for read in (Memory.open, local_copy):
        message = f'gs://b/memory/manifest.json: {re.escape(repr(name))} is not the name of a file'
        with pytest.raises(ManifestError, match=message):
            read('gs://b/memory')
    assert outside.read_text() == 'precious'
    assert sorted(path.name for path in tmp_path.iterdir()) == ['cache', 'outside']
    assert [*cache.iterdir()] == []
