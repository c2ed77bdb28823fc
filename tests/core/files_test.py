"""Folders of a bucket are written and read by the code for folders on disk. The bucket here lies in
main memory.
"""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import numpy as np
import pytest
from damage import edit

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import CACHE_VARIABLE, ManifestError, local_copy
from opql_jax.corpus.questions import read_questions
from opql_jax.datasets import metaqa
from opql_jax.evaluation import predictions
from opql_jax.kb.trained.question_sets import write_answers
from opql_jax.memory.format import Memory

from bucket import Bucket, use_bucket
from graph_kb import QUESTIONS, VOCAB, ring
from tiny_memories import make, make_table, relations_of


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Makes gs:// an empty bucket in main memory; gives the folder where copies of its folders are
    kept.
    """
    use_bucket(monkeypatch)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / 'cache'))
    return tmp_path / 'cache'


def contents(folder):
    """{name: bytes} of all files in a folder."""
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


def test_a_link_in_the_place_of_a_partial_file_is_not_followed(tmp_path):
    (tmp_path / 'precious').write_text('precious')
    (tmp_path / 'kb').mkdir()
    (tmp_path / 'kb' / f'.file.{os.getpid()}.partial').symlink_to(tmp_path / 'precious')
    with files.atomic_path(tmp_path / 'kb' / 'file') as partial:
        partial.write_text('new')
    assert (tmp_path / 'precious').read_text() == 'precious'
    (path,) = (tmp_path / 'kb').iterdir()
    assert path.name == 'file' and not path.is_symlink()


def test_a_file_in_a_bucket_appears_when_it_is_whole(monkeypatch):
    path = files.path('gs://b/x/file')
    with files.atomic_path(path) as partial:
        partial.write_text('old')
    with pytest.raises(RuntimeError), files.atomic_path(path) as partial:
        partial.write_text('new, and not wh')
        raise RuntimeError
    assert contents('gs://b/x') == {'file': b'old'}
    assert files.digest(path).bytes == 3

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


def test_a_build_in_a_bucket_that_was_killed_goes_on(tmp_path):
    calls = []

    def encode(rows, until):
        if len(calls) == until:
            raise KeyboardInterrupt
        calls.append(len(rows))
        return relations_of(rows)

    with pytest.raises(KeyboardInterrupt):
        make('gs://b/memory', encode=lambda rows: encode(rows, until=3))
    message = 'gs://b/memory: the build of this memory is unfinished; run build_memory again'
    with pytest.raises(InputError, match=message):
        Memory.open('gs://b/memory')
    files.path('gs://b/memory/segment-00000/.x.1.partial').write_bytes(b'what an upload left')
    make('gs://b/memory', encode=lambda rows: encode(rows, until=100))
    assert len(calls) == 6  # 40 rows in shards of 7
    make(tmp_path / 'memory')
    assert contents('gs://b/memory') == contents(tmp_path / 'memory')


@pytest.mark.parametrize(
    'harm, complaint',
    [
        ('remove', 'listed in manifest.json but missing'),
        ('cut', 'truncated or overwritten'),
        ('change', 'truncated or overwritten'),
    ],
)
def test_a_damaged_file_in_a_bucket_is_named(cache, harm, complaint):
    make('gs://b/memory')
    for copy in cache.iterdir():
        files.rmtree(copy)
    path = files.path('gs://b/memory/segment-00000/target.npy')
    if harm == 'remove':
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] if harm == 'cut' else data[:-1] + bytes([data[-1] ^ 1]))
    message = f'gs://b/memory/segment-00000/target.npy: .*{complaint}'
    with pytest.raises(ManifestError, match=message):
        Memory.open('gs://b/memory')
    assert [*cache.iterdir()] == []  # nothing that a later call would take for a copy


def test_only_what_is_named_as_a_killed_write_is_removed(tmp_path):
    ours = ['.a.npy.12.partial', 'part/.b.npy.7.partial']
    others = (
        '.a.npy.partial .a.npy.x.partial a.npy.12.partial .c.npy.12.partial .a.npy.12 '
        'part/.a.npy.7.partial'
    ).split()
    (tmp_path / 'part').mkdir()
    for name in (*ours, *others):
        (tmp_path / name).touch()
    files.remove_partials(tmp_path, 'a.npy', 'part/b*', 'missing/*')
    assert contents(tmp_path).keys() == set(others)


# What a received folder may hold besides files and folders: each leads to, or is, something of the
# user's.
NOT_PLAIN = {
    'a link to a file': (lambda path, outside: path.symlink_to(outside / 'x'), 'a link'),
    'a link to a folder': (lambda path, outside: path.symlink_to(outside), 'a link'),
    'a link to nothing': (lambda path, outside: path.symlink_to(outside / 'nothing'), 'a link'),
    'a pipe': (lambda path, outside: os.mkfifo(path), 'neither a file nor a folder'),
    'a socket': (
        lambda path, outside: os.mknod(path, stat.S_IFSOCK | 0o600),
        'neither a file nor a folder',
    ),
}


@pytest.mark.parametrize('kind', NOT_PLAIN)
def test_what_is_below_a_folder_is_reached_through_plain_folders_only(tmp_path, kind):
    make_it, said = NOT_PLAIN[kind]
    kb, outside = tmp_path / 'kb', tmp_path / 'outside'
    for folder in (kb / 'a', outside):
        folder.mkdir(parents=True)
        (folder / 'x').write_text('precious')
        (folder / '.x.17.partial').write_text('precious')
    make_it(kb / 'a' / 'it', outside)
    before = contents(outside)
    for name in ('a/it', 'a/it/x') if 'folder' in kind else ('a/it',):
        for reach in (files.below, files.read_below, files.open_below):
            message = f'kb/a/it is {said}; nothing below a knowledge base may be one: put a copy'
            with pytest.raises(InputError, match=message):
                reach(kb, name)
    for name in ('', 'a'):
        with pytest.raises(InputError, match=f'kb/a/it is {said}'):
            files.refuse_links(kb, name)
    assert files.names_below(kb) == ['a/.x.17.partial', 'a/it', 'a/x']
    files.remove_partials(kb, 'a/it/x', '*/*/*')
    assert files.remove_below(kb, ['a/it/x', 'a/it/.x.17.partial', 'a/missing', 'a']) == 0
    files.remove_empty(kb, 'a')
    assert os.path.lexists(kb / 'a' / 'it') and contents(outside) == before
    files.remove_below(kb, ['a/it', 'a/x', 'a/.x.17.partial'])
    files.remove_empty(kb, 'a')
    assert list(kb.iterdir()) == [] and contents(outside) == before


def test_a_mount_point_below_a_folder_is_not_entered(tmp_path):
    (tmp_path / 'kb' / 'inner').mkdir(parents=True)
    script = f"""
