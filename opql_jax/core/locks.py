"""Locks on folders: one writer at a time, and readers whose files stay until they have closed them.

A writer holds `flock` on the file `.lock` of its folder, which says who it is; the system releases
it however the process ends. Readers of a memory hold shared locks on the folders of its segments,
and an update removes a segment only under the exclusive one. A bucket has no `flock`: there, and on
a disk that has none, a writer leases the folder, see `_lease`.
"""

import contextlib
import errno
import fcntl
import itertools
import json
import logging
import os
import pathlib
import re
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator

from opql_jax.core import files
from opql_jax.core.errors import InputError, Preempted

_log = logging.getLogger(__name__)

_LOCK = '.lock'
_LEASE = re.compile(rf'{re.escape(_LOCK)}-\d{{20}}-[0-9a-f]{{32}}')
# How a lock file begins, unless its writer was killed while it signed it.
_SIGNED = b'{"command": "'
_IN_THE_WAY = '{} is in the way, and no lock that this program wrote: move it elsewhere'
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
# A lease is renewed at this interval, and one that was not for the longer time is that of a process
# that was killed.
_RENEWAL_SECONDS, _LEASE_SECONDS = 10.0, 60.0


def is_lock(path: str | os.PathLike) -> bool:
    """Whether a file is a writer's lock, and so no content of its folder."""
    name = os.fspath(path).rpartition('/')[2]
    return name == _LOCK or bool(_LEASE.fullmatch(name))


class _Held(InputError):
    """Another process writes here."""


@contextlib.contextmanager
def writer(folder: str | os.PathLike, patience: float = 0.0) -> Iterator[None]:
    """Keeps other writers out of a folder, on disk or in a bucket, while the context lasts.

    Makes the folder if it is missing. A folder that this user may not write is not locked, so that
    finished work there is still found. Waits `patience` seconds for another writer. InputError:
    another process, which the message names, writes here; or this is no folder.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as held:
        while True:
            try:
                if files.is_remote(folder) or not _lock(pathlib.Path(folder) / _LOCK, held):
                    held.enter_context(_lease(folder))
                break
            except _Held:
                if time.monotonic() - started > patience:
                    raise
                time.sleep(0.1)
        yield


def shared(folder: str | os.PathLike, names: Iterable[str]) -> contextlib.ExitStack:
    """Shared locks on folders below one until the result is closed; on no link or missing one."""
    with contextlib.ExitStack() as locks:
        for name in names:
            # A missing folder is reported when its files are checked; not every file system has
            # locks.
            with contextlib.suppress(OSError):
                handle = files.open_below(folder, name)
                locks.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_SH)
        return locks.pop_all()


@contextlib.contextmanager
def try_exclusive(folder: str | os.PathLike, name: str) -> Iterator[bool]:
    """Yields whether no reader has locked a subfolder on disk; if so none can meanwhile."""
    handle = files.open_below(folder, name)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            free = False  # readers cannot lock it either, so that one may be there
        yield free
    finally:
        os.close(handle)


def _lock(path, held) -> bool:
    """Locks and signs a lock file until `held` is closed; False if the file system has no locks."""
    try:
        handle = _open_locked(path)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS) and not os.access(path.parent, os.W_OK):
            return True
        if error.errno in _NO_LOCKS:
            path.unlink(missing_ok=True)
            return False
        raise
    held.callback(os.close, handle)
    # The folder may have been removed meanwhile, and made again by another writer.
    held.callback(lambda: _is_open_as(handle, path) and path.unlink())
    return True


def _open_locked(path):
    """The descriptor of a lock file that this process has locked and signed."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InputError(f'{path.parent} is a file, or lies in one: give a folder') from error
        try:
            # No link is followed, as that of a received folder may lead to any file of the user's.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except FileNotFoundError:  # the folder was removed at this moment
            continue
        except PermissionError as error:
            if not (path.exists() and os.access(path.parent, os.W_OK)):
                raise
            raise InputError(
                f'{path} is the lock of another user: remove it when nobody writes there, or give '
                'another folder'
            ) from error
        except OSError as error:
            # A link, a folder, a socket.
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise InputError(_IN_THE_WAY.format(path)) from error
            raise
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, handle)
            _require_lock(handle, path)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_open_as(handle, path):  # its holder removed it after it was opened here
                    continue
                os.ftruncate(handle, 0)
                os.write(handle, _signature().encode())
            except BlockingIOError:
                signature = os.read(handle, 1 << 16).decode(errors='replace')
                raise _Held(_refusal(path.parent, signature)) from None
            except OSError as error:
                error.filename = str(path)
                raise
            opened.pop_all()
            return handle


