"""Checks whether folders are what their manifests say, file by file."""

import os
import pathlib
from collections.abc import Callable, Iterator

from opql_jax.core import files
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import (
    MANIFEST,
    FolderFormat,
    Header,
    Manifest,
    ManifestError,
    checked_file,
    is_folder_of,
    read_manifest,
)
from opql_jax.corpus import tables
from opql_jax.data import kb_folder
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.memory import ann, manifest
from opql_jax.memory.format import Memory
from opql_jax.models import question_map, released
from opql_jax.retrieval import index as retrieval_index
from opql_jax.training import model_config

# Opens everything in a folder of a format, and raises InputError for what digests do not show.
_OPEN: dict[FolderFormat, Callable[[pathlib.Path], object]] = {
    tables.PREPARED: lambda folder: Prepared(folder).check(),
    manifest.FORMAT: lambda folder: Memory.open(folder).verify(),
    ann.FORMAT: lambda folder: ann.check_files(folder, read_manifest(folder, ann.FORMAT)),
    kb_folder.FORMAT: lambda folder: _check_parts(folder),
    model_config.FORMAT: model_config.load,
    released.FORMAT: released.read,
    retrieval_index.FORMAT: lambda folder: retrieval_index.IndexFolder(folder).check(),
    question_map.FORMAT: question_map.QuestionMap.read,
}


def verify(folder: str | os.PathLike, say: Callable[[str], None]) -> list[str]:
    """Reads every file of a folder, or of those in it; returns a message for each bad file.

    Tells `say` what is read. InputError: there is no prepared folder, memory, index or model.
    """
    folder = files.require_local(folder)
    names = sorted({format.file for format in _OPEN})
    inside = folder.iterdir() if folder.is_dir() else ()
    children = sorted(path for path in inside if not path.is_symlink())
    parts = [part for part in (folder, *children) if any((part / name).is_file() for name in names)]
    if not parts:
        missing = f'neither {" nor ".join(names)} is there'
        raise InputError(f'{folder}: no folder of this program: {missing}')
    return [message for part in parts for message in _problems(part, say)]


def _problems(folder: pathlib.Path, say) -> Iterator[str]:
    try:
        format = _format_of(folder)
        stated = read_manifest(folder, format)
        say(f'{folder}: {format.noun}{_content(stated)}')
        damaged = False
        for name in getattr(stated, 'files', ()):
            try:
                checked_file(folder, name, stated, format)
            except ManifestError as error:
                damaged = True
                yield str(error)
        if not damaged:
            _OPEN[format](folder)
    except InputError as error:
        yield str(error)


def _content(stated: Header) -> str:
    """What a manifest lists."""
    if isinstance(stated, kb_folder.KBManifest):
        parts = stated.text, stated.model, stated.memory, stated.retrieval, stated.question_map
        return f' of {", ".join(filter(None, parts))}'
    if isinstance(stated, Manifest):
        size = sum(digest.bytes for digest in stated.files.values())
        return f' of {len(stated.files)} files, {size / 1e6:.1f} MB'
    is_model = isinstance(stated, model_config.ModelConfig)
    return '; its newest checkpoint is read' if is_model else ''


def _check_parts(folder: pathlib.Path) -> None:
    """Raises InputError unless all parts that a manifest names are there, and none is a link."""
    kb = KBFolder(folder)
    if missing := [part for part in kb.read().values() if part and not kb.part(part).is_dir()]:
        raise InputError(f'{folder} has no folder {", ".join(missing)}, which its {MANIFEST} names')


def _format_of(folder: pathlib.Path) -> FolderFormat:
    for format in _OPEN:
        if is_folder_of(folder, format):
            return format
    # Says what is wrong with the file that is there.
    file = MANIFEST if (folder / MANIFEST).is_file() else model_config.FORMAT.file
    names = ', '.join(format.name for format in _OPEN if format.file == file)
    raise ManifestError(f'{folder / file}: damaged, or its format is not one of {names}')
