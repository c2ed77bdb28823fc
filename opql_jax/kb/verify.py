"""Checks whether folders are what their manifests say, file by file."""

import os
import pathlib
from collections.abc import Callable, Iterator

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import MANIFEST, FolderFormat, ManifestError, checked_file, read_manifest
from opql_jax.corpus import tables
from opql_jax.corpus.json_lines import read_json
from opql_jax.data import kb_folder
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.memory import ann, manifest
from opql_jax.memory.format import Memory
from opql_jax.training import model_config

# Opens everything in a folder of a format, and raises InputError for what digests do not show.
_OPEN: dict[FolderFormat, Callable[[pathlib.Path], None]] = {
    tables.PREPARED: lambda folder: Prepared(folder).check(),
    manifest.FORMAT: lambda folder: Memory.open(folder).verify(),
    ann.FORMAT: lambda folder: ann.check_files(folder, read_manifest(folder, ann.FORMAT)),
}
_MODEL = 'model.json'


def verify(folder: str | os.PathLike, say: Callable[[str], None]) -> list[str]:
    """Reads every file of a folder; returns what is wrong, a message for each file.

    Args:
        folder: a prepared folder, a memory, an index or a model's; or one that holds such, as a knowledge base does.
        say: is told what is read.

    Raises:
        InputError: it is none of these.
    """
    folder = files.require_local(folder)
    children = sorted(folder.iterdir()) if folder.is_dir() else []
    parts = [part for part in (folder, *children) if any((part / name).is_file() for name in (MANIFEST, _MODEL))]
    if not parts:
        raise InputError(f'{folder}: no folder of this program: neither {MANIFEST} nor {_MODEL} is there')
    return [message for part in parts for message in _problems(part, say)]


def _problems(folder: pathlib.Path, say) -> Iterator[str]:
    try:
        if not (folder / MANIFEST).is_file():
            say(f'{folder}: a model; its newest checkpoint is read')
            model_config.load(folder)
            return
        if (name := _format_name(folder)) == kb_folder.FORMAT:
            parts = KBFolder(folder).read()
            say(f'{folder}: a knowledge base of {", ".join(filter(None, parts.values()))}')
            yield from (
                f'{folder / part}: no such folder' for part in filter(None, parts.values()) if not (folder / part).is_dir()
            )
            return
        format = _format_of(folder, name)
        stated = read_manifest(folder, format)
        size = sum(digest.bytes for digest in stated.files.values())
        say(f'{folder}: {format.noun} of {len(stated.files)} files, {size / 1e6:.1f} MB')
        found = list(_damaged_files(folder, stated, format))
        yield from found
        if not found:
            _OPEN[format](folder)
    except InputError as error:
        yield str(error)


def _damaged_files(folder, stated, format) -> Iterator[str]:
    for name in stated.files:
        try:
            checked_file(folder, name, stated, format)
        except ManifestError as error:
            yield str(error)


def _format_name(folder):
    """The format that a manifest states, whatever it is."""
    stated = read_json(folder / MANIFEST)
    return stated.get('format') if isinstance(stated, dict) else None


def _format_of(folder, name) -> FolderFormat:
    for format in _OPEN:
        if format.name == name:
            return format
    raise ManifestError(f'{folder / MANIFEST}: format {name!r}, not one of {", ".join(format.name for format in _OPEN)}')
