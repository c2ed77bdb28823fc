"""Damages files of a folder, or signs it again as one would who wants it to be believed."""

import json
import pathlib

import numpy as np

from opql_jax.core import files
from opql_jax.core.manifest import sealed


def flip(path: pathlib.Path, position: int = -1, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def edit(folder: pathlib.Path, file: str = 'manifest.json', /, **fields) -> None:
    """Changes fields of a manifest, and its checksum with them; ... leaves a field out."""
    path = files.path(folder) / file
    stated = json.loads(path.read_text()) | fields | {'checksum': ...}
    stated = {name: value for name, value in stated.items() if value is not ...}
    path.write_bytes(sealed(stated))


def sign(folder: pathlib.Path, file: str = 'manifest.json', /, **fields) -> None:
    """Makes the manifest state the digests of the files as they are, and the given fields."""
    stated = {}
    for name in json.loads((folder / file).read_text())['files']:
        found = files.digest(folder / name)
        stated[name] = {'bytes': found.bytes, 'sha256': found.sha256}
    edit(folder, file, **fields, files=stated)


def stating(**fields):
    """A damage: a folder's manifest states something else."""
    return lambda folder: edit(folder, **fields)


def changed(name: str, change):
    """A damage: an array of a folder is another one, and signed."""

    def damage(folder):
        np.save(folder / name, change(np.array(np.load(folder / name))))
        sign(folder)

    return damage


def put(place, value):
    """A change of an array: other values at a place."""

    def change(array):
        array[place] = value
        return array

    return change
