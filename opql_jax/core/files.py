"""Files on disk or in a bucket (gs://bucket/folder), behind one interface.

Paths, digests, and writes that are whole or absent.

A bucket has no folders and no locks, and nothing in it can be mapped into memory;
`manifest.local_copy` copies a finished folder to disk before it is used.

A received folder may hold links to the user's files. So what lies below a folder is reached through
`open_below`, which follows no link: to read a file (`opened_below`, or `below` for a library that
takes a path), to write one (`atomic_path(below(folder, name))`), to list (`names_below`) and to
remove (`remove_below`). The folder's own path is the user's, and may lead through links.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import hashlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import Annotated

import fsspec.config
import msgspec
from etils import epath

from opql_jax.core.errors import InputError

_SCHEME = 'gs://'
_CHUNK_BYTES = 1 << 24
# The name under which `atomic_path` writes a file: its own, and the number of the process.
_PARTIAL = re.compile(r'\.(.+)\.\d+\.partial')


def is_remote(where: str | os.PathLike) -> bool:
    """Whether a path is in a bucket; InputError if it is a URL of something else."""
    text = os.fspath(where)
    if '://' in text and not text.startswith(_SCHEME):
        raise InputError(f'{text}: folders lie on disk or in buckets, {_SCHEME}')
    return '://' in text


def path(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """A path on disk, or one with the same methods in a bucket."""
    # Not etils on disk: it takes '[' in a folder's name for a pattern, and asks who owns a file.
    if not is_remote(where):
        return pathlib.Path(where)
    _use_gcsfs()
    return epath.Path(where)


def absolute(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """`path` from the root; etils would take a bucket for a folder of the working directory."""
    return path(where) if is_remote(where) else pathlib.Path(where).absolute()


@functools.cache
def _use_gcsfs() -> None:
    """Makes etils reach buckets through gcsfs; InputError if it is not installed."""
    if importlib.util.find_spec('gcsfs') is None:
        raise InputError("folders in buckets need gcsfs: pip install -e '.[gcs]'")
    # Where TensorFlow is installed, etils would take its code for buckets.
    os.environ['EPATH_USE_TF'] = 'false'
    # gcsfs would cache the first listing of a folder for ever, and miss what others write.
    fsspec.config.conf.setdefault('gs', {}).setdefault('use_listings_cache', False)


def require_local(where: str | os.PathLike) -> pathlib.Path:
    """The path of something that can only be done on disk; InputError if it is in a bucket."""
    if is_remote(where):
        there = f'{os.fspath(where)}: this is only done on disk'
        raise InputError(f'{there}: name a local folder, and copy it (gcloud storage cp -r)')
    return pathlib.Path(where)


class Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size of a file and its hex SHA-256, as manifests state them."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern='^[0-9a-f]{64}$')]


def digest(where: str | os.PathLike) -> Digest:
    """The digest of a file."""
    with path(where).open('rb') as file:
        return digest_of(file)


def digest_of(file: io.BufferedReader) -> Digest:
    """The digest of a file that is open at its start."""
    sha256 = hashlib.file_digest(file, 'sha256').hexdigest()
    return Digest(file.seek(0, os.SEEK_END), sha256)


def sha256(where: str | os.PathLike) -> str:
    """The hex SHA-256 of a file."""
    return digest(where).sha256


def open_below(folder: str | os.PathLike, name: str) -> int:
    """The descriptor of a file or folder below a folder on disk ('': itself), opened for reading.

    It never blocks. InputError: something on the way is a link, a mount point, or neither a file
    nor a folder. OSError: it is missing, or cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    where, device = os.fspath(folder), os.fstat(handle).st_dev
    for part in pathlib.PurePath(name).parts:
        where = os.path.join(where, part)
        try:
            # Looked at before it is opened, as to open a device may do something.
            _refuse(_lstat(part, handle), where, device)
            inner = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
        except OSError as error:
            error.filename = where
            raise
        finally:
            os.close(handle)
        handle = inner
    return handle


