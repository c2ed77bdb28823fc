"""Files on disk or in a bucket (gs://bucket/folder), behind one interface: paths, digests, and writes that are whole or absent.

A bucket has no folders and no locks, and nothing in it can be mapped into memory; `manifest.local_copy` copies a finished folder
to disk before it is used.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Annotated

import fsspec.config
import msgspec
from etils import epath

from opql_jax.core.errors import InputError

_SCHEME = 'gs://'
_CHUNK_BYTES = 1 << 24


def is_remote(where: str | os.PathLike) -> bool:
    """Whether a path is in a bucket.

    Raises:
        InputError: it is a URL of something else.
    """
    text = os.fspath(where)
    if '://' in text and not text.startswith(_SCHEME):
        raise InputError(f'{text}: folders lie on disk or in buckets, {_SCHEME}')
    return '://' in text


def path(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """A path on disk, or one with the same methods in a bucket."""
    # Paths on disk are not given to etils: it takes '[' in a folder's name for a pattern, and asks who owns a file.
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
        raise InputError("folders in buckets need gcsfs: install the extra 'gcs', as in pip install -e '.[gcs]'")
    os.environ['EPATH_USE_TF'] = 'false'  # where TensorFlow is installed, etils would take its code for buckets
    # gcsfs would answer for ever from the first list of a folder, and what others write would not be seen.
    fsspec.config.conf.setdefault('gs', {}).setdefault('use_listings_cache', False)


def require_local(where: str | os.PathLike) -> pathlib.Path:
    """The path of something that can only be done on disk.

    Raises:
        InputError: it is in a bucket.
    """
    if is_remote(where):
        raise InputError(
            f'{os.fspath(where)}: this is only done on disk: name a local folder, and copy it (gcloud storage cp -r)'
        )
    return pathlib.Path(where)


class Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size of a file and its hex SHA-256, as manifests state them."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern='^[0-9a-f]{64}$')]


def digest(where: str | os.PathLike) -> Digest:
    """The digest of a file."""
    with path(where).open('rb') as file:
        sha256 = hashlib.file_digest(file, 'sha256').hexdigest()
        return Digest(file.seek(0, os.SEEK_END), sha256)


def sha256(where: str | os.PathLike) -> str:
    """The hex SHA-256 of a file."""
    return digest(where).sha256


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


def copy_folder(folder: pathlib.Path, target: str | os.PathLike) -> None:
    """Copies all files of a folder on disk to another place."""
    for file in sorted(file for file in folder.rglob('*') if file.is_file()):
        copy(file, path(target) / file.relative_to(folder).as_posix())


def _copy_bytes(source, target):
    with source.open('rb') as reader, target.open('wb') as writer:
        shutil.copyfileobj(reader, writer, _CHUNK_BYTES)


@contextlib.contextmanager
def atomic_path(where: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path on disk; a clean exit makes its file `where`, an exception removes it.

    The bytes are on disk before the rename, so a reader (or a run after a crash) finds either the
    old file or the whole new one. A file for a bucket is uploaded under another name first.

    Raises:
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
        raise InputError(f'{target} is a folder or a device, and would be replaced: give the name of a file')
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


def refuse_link(where: str | os.PathLike) -> None:
    """Raises InputError where the file that a user names for output is a link, which `atomic_path` would replace."""
    if os.path.islink(where):
        raise InputError(f'{where} is a link, which would be replaced: give the name of a file')


def remove_partials(folder: str | os.PathLike, *names: str) -> None:
    """Removes what killed runs left of files that they wrote by `atomic_path`; `names` in the folder may be patterns."""
    for parent, slash, name in (name.rpartition('/') for name in names):
        for partial in path(folder).glob(f'{parent}{slash}.{name}.*.partial'):
            if partial.name.split('.')[-2].isdigit():
                partial.unlink(missing_ok=True)


def remove_own(folder: pathlib.Path, *names: str) -> None:
    """Removes files of a folder on disk, by patterns of their names; then the folder, unless files of somebody else are in it.

    Of a link to a folder, only the link is removed.
    """
    if folder.is_symlink():
        folder.unlink()
        return
    for path in [path for name in names for path in folder.glob(name)]:
        path.unlink()
    remove_partials(folder, *names)
    if not any(folder.iterdir()):
        folder.rmdir()


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
