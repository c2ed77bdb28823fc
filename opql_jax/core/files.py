"""Where folders lie: on disk, or in a bucket (gs://bucket/folder), which the same code reads and writes.

A bucket has no locks and no folders, and nothing in it can be mapped into memory. So a finished folder, one with a manifest, is
copied to disk before it is used.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import pathlib
import shutil
import tempfile
from typing import BinaryIO

import fsspec.config
from etils import epath

from opql_jax.core.errors import InputError

MANIFEST = 'manifest.json'
SCHEME = 'gs://'
# Where copies of folders of buckets are kept, if not in ~/.cache/opql_jax.
CACHE = 'OPQL_CACHE'
_CHUNK = 1 << 24


def is_remote(where: str | os.PathLike) -> bool:
    """Whether it is in a bucket.

    Raises:
        InputError: it is a URL of something else.
    """
    text = os.fspath(where)
    if '://' in text and not text.startswith(SCHEME):
        raise InputError(f'{text}: folders lie on disk or in buckets, {SCHEME}')
    return '://' in text


def path(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """A path whose methods work where it is."""
    if not is_remote(where):
        return pathlib.Path(where)
    _look_anew()
    return epath.Path(where)


def absolute(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """`path`, from the root; etils would take a bucket for a folder of the working directory."""
    return path(where) if is_remote(where) else pathlib.Path(where).absolute()


@functools.cache
def _look_anew():
    # gcsfs would answer for ever from the first list of a folder, and what others write would not be seen.
    fsspec.config.conf.setdefault('gs', {}).setdefault('use_listings_cache', False)


def on_disk(where: str | os.PathLike) -> pathlib.Path:
    """The path of what can only be on disk.

    Raises:
        InputError: it is in a bucket.
    """
    if is_remote(where):
        raise InputError(
            f'{os.fspath(where)}: this is only done on disk: name a local folder, and copy it (gcloud storage cp -r)'
        )
    return pathlib.Path(where)


def size(where: str | os.PathLike) -> int:
    """Bytes of a file; FileNotFoundError or NotADirectoryError if there is none."""
    return path(where).stat().length if is_remote(where) else os.stat(where).st_size


def reader(where: str | os.PathLike) -> BinaryIO:
    """A file opened for reading; one in a bucket is in memory then.

    Raises:
        OSError: it cannot be read.
    """
    return io.BytesIO(path(where).read_bytes()) if is_remote(where) else open(where, 'rb')


def sha256(where: str | os.PathLike) -> str:
    """The hex digest of a file's bytes."""
    digest = hashlib.sha256()
    with path(where).open('rb') as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def rmtree(folder: str | os.PathLike) -> None:
    """Removes a folder with all that is in it."""
    if is_remote(folder):
        path(folder).rmtree()
    else:
        shutil.rmtree(folder)


def put(file: pathlib.Path, where: epath.Path) -> None:
    """Copies a file on disk into a bucket, under its name when it is whole: an upload that is interrupted leaves what it has sent."""
    partial = where.with_name(f'.{where.name}.{os.getpid()}.partial')
    _copy(file, partial)
    partial.replace(where)


def put_folder(folder: pathlib.Path, where: str | os.PathLike) -> None:
    """Copies all files of a folder on disk to another place."""
    for file in sorted(file for file in folder.rglob('*') if file.is_file()):
        target = path(where) / file.relative_to(folder).as_posix()
        if is_remote(where):
            put(file, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _copy(file, target)


def _copy(source, target):
    with source.open('rb') as read, target.open('wb') as written:
        shutil.copyfileobj(read, written, _CHUNK)


def local(folder: str | os.PathLike, error: type[InputError] = InputError) -> pathlib.Path:
    """A finished folder on disk: itself, or a copy of one in a bucket, made once for each state that its manifest tells.

    Args:
        error: what to raise where a bucket has no such folder, or a file of it is missing or is not what the manifest says.
    """
    if not is_remote(folder):
        return pathlib.Path(folder)
    source, cache = path(folder), pathlib.Path(os.environ.get(CACHE) or pathlib.Path.home() / '.cache' / 'opql_jax')
    if not (source / MANIFEST).exists():
        raise error(f'{source / MANIFEST}: no such file; {source} is not a finished folder')
    stated = (source / MANIFEST).read_bytes()
    kept = cache / f'{source.name}-{hashlib.sha256(os.fspath(source).encode() + b" " + stated).hexdigest()[:16]}'
    if kept.exists():
        return kept
    try:
        files = {name: (expected['bytes'], expected['sha256']) for name, expected in json.loads(stated)['files'].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise error(f'{source / MANIFEST}: not the manifest of a finished folder ({type(wrong).__name__}: {wrong})') from wrong
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'{kept.name}.', dir=cache) as partial:
        whole = pathlib.Path(partial, 'whole')
        for name, expected in files.items():
            if not (source / name).exists():
                raise error(f'{source / name}: listed in {MANIFEST} but missing')
            (whole / name).parent.mkdir(parents=True, exist_ok=True)
            _copy(source / name, whole / name)
            _on_disk_now(whole / name)
            if (size(whole / name), sha256(whole / name)) != expected:
                raise error(f'{source / name}: not what {MANIFEST} says: truncated or overwritten')
        whole.mkdir(exist_ok=True)
        (whole / MANIFEST).write_bytes(stated)
        _on_disk_now(whole / MANIFEST)
        try:
            whole.rename(kept)
        except OSError:
            if not kept.exists():  # another process was faster
                raise
    return kept


def _on_disk_now(file):
    with open(file, 'rb') as opened:
        os.fsync(opened.fileno())