def _refuse(state: os.stat_result, where: str, device: int) -> None:
    """Raises InputError unless an entry is a plain file, or a folder on the same device."""
    kind = 'neither a file nor a folder'
    if stat.S_ISLNK(state.st_mode):
        kind = 'a link'
    elif stat.S_ISREG(state.st_mode):
        return  # files of an overlay, as of a container, may have another device than its folders
    elif stat.S_ISDIR(state.st_mode):
        if state.st_dev == device:
            return
        kind = 'a mount point'
    raise InputError(
        f'{where} is {kind}; nothing below a knowledge base may be one: put a '
        'copy of the file or folder there'
    )


def opened_below(folder: str | os.PathLike, name: str) -> io.BufferedReader:
    """A file below a folder, on disk or in a bucket, open to be read; errors as of `open_below`."""
    if is_remote(folder):
        return (path(folder) / name).open('rb')
    handle = open_below(folder, name)
    try:
        return os.fdopen(handle, 'rb')
    except OSError as error:  # it is a folder
        os.close(handle)
        error.filename = os.path.join(folder, name)
        raise


def read_below(folder: str | os.PathLike, name: str) -> bytes:
    """The content of a file below a folder, see `opened_below`."""
    with opened_below(folder, name) as file:
        return file.read()


def below(folder: str | os.PathLike, name: str) -> pathlib.Path | epath.Path:
    """The path of what is, or is to be, below a folder; errors as of `open_below`."""
    if not is_remote(folder):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.close(open_below(folder, name))
    return path(folder) / name


def names_below(folder: str | os.PathLike, name: str = '', depth: int | None = None) -> list[str]:
    """The names, with slashes, of all below a folder but folders, on disk or in a bucket.

    Links are named and not followed. `name` is a folder below to start in, which may be missing;
    `depth` limits the levels of folders. InputError as of `open_below`, for `name`.
    """
    names = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for each, is_folder in _listed(folder, name):
            inner = f'{name}/{each}' if name else each
            if not is_folder:
                names.append(inner)
            elif depth != 0:
                names += names_below(folder, inner, None if depth is None else depth - 1)
    return names


def _listed(folder, name) -> list[tuple[str, bool]]:
    """The entries of a subfolder, in order, and whether each is a folder; without mount points."""
    if is_remote(folder):
        return sorted((each.name, each.is_dir()) for each in (path(folder) / name).iterdir())
    with _folder_below(folder, name) as handle:
        device = os.fstat(handle).st_dev
        states = {each: _lstat(each, handle) for each in sorted(os.listdir(handle))}
    is_folder = {each: stat.S_ISDIR(state.st_mode) for each, state in states.items()}
    return [
        (each, is_folder[each])
        for each, state in states.items()
        if not is_folder[each] or state.st_dev == device
    ]


def remove_below(folder: str | os.PathLike, names: Iterable[str]) -> int:
    """Removes files below a folder by name, of links not the targets; returns the bytes freed."""
    freed = 0
    # What is behind a link is somebody else's.
    passed_over = FileNotFoundError, NotADirectoryError, InputError
    for name in names:
        parent, _, last = name.rpartition('/')
        if is_remote(folder):
            (path(folder) / name).unlink(missing_ok=True)
            continue
        with contextlib.suppress(*passed_over), _folder_below(folder, parent) as handle:
            state = _lstat(last, handle)
            if not stat.S_ISDIR(state.st_mode):
                _at(os.unlink, last, handle, os.path.join(folder, name))
                freed += state.st_size
    return freed


def remove_empty(folder: str | os.PathLike, name: str) -> None:
    """Removes empty folders below a folder on disk, and it too if it is empty. Follows no link."""
    parent, _, last = name.rpartition('/')
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError):
        with _folder_below(folder, name) as handle:
            inner = [one for one in os.listdir(handle) if stat.S_ISDIR(_lstat(one, handle).st_mode)]
        for each in inner:
            remove_empty(folder, f'{name}/{each}')
        with _folder_below(folder, parent) as handle:
            try:
                _at(os.rmdir, last, handle, os.path.join(folder, name))
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def _lstat(name: str, handle: int) -> os.stat_result:
    """The state of something in an open folder, of a link its own."""
    return os.stat(name, dir_fd=handle, follow_symlinks=False)


def _at(call, name: str, handle: int, where: str) -> None:
    """Calls `os.unlink` or `os.rmdir`; an OSError names the whole path."""
    try:
        call(name, dir_fd=handle)
    except OSError as error:
        error.filename = where
        raise