import pathlib, subprocess
from opql_jax.core import files
kb = pathlib.Path({str(tmp_path / 'kb')!r})
subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', kb / 'inner'], check=True)
(kb / 'inner' / 'x').write_text('precious')
try:
    files.below(kb, 'inner/x')
except files.InputError as error:
    print(error)
files.remove_below(kb, ['inner/x'])
files.remove_empty(kb, 'inner')
print(files.names_below(kb), (kb / 'inner' / 'x').read_text())
"""
    command = ['unshare', '--mount', '--user', '--map-root-user', sys.executable, '-c', script]
    environment = os.environ | {'PYTHONPATH': os.pathsep.join(sys.path)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if 'unshare' in run.stderr or 'mount:' in run.stderr:
        pytest.skip(f'nothing can be mounted here: {run.stderr}')
    told, rest = run.stdout.splitlines()
    assert 'kb/inner is a mount point; nothing below a knowledge base may be one' in told
    assert rest == '[] precious'


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


def test_questions_and_predictions_in_a_bucket(tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, 'CHUNK', 4)
    kb = ring()
    kb.fails_at = 5
    with pytest.raises(KeyboardInterrupt):
        write_answers(kb, QUESTIONS, 'gs://b/out/a.jsonl')
    assert [*contents('gs://b/out')] == ['a.jsonl.parts/00000-of-00003.jsonl']
    assert write_answers(ring(), QUESTIONS, 'gs://b/out/a.jsonl') == len(QUESTIONS) - 4
    write_answers(ring(), QUESTIONS, tmp_path / 'out' / 'a.jsonl')
    assert contents('gs://b/out') == contents(tmp_path / 'out')
    assert len(predictions.read_predictions('gs://b/out/a.jsonl')) == len(QUESTIONS)
    assert write_answers(ring(), QUESTIONS, 'gs://b/out/a.jsonl') == 0
    files.path('gs://b/questions.txt').write_text('who met [plain]\t北京\n')
    (question,) = metaqa.read_questions('gs://b/questions.txt', VOCAB, 1)
    assert (question.id, question.answers) == ('1-hop/questions/1', (VOCAB.id('北京'),))
    asked = {'id': '1', 'question': 'who met plain', 'topics': [[8, 13]], 'hops': 1}
    files.path('gs://b/open.jsonl').write_text(json.dumps(asked | {'answers': ['北京']}) + '\n')
    (question,) = read_questions('gs://b/open.jsonl', VOCAB)
    assert question.answers == (VOCAB.id('北京'),)