def _require_lock(handle, path) -> None:
    """Raises InputError unless an open file is empty or a lock, and has no other name."""
    state = os.fstat(handle)
    ours = stat.S_ISREG(state.st_mode) and state.st_nlink <= 1
    if not ours or not _SIGNED.startswith(os.pread(handle, len(_SIGNED), 0)):
        raise InputError(_IN_THE_WAY.format(path))


def _is_open_as(handle, path):
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _signature() -> str:
    """Who this process is, as JSON."""
    command = ' '.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])
    since, host = time.strftime('%Y-%m-%d %H:%M:%S %z'), socket.gethostname()
    who = {'command': command[:1000], 'pid': os.getpid(), 'host': host, 'since': since}
    return json.dumps(who)


def _refusal(folder, signature) -> str:
    try:
        who = json.loads(signature)
        holder = f'process {who["pid"]} on {who["host"]} since {who["since"]} ({who["command"]})'
    except (ValueError, KeyError, TypeError):
        holder = 'another process, which has only just begun'
    advice = 'wait until it ends, stop it, or give another folder'
    return f'{folder} is being written by {holder}: {advice}'


@contextlib.contextmanager
def _lease(where) -> Iterator[None]:
    """`writer` without `flock`: each writer puts its own file into the folder, and renews it.

    A writer that then sees no other file may write. Of two that start at the same moment at least
    one sees the other, as a bucket lists what was written before; if both do, the one whose file
    has the later name gives up. A file that does not change for a minute is of a killed writer, and
    is removed. A writer that finds its own file removed, as after a lost connection, ends at once,
    as another may be writing.
    """
    folder = files.path(where)
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / f'{_LOCK}-{time.time_ns():020}-{uuid.uuid4().hex}'
    numbers = itertools.count()
    ended = threading.Event()
    signature = json.loads(_signature()) | {'writes': False}
    sign = lambda: own.write_text(json.dumps(signature | {'renewals': next(numbers)}))
    sign()
    renewing = threading.Thread(target=_renew, args=(own, sign, ended), daemon=True)
    renewing.start()
    try:
        _outlive(folder, own, {path: text for path, text in _leases(folder).items() if path != own})
        signature['writes'] = True  # as the next renewal tells
        yield
    finally:
        ended.set()
        renewing.join()
        own.unlink(missing_ok=True)


def _leases(folder) -> dict:
    """{file: its text} of the leases on a folder."""
    leases = {}
    for path in folder.glob(f'{_LOCK}-*'):
        if not is_lock(path):
            continue
        with contextlib.suppress(FileNotFoundError):  # it ended at this moment
            leases[path] = path.read_text()
    return leases


def _outlive(folder, own, others) -> None:
    """Returns when no lease of `others` is renewed; InputError if one goes before `own`."""
    started = time.monotonic()
    while others:
        if time.monotonic() - started > _LEASE_SECONDS:
            for path in others:
                path.unlink(missing_ok=True)
            return
        _log.info('%s has a writer, or one that was killed: waiting to see', folder)
        time.sleep(_RENEWAL_SECONDS / 2)
        now = _leases(folder)
        for path, text in others.items():
            if now.get(path, text) != text:
                # One of them may have been read while it was written.
                shown = max(text, now[path], key=len)
                if path.name < own.name or '"writes": true' in shown:
                    raise _Held(_refusal(folder, shown))
                started = time.monotonic()  # it has yet to see that it gives up
        others = {path: now[path] for path in others if path in now}


def _renew(own, sign, ended) -> None:
    """Renews a lease until it ends; ends the process if the lease is lost."""
    renewed = time.monotonic()
    while not ended.wait(_RENEWAL_SECONDS):
        try:
            lost = not own.exists()
            if not lost:
                sign()
                renewed = time.monotonic()
        except Exception as error:  # of any library below; what matters is for how long
            _log.warning('%s cannot be renewed: %s', own, error)
            lost = time.monotonic() - renewed > _LEASE_SECONDS
        if lost:
            lost_to = f'error: {own} was lost, and another process may be writing'
            print(f'{lost_to}: run the same command again', file=sys.stderr, flush=True)
            os._exit(Preempted.CODE)  # launchers run the command again