@contextlib.contextmanager
def _folder_below(folder, name) -> Iterator[int]:
    """`open_below` of a folder, closed in the end; NotADirectoryError if it is a file."""
    handle = open_below(folder, name)
    try:
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            code, path = errno.ENOTDIR, os.path.join(folder, name)
            raise NotADirectoryError(code, os.strerror(code), path)
        yield handle
    finally:
        os.close(handle)


def refuse_links(folder: str | os.PathLike, name: str = '') -> None:
    """Checks all below a folder on disk, for a library that opens it; errors as of `open_below`."""
    missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    with missing, _folder_below(folder, name) as handle:
        where, device = os.path.join(folder, name), os.fstat(handle).st_dev
        for each in os.listdir(handle):
            state = _lstat(each, handle)
            _refuse(state, os.path.join(where, each), device)
            if stat.S_ISDIR(state.st_mode):
                refuse_links(folder, os.path.join(name, each))


def rmtree(folder: str | os.PathLike) -> None:
    """Removes a folder with everything in it; an OSError names it."""
    if is_remote(folder):
        epath.Path(folder).rmtree()
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:  # which names a file below it without its folder
        error.filename = os.fspath(folder)
        raise


def copy(source: pathlib.Path | epath.Path, target: pathlib.Path | epath.Path) -> None:
    """Copies a file from or to a bucket, or on disk; `target` appears when it is whole."""
    with atomic_path(target) as partial:
        _copy_bytes(source, partial)


def _copy_bytes(source, target):
    with source.open('rb') as reader, target.open('wb') as writer:
        shutil.copyfileobj(reader, writer, _CHUNK_BYTES)


@contextlib.contextmanager
def atomic_path(where: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path, whose file a clean exit makes `where` and an exception removes.

    The bytes are on disk before the rename, so a reader (or a run after a crash) finds either the
    old file or the whole new one. A file for a bucket is uploaded under another name first.
    InputError: something else than a file has that name.
    """
    target = path(where)
    partial_name = f'.{target.name}.{os.getpid()}.partial'
    if is_remote(where):
        with tempfile.TemporaryDirectory() as folder:
            local = pathlib.Path(folder, target.name)
            yield local
            partial = target.with_name(partial_name)
            _copy_bytes(local, partial)
            partial.replace(target)
        return
    if target.exists() and not target.is_file() and not target.is_symlink():
        replaced = f'{target} is a folder or a device, and would be replaced'
        raise InputError(f'{replaced}: give the name of a file')
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(partial_name)
    if partial.exists() or partial.is_symlink():
        partial.unlink()  # of a killed process of this number; or a link, which would be followed
    try:
        try:
            yield partial
        except OSError as error:
            if error.errno and not error.filename:  # a full disk
                error.filename = str(target)
            raise
        _sync(partial)
        os.replace(partial, target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_bytes(where: str | os.PathLike, content: bytes | memoryview) -> None:
    """Writes a file, whole or not at all, as `atomic_path` does."""
    with atomic_path(where) as partial:
        partial.write_bytes(content)


def refuse_link(where: str | os.PathLike) -> None:
    """Raises InputError if the user's output file is a link, which `atomic_path` would replace."""
    if os.path.islink(where):
        raise InputError(f'{where} is a link, which would be replaced: give the name of a file')


def remove_partials(folder: str | os.PathLike, *names: str) -> None:
    """Removes what killed runs left of files that `atomic_path` wrote; `names` may be patterns."""
    present = names_below(folder, depth=max(name.count('/') for name in names)) if names else []
    left = [name for name in present if (whole := whole_name(name)) and matches(whole, names)]
    remove_below(folder, left)


def whole_name(name: str) -> str | None:
    """The final name of a file, by the temporary one of `atomic_path`; None for other names."""
    parent, slash, last = name.rpartition('/')
    match = _PARTIAL.fullmatch(last)
    return match and f'{parent}{slash}{match[1]}'


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a file name matches one of some patterns, whose `*` matches no slash."""
    same_depth = (each for each in patterns if name.count('/') == each.count('/'))
    return any(fnmatch.fnmatchcase(name, each) for each in same_depth)


def _sync(where: pathlib.Path) -> None:
    """Returns when a file, or the list of a folder's files, is on the disk itself."""
    handle = os.open(where, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        error.filename = os.fspath(where)
        raise
    finally:
        os.close(handle)
