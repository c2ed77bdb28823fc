"""Locks on folders: one writer at a time, and readers."""

import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError, Preempted

from bucket import use_bucket

REFUSED = (
    rf'is being written by process {os.getpid()} on {re.escape(socket.gethostname())} since '
    rf'\d{{4}}-.*: wait until it ends'
)
HOLD = """
import sys, time
from opql_jax.core import locks
with locks.writer(sys.argv[1]):
    print('held', flush=True)
    time.sleep(60)
"""


def no_locks(*_):
    raise OSError(errno.ENOLCK, 'No locks available')


@pytest.fixture(params=['disk', 'disk without locks', 'bucket'])
def folder(request, tmp_path, monkeypatch):
    """A folder of each kind, with leases that are short."""
    monkeypatch.setattr(locks, '_RENEWAL_SECONDS', 0.02)
    monkeypatch.setattr(locks, '_LEASE_SECONDS', 0.3)
    if request.param == 'bucket':
        use_bucket(monkeypatch)
        return 'gs://b/folder'
    if request.param == 'disk without locks':
        monkeypatch.setattr(fcntl, 'flock', no_locks)
    return str(tmp_path / 'new' / 'folder')


def lock_files(folder):
    return [path for path in files.path(folder).glob('*') if locks.is_lock(path)]


def test_a_second_writer_is_told_who_the_first_one_is(folder):
    for _ in range(2):
        with locks.writer(folder):
            assert len(lock_files(folder)) == 1
            for _ in range(2):
                refused = pytest.raises(InputError, match=f'{re.escape(folder)} {REFUSED}')
                with refused, locks.writer(folder):
                    pass
            assert len(lock_files(folder)) == 1
        assert lock_files(folder) == []


def test_of_many_writers_never_two_write_at_a_time(folder):
    writing, wrote, overlaps = [], [], []

    def write(number):
        try:
            with locks.writer(folder):
                writing.append(number)
                overlaps.append(len(writing))
                time.sleep(0.01)
                writing.remove(number)
            wrote.append(number)
        except InputError as error:
            assert 'is being written by' in str(error)

    for start in range(3):
        threads = [threading.Thread(target=write, args=(start * 4 + i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert set(overlaps) <= {1} and len(wrote) == len(overlaps) > 0
    with locks.writer(folder):
        pass
    assert lock_files(folder) == []


def test_a_writer_that_removes_its_folder_leaves_the_lock_of_the_next_one_alone(tmp_path):
    folder = tmp_path / 'folder'
    with locks.writer(folder):
        shutil.rmtree(folder)
        with locks.writer(folder):
            pass
        other = locks.writer(folder)
        other.__enter__()
    with pytest.raises(InputError, match=REFUSED), locks.writer(folder):
        pass
    other.__exit__(None, None, None)
    assert [*folder.iterdir()] == []


def test_a_killed_writer_holds_nothing(tmp_path):
    command = [sys.executable, '-c', HOLD, str(tmp_path)]
    environment = os.environ | {'PYTHONPATH': ':'.join(sys.path)}
    options = {'stdout': subprocess.PIPE, 'text': True, 'env': environment}
    with subprocess.Popen(command, **options) as other:
        assert other.stdout.readline() == 'held\n'
        who = rf'process {other.pid} on .* \(-c {tmp_path}\)'
        with pytest.raises(InputError, match=who), locks.writer(tmp_path):
            pass
        other.send_signal(signal.SIGKILL)
    assert len(lock_files(tmp_path)) == 1
    with locks.writer(tmp_path):
        assert json.loads((tmp_path / '.lock').read_text())['pid'] == os.getpid()
    assert lock_files(tmp_path) == []


def test_a_writer_that_is_waited_for_is_followed(folder):
    held = locks.writer(folder)
    held.__enter__()
    ending = threading.Timer(0.2, held.__exit__, (None, None, None))
    ending.start()
    with locks.writer(folder, patience=30):
        assert len(lock_files(folder)) == 1
    ending.join()


@pytest.mark.parametrize('folder', ['disk without locks', 'bucket'], indirect=True)
def test_a_lease_that_nobody_renews_is_waited_for_and_ends(folder):
    files.path(folder).mkdir(parents=True)
    files.path(f'{folder}/.lock-{1:020}-{1:032x}').write_text('{"renewals": 7}')
    started = time.monotonic()
    with locks.writer(folder):
        assert time.monotonic() - started > 0.3
        assert [path.name for path in lock_files(folder)] != [f'.lock-{1:020}-{1:032x}']
    assert lock_files(folder) == []


@pytest.mark.parametrize('folder', ['disk without locks', 'bucket'], indirect=True)
def test_a_writer_that_loses_its_lease_ends(folder, monkeypatch, capsys):
    codes, ended = [], threading.Event()
    monkeypatch.setattr(os, '_exit', lambda code: codes.append(code) or ended.set())
    with locks.writer(folder):
        for lease in lock_files(folder):
            lease.unlink()
        assert ended.wait(10)
    assert {*codes} == {Preempted.CODE} and 'was lost' in capsys.readouterr().err


def content_of(path):
    if path.is_symlink():
        return path.readlink()
    return path.read_bytes() if path.is_file() else 'no file'


def link_empty(path):
    (path.parents[1] / 'empty').touch()
    os.link(path.parents[1] / 'empty', path)


FOREIGN = {
    'a file of another name, too': link_empty,
    "a user's file": lambda path: path.write_text('notes of mine'),
    "a user's JSON": lambda path: path.write_text('{"version": 3}'),
    'a folder': lambda path: path.mkdir(),
    'a pipe': os.mkfifo,
    'a link to a file': lambda path: path.symlink_to(path.parents[1] / 'precious'),
}


@pytest.mark.parametrize('make', FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize('has_locks', [True, False], ids=['flock', 'no flock'])
def test_what_is_no_lock_is_left_alone(tmp_path, monkeypatch, make, has_locks):
    if not has_locks:
        monkeypatch.setattr(fcntl, 'flock', no_locks)
    (tmp_path / 'precious').write_text('precious')
    (tmp_path / 'kb').mkdir()
    lock = tmp_path / 'kb' / '.lock'
    make(lock)
    before = content_of(lock)
    message = 'kb/.lock is in the way, and no lock that this program wrote: move it elsewhere'
    with pytest.raises(InputError, match=message):
        with locks.writer(tmp_path / 'kb'):
            pass
    assert content_of(lock) == before
    assert {path.name for path in tmp_path.iterdir()} <= {'precious', 'kb', 'empty'}
    assert list((tmp_path / 'kb').iterdir()) == [lock]
    assert (tmp_path / 'precious').read_text() == 'precious'


@pytest.mark.parametrize('length', [0, 11, 40])
def test_a_lock_whose_writer_was_killed_while_it_signed_is_taken(tmp_path, length):
    with locks.writer(tmp_path):
        signature = (tmp_path / '.lock').read_text()
    (tmp_path / '.lock').write_text(signature[:length])
    with locks.writer(tmp_path):
        assert json.loads((tmp_path / '.lock').read_text())['pid'] == os.getpid()
    assert list(tmp_path.iterdir()) == []
