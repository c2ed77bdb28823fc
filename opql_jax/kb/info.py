"""What is in a knowledge base of plain text: counts, its encoder, its parts and their sizes."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from opql_jax.core import files
from opql_jax.data.kb_folder import KBFolder
from opql_jax.data.prepared import Prepared
from opql_jax.kb.text.change_text import REJECTED
from opql_jax.kb.text.index_text import Parts
from opql_jax.memory.manifest import read_manifest


def describe(kb: str | os.PathLike) -> dict[str, Any]:
    """What `opql info` tells, as JSON values.

    Counts of `documents`, `passages`, `entities`, `mentions`, `entries` and `rejected` (documents
    that were left out); `encoder`, the hash of its parameters; `parts`, the names of those that
    answer; `bytes` of the folder, and `unneeded_bytes` of parts that do not answer. InputError:
    this is no knowledge base of plain text.
    """
    folder = KBFolder(kb)
    with folder.hold() as stated:
        return describe_version(folder, stated)


def describe_version(folder: KBFolder, stated: Mapping[str, str | None]) -> dict[str, Any]:
    """`describe` of the version that the parts `stated` are, which the caller holds."""
    path = files.require_local(folder.path)
    parts = Parts.of(folder, stated)
    text, memory = Prepared(folder.part(parts.text)), read_manifest(folder.part(parts.memory))
    counts = text.manifest.counts
    answering = {path / part for part in stated.values() if part}
    sizes = {child: _size(child) for child in path.iterdir()}
    unneeded = [child for child in sizes if child.is_dir() and child not in answering]
    rejected = [file.read_bytes().splitlines() for file in rejected_files(folder, text)]
    return {
        'documents': counts.documents,
        'passages': counts.passages,
        'entities': counts.entities,
        'mentions': counts.mentions,
        'entries': memory.num_entries,
        'rejected': sum(map(len, rejected)),
        'encoder': memory.hashes['encoder'],
        'parts': {name: part for name, part in stated.items() if part},
        'bytes': sum(sizes.values()),
        'unneeded_bytes': sum(sizes[child] for child in unneeded),
    }


def rejected_files(folder: KBFolder, text: Prepared) -> list[pathlib.Path]:
    """Where left-out documents are listed: of those given to `opql index`, and added since."""
    listed = (files.below(where, REJECTED) for where in (text.directory, folder.path))
    return [file for file in listed if file.exists()]


def _size(path: pathlib.Path) -> int:
    return sum(file.lstat().st_size for file in (path, *path.rglob('*')) if file.is_file())
