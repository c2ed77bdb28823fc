"""Manifests: the file that makes a folder written by this package complete.

A prepared folder, a memory and a search index are each a folder with a `manifest.json`, which is written last. It states the
format and its version, the size and SHA-256 of every other file, and whatever else its writer wants readers to know:

    {"format": "opql-memory", "version": 1, ..., "files": {"topic.npy": {"bytes": 4128, "sha256": "9f86d0..."}, ...}}

A folder without a manifest is unfinished; a folder whose files differ from its manifest is damaged.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping

from opql_jax.core import files
from opql_jax.core.errors import InputError

MANIFEST = 'manifest.json'
# Where copies of folders in buckets lie, if not in ~/.cache/opql_jax.
CACHE_VARIABLE = 'OPQL_CACHE'


class ManifestError(InputError):
    """A folder is missing, unfinished, damaged, or not of the expected format; the message says which file and what to do."""


@dataclasses.dataclass(frozen=True)
class FolderFormat:
    """A kind of folder.

    Attributes:
        name: in the manifest, such as 'opql-prepared'.
        version: the one version of the format that this package reads and writes.
        noun: for messages, such as 'a prepared folder'.
        writer: the command that writes such folders.
    """

    name: str
    version: int
    noun: str
    writer: str

    @property
    def advice(self) -> str:
        """What to do about a damaged folder."""
        return f'restore the folder from a copy, or delete it and run {self.writer} again'


def write_manifest(folder: str | os.PathLike, format: FolderFormat, fields: Mapping, digests: Mapping[str, dict]) -> dict:
    """Writes the manifest of a folder whose other files are complete; returns what it holds.

    Args:
        folder: on disk or in a bucket.
        format: the kind of folder.
        fields: what else the manifest states; JSON values.
        digests: the `files.digest` of every file, by its path relative to the folder.
    """
    manifest = {'format': format.name, 'version': format.version, **fields, 'files': dict(sorted(digests.items()))}
    with files.atomic_path(files.path(folder) / MANIFEST) as partial:
        partial.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    return manifest


def read_manifest(folder: str | os.PathLike, format: FolderFormat) -> dict:
    """The manifest of a folder on disk or in a bucket; `check_files` compares the files with it.

    Raises:
        ManifestError: there is none, or it is not one of this format and version.
    """
    path = files.path(folder) / MANIFEST
    if not path.is_file():
        raise ManifestError(f'{path}: no such file; {folder} is not {format.noun}, or {format.writer} did not end')
    try:
        manifest = json.loads(path.read_text(encoding='utf-8'))
    except ValueError as error:
        raise ManifestError(f'{path}: not valid JSON ({error}); {format.advice}') from error
    if not isinstance(manifest, dict) or manifest.get('format') != format.name:
        raise ManifestError(f'{path}: not the manifest of {format.noun} (no format {format.name!r})')
    if manifest.get('version') != format.version:
        raise ManifestError(
            f'{path}: format version {manifest.get("version")}, this program reads {format.version}; {format.advice}'
        )
    _file_digests(manifest, path)
    return manifest


def check_files(folder: pathlib.Path, manifest: Mapping, format: FolderFormat) -> None:
    """Raises ManifestError, naming the file, unless every file of a manifest is there and has the size that it states."""
    for name, (size, _) in _file_digests(manifest, folder / MANIFEST).items():
        file = folder / name
        if not file.is_file():
            raise ManifestError(f'{file}: listed in {MANIFEST} but missing; {format.advice}')
        if (actual := file.stat().st_size) != size:
            raise ManifestError(f'{file}: {actual} bytes, {MANIFEST} says {size}: truncated or overwritten; {format.advice}')


def manifest_hash(manifest: Mapping) -> str:
    """Hex SHA-256 of what a manifest states, which identifies the content of its folder: the digest of every file enters it."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def local_copy(folder: str | os.PathLike) -> pathlib.Path:
    """A finished folder on disk: itself, or a copy of one in a bucket, made once for each state of its manifest.

    Raises:
        ManifestError: a bucket has no such folder, or a file of it is missing or is not what the manifest says.
    """
    if not files.is_remote(folder):
        return pathlib.Path(folder)
    source = files.path(folder)
    if not (source / MANIFEST).exists():
        raise ManifestError(f'{source / MANIFEST}: no such file; {source} is not a finished folder')
    text = (source / MANIFEST).read_bytes()
    try:
        digests = _file_digests(json.loads(text), source / MANIFEST)
    except ValueError as error:
        raise ManifestError(f'{source / MANIFEST}: not the manifest of a finished folder ({error})') from error
    cache = pathlib.Path(os.environ.get(CACHE_VARIABLE) or pathlib.Path.home() / '.cache' / 'opql_jax')
    copy = cache / f'{source.name}-{hashlib.sha256(os.fspath(source).encode() + b" " + text).hexdigest()[:16]}'
    if copy.exists():
        return copy
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'{copy.name}.', dir=cache) as temporary:
        whole = pathlib.Path(temporary, 'whole')
        for name, digest in digests.items():
            if not (source / name).exists():
                raise ManifestError(f'{source / name}: listed in {MANIFEST} but missing')
            files.copy(source / name, whole / name)
            if tuple(files.digest(whole / name).values()) != digest:
                raise ManifestError(f'{source / name}: not what {MANIFEST} says: truncated or overwritten')
        files.copy(source / MANIFEST, whole / MANIFEST)
        try:
            whole.rename(copy)
        except OSError:
            if not copy.exists():  # another process was faster
                raise
    return copy


def _file_digests(manifest, path) -> dict[str, tuple[int, str]]:
    """The (bytes, sha256) of each file; names are paths that lie inside the folder."""
    try:
        digests = {name: (digest['bytes'], digest['sha256']) for name, digest in manifest['files'].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f'{path}: the files it lists have no bytes and sha256 ({type(error).__name__}: {error})') from error
    for name in digests:
        if pathlib.PurePosixPath(name).is_absolute() or '..' in pathlib.PurePosixPath(name).parts:
            raise ManifestError(f'{path}: {name!r} is not the name of a file inside the folder')
    return digests
