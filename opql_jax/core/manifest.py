"""Manifests: the file that makes a folder written by this package complete.

A prepared folder, a memory and a search index each have a `manifest.json`, written last: the format
and its version, the size and SHA-256 of every other file, the fields that its kind of folder
declares (`Manifest`), and a checksum of all this. A folder without one is unfinished, one whose
files differ from it is damaged. Sizes are compared when a folder is opened (`check_files`), and the
content of a file before it is read (`checked_file`). The manifest of a knowledge base, `model.json`
and the plans of unfinished folders have the same form, without files (`Header`).
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Generic, TypeVar

import msgspec

from opql_jax.core import files
from opql_jax.core.errors import InputError

MANIFEST = 'manifest.json'
# Where copies of folders in buckets, and selections of pairs, lie, if not in ~/.cache/opql_jax.
CACHE_VARIABLE = 'OPQL_CACHE'

# Files that this process compared with a manifest: path, digest, and the file's `os.stat`.
_checked: set[tuple] = set()
# A file that changed this recently may change again within a tick of the file system's clock.
_RECENT_NS = 100_000_000


class ManifestError(InputError):
    """A folder is missing, unfinished, damaged, or of another format; says which file and why."""

    def __init__(self, message: str):
        # A damaged file may state names of any length and any characters.
        shown = ''.join(c if c.isprintable() else '\N{REPLACEMENT CHARACTER}' for c in message)
        super().__init__(shown if len(shown) < 1000 else f'{shown[:600]} … {shown[-300:]}')


class Header(msgspec.Struct, kw_only=True):
    """What every manifest states; each kind of folder declares its own fields in a subclass."""

    format: str
    version: int


class Manifest(Header, kw_only=True):
    """A manifest that lists files: the digest of every other file, by its path in the folder."""

    files: dict[str, files.Digest]


H = TypeVar('H', bound=Header)
# A plain name of a file or folder, which cannot lead out of the folder that it is in.
FileName = Annotated[str, msgspec.Meta(pattern=r'^\w[\w.-]*\Z')]


@dataclasses.dataclass(frozen=True)
class FolderFormat(Generic[H]):
    """A kind of folder.

    `name` and `version`, the one that is read and written, stand in the manifest, a `manifest` in
    `file`. Messages call it a `noun`, say which command is its `writer`, and how to `repair` a
    damaged one, if not to write it again.
    """

    name: str
    version: int
    noun: str
    writer: str
    manifest: type[H]
    file: str = MANIFEST
    repair: str = ''

    @property
    def advice(self) -> str:
        """What to do about a damaged folder."""
        anew = f'restore the folder from a copy, or delete it and run {self.writer} again'
        return self.repair or anew

    def damaged(self, where: str | os.PathLike, what: object) -> ManifestError:
        """The error to raise for a file that is not what such a folder has there."""
        return ManifestError(f'{where}: {what}; {self.advice}')


def write_manifest(
    folder: str | os.PathLike,
    format: FolderFormat[H],
    fields: Mapping,
    digests: Mapping[str, files.Digest] | None = None,
) -> H:
    """Writes the manifest of a folder whose other files are complete; returns what it holds.

    `digests` are the `files.digest` of every file, by its relative path, None for a kind without.
    """
    header = {'format': format.name, 'version': format.version}
    listed = {} if digests is None else {'files': dict(sorted(digests.items()))}
    stated = msgspec.to_builtins({**fields, **header, **listed}, str_keys=True)
    manifest = msgspec.convert(stated, format.manifest)
    files.write_bytes(files.path(folder) / format.file, sealed(stated))
    return manifest


def sealed(stated: dict) -> bytes:
    """The content of a manifest: what it states as JSON, and at its end a checksum."""
    with_checksum = {**stated, 'checksum': manifest_hash(stated)}
    return (json.dumps(with_checksum, indent=2, ensure_ascii=False) + '\n').encode()


def is_folder_of(folder: str | os.PathLike, format: FolderFormat) -> bool:
    """Whether a folder is one of this format, and so may be written: users' files may look alike.

    InputError: it states the format and is not what this program wrote, or is a link or no file.
    """
    try:
        content = files.read_below(folder, format.file)
        stated = msgspec.json.decode(content)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if not isinstance(stated, dict) or stated.get('format') != format.name:
        return False
    _verified(content, folder, format)
    return True


def read_manifest(folder: str | os.PathLike, format: FolderFormat[H]) -> H:
    """The manifest of a folder on disk or in a bucket; `check_files` compares the files with it.

    ManifestError: none of this format and version, or an altered one. InputError: a link, or no
    file.
    """
    try:
        content = files.read_below(folder, format.file)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        problem = f'{folder} is not {format.noun}, or {format.writer} did not end'
        missing = files.path(folder) / format.file
        raise ManifestError(f'{missing}: no such file; {problem}') from None
    return _verified(content, folder, format)


def _verified(content: bytes, folder: str | os.PathLike, format: FolderFormat[H]) -> H:
    """What the manifest of a folder states; raises as `read_manifest` does."""
    path = files.path(folder) / format.file
    stated = _decode(content, path, format.advice)
    if stated.get('format') != format.name:
        problem = f'not the manifest of {format.noun} (no format {format.name!r})'
        raise ManifestError(f'{path}: {problem}; name the folder of one')
    if (version := stated.get('version')) != format.version:
        problem = f'format version {version}, this program reads {format.version}'
        if isinstance(version, int) and version > format.version:
            problem += f': a newer opql_jax wrote {folder}; update opql_jax'
            raise ManifestError(f'{path}: {problem}')
        anew = format.repair or f'delete {folder} and run {format.writer} again'
        raise ManifestError(f'{path}: {problem}; {anew}')
    return _checked_manifest(stated, content, format.manifest, path, format.advice)


class Plan(Header, forbid_unknown_fields=True, kw_only=True):
    """Noted before an update writes `names`, so that its leftovers are removed and nothing else."""

    names: list[FileName]


def plan_format(name: str, noun: str, writer: str, file: str) -> FolderFormat[Plan]:
    """The format of a `Plan`, version 1."""
    return FolderFormat(name, 1, noun, writer, Plan, file, 'delete this file')


def plan_update(
    folder: pathlib.Path, plan: FolderFormat[Plan], replaced: Iterable[str], written: Iterable[str]
) -> None:
    """Notes what an update replaces and writes, beside older notes; InputError on others' files."""
    known = is_folder_of(folder, plan)
    noted = set(read_manifest(folder, plan).names) if known else set()
    for name in ({*written} - noted) | (set() if known else {plan.file}):
        if os.path.lexists(folder / name):  # also a link to nothing
            problem = f'{folder / name} is in the way, and nothing that {plan.writer} wrote'
            raise InputError(f'{problem}: move it elsewhere')
    write_manifest(folder, plan, {'names': sorted({*noted, *replaced, *written})})


