"""Where folders lie: on disk, or in a bucket (gs://bucket/folder), which the same code reads and writes.

In a bucket a file appears when it is whole; it has no locks and no renames, and nothing in it can be mapped into memory. So a
finished folder, one with a manifest, is copied to disk before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import tempfile

from etils import epath

from opql_jax.corpus.errors import InputError

MANIFEST = 'manifest.json'
SCHEMES = ('gs://', 's3://')
# Where copies of folders of buckets are kept, if not in ~/.cache/opql_jax.
CACHE = 'OPQL_CACHE'


def is_remote(where: str | os.PathLike) -> bool:
    """Whether it is in a bucket.

    Raises:
        InputError: it is a URL of something else.
    """
    text = os.fspath(where)
    if '://' in text and not text.startswith(SCHEMES):
        raise InputError(f'{text}: folders lie on disk or in buckets, {" and ".join(SCHEMES)}')
    return '://' in text


def path(where: str | os.PathLike) -> pathlib.Path | epath.Path:
    """A path whose methods work where it is."""
    return epath.Path(where) if is_remote(where) else pathlib.Path(where)


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


def rmtree(folder: str | os.PathLike) -> None:
    """Removes a folder with all that is in it."""
    if is_remote(folder):
        path(folder).rmtree()
    else:
        shutil.rmtree(folder)


def put_folder(folder: pathlib.Path, where: str | os.PathLike) -> None:
    """Copies all files of a folder on disk to another place."""
    for file in sorted(file for file in folder.rglob('*') if file.is_file()):
        copy(file, path(where) / file.relative_to(folder).as_posix())


def copy(source: pathlib.Path | epath.Path, target: pathlib.Path | epath.Path) -> None:
    """Copies a file, to or from a bucket."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open('rb') as read, target.open('wb') as written:
        shutil.copyfileobj(read, written, 1 << 24)


def local(folder: str | os.PathLike) -> pathlib.Path:
    """A finished folder on disk: itself, or a copy of one in a bucket, made once for each state that its manifest tells.

    A folder of a bucket without a manifest, or of another kind, gives a folder without one, for the reader to complain about.

    Raises:
        InputError: a file that the manifest lists is missing in the bucket, or has another size.
    """
    if not is_remote(folder):
        return pathlib.Path(folder)
    source, cache = path(folder), pathlib.Path(os.environ.get(CACHE) or pathlib.Path.home() / '.cache' / 'opql_jax')
    stated = (source / MANIFEST).read_bytes() if (source / MANIFEST).exists() else b''
    kept = cache / f'{source.name}-{hashlib.sha256(os.fspath(source).encode() + b" " + stated).hexdigest()[:16]}'
    try:
        files = json.loads(stated)['files'].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        files = ()
    if not stated or kept.exists():
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'{kept.name}.', dir=cache) as partial:
        whole = pathlib.Path(partial, 'whole')
        for name, expected in files:
            if not (source / name).exists():
                raise InputError(f'{source / name}: listed in {MANIFEST} but missing')
            copy(source / name, whole / name)
            if (found := size(whole / name)) != expected['bytes']:
                raise InputError(
                    f'{source / name}: {found} bytes, {MANIFEST} says {expected["bytes"]}: truncated or overwritten'
                )
        whole.mkdir(exist_ok=True)
        (whole / MANIFEST).write_bytes(stated)
        try:
            whole.rename(kept)
        except OSError:
            if not kept.exists():  # another process was faster
                raise
    return kept
