"""Damages files of a folder, and signs a changed folder again as somebody would who wants it to be believed."""

import json
import pathlib

from opql_jax.core import files


def flip(path: pathlib.Path, position: int = -1, bit: int = 0) -> None:
    """Flips a bit of a byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def edit(folder: pathlib.Path, /, **fields) -> None:
    """Changes fields of the manifest of a folder; ... leaves one out."""
    path = folder / 'manifest.json'
    stated = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in stated.items() if value is not ...}))


def sign(folder: pathlib.Path, /, **fields) -> None:
    """Makes the manifest state the digests of the files as they are, and the given fields."""
    stated = json.loads((folder / 'manifest.json').read_text())
    digests = {name: files.digest(folder / name) for name in stated['files']}
    edit(folder, **fields, files={name: {'bytes': found.bytes, 'sha256': found.sha256} for name, found in digests.items()})