def check_files(folder: pathlib.Path, manifest: Manifest, format: FolderFormat) -> None:
    """Raises InputError, naming the file, unless each is there, plain, and of the stated size."""
    for name, digest in manifest.files.items():
        file = folder / name
        try:
            with files.opened_below(folder, name) as opened:
                actual = os.fstat(opened.fileno()).st_size
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise format.damaged(file, f'listed in {format.file} but missing') from None
        except OSError as error:
            raise format.damaged(file, f'cannot be read ({error.strerror})') from error
        if actual != digest.bytes:
            stated = f'{format.file} says {digest.bytes}: truncated or overwritten'
            raise format.damaged(file, f'{actual} bytes, {stated}')


def checked_file(
    folder: pathlib.Path, name: str, manifest: Manifest, format: FolderFormat
) -> pathlib.Path:
    """The path of a file to read, once its content was compared with the digest that is listed."""
    file = folder / name
    if (digest := manifest.files.get(name)) is None:
        raise format.damaged(folder / format.file, f'lists no file {name}')
    try:
        with files.opened_below(folder, name) as opened:
            state = os.fstat(opened.fileno())
            changed = state.st_size, state.st_mtime_ns, state.st_ctime_ns
            key = (file, digest, state.st_dev, state.st_ino, *changed)
            if key in _checked:
                return file
            actual = files.digest_of(opened)
    except OSError as error:
        raise format.damaged(file, f'cannot be read ({error.strerror})') from error
    if actual != digest:
        other = f'its sha256 is not the one in {format.file}: damaged or overwritten'
        raise format.damaged(file, other)
    if time.time_ns() - state.st_ctime_ns > _RECENT_NS:
        _checked.add(key)
    return file


def verify_files(folder: pathlib.Path, manifest: Manifest, format: FolderFormat) -> None:
    """`checked_file` for all files, of which several are read at a time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: checked_file(folder, name, manifest, format), manifest.files))


def manifest_hash(manifest: Manifest | Mapping) -> str:
    """Hex SHA-256 of what a manifest states, which identifies the content of its folder."""
    stated = json.dumps(msgspec.to_builtins(manifest), sort_keys=True)
    return hashlib.sha256(stated.encode()).hexdigest()


def cache_folder() -> pathlib.Path:
    """Where this machine keeps what it can make again."""
    default = pathlib.Path.home() / '.cache' / 'opql_jax'
    return pathlib.Path(os.environ.get(CACHE_VARIABLE) or default)


def local_copy(folder: str | os.PathLike) -> pathlib.Path:
    """A finished folder on disk, or a cached copy of one in a bucket; ManifestError if damaged."""
    if not files.is_remote(folder):
        return pathlib.Path(folder)
    source = files.path(folder)
    if not (source / MANIFEST).exists():
        raise ManifestError(f'{source / MANIFEST}: no such file; {source} is not a finished folder')
    content = (source / MANIFEST).read_bytes()
    advice = 'copy the folder into the bucket again'
    stated = _decode(content, source / MANIFEST, advice)
    digests = _checked_manifest(stated, content, Manifest, source / MANIFEST, advice).files
    cache = cache_folder()
    state = hashlib.sha256(os.fspath(source).encode() + b' ' + content).hexdigest()
    copy = cache / f'{source.name}-{state[:16]}'
    if copy.exists():
        return copy
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f'{copy.name}.', dir=cache) as temporary:
        whole = pathlib.Path(temporary, 'whole')
        for name, digest in digests.items():
            if not (source / name).exists():
                raise ManifestError(f'{source / name}: listed in {MANIFEST} but missing')
            files.copy(source / name, whole / name)
            if files.digest(whole / name) != digest:
                problem = f'not what {MANIFEST} says: truncated or overwritten'
                raise ManifestError(f'{source / name}: {problem}')
        whole.mkdir(exist_ok=True)
        (whole / MANIFEST).write_bytes(content)
        try:
            whole.rename(copy)
        except OSError:
            if not copy.exists():  # another process was faster
                raise
    return copy


def _decode(content: bytes, path, advice: str) -> dict:
    """What a manifest states, whatever it is."""
    try:
        return msgspec.json.decode(content, type=dict)
    except msgspec.ValidationError as error:
        raise ManifestError(f'{path}: not what this program writes: {error}') from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f'not valid JSON ({error}): damaged, or of another program'
        raise ManifestError(f'{path}: {problem}; if it is ours, {advice}') from error


def _checked_manifest(stated: dict, content: bytes, type: type[H], path, advice: str) -> H:
    """What a manifest states, once its fields, file names and checksum were checked."""
    stated.pop('checksum', None)
    try:
        manifest = msgspec.convert(stated, type)
    except msgspec.ValidationError as error:
        raise ManifestError(f'{path}: not what this program writes: {error}') from error
    for name in manifest.files if isinstance(manifest, Manifest) else ():
        leads_out = {'', '.', '..'} & set(name.split('/'))
        if leads_out or name == MANIFEST or '\\' in name or not name.isprintable():
            raise ManifestError(f'{path}: {name!r} is not the name of a file inside the folder')
    if sealed(stated) != content:
        edited = 'its checksum is not that of its content: damaged or edited'
        raise ManifestError(f'{path}: {edited}; {advice}')
    return manifest
