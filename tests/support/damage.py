"""Damages files of a folder, and signs a changed folder again as somebody would who wants it to be
believed.
"""

import json
import pathlib

from opql_jax.core import files
from opql_jax.core.manifest import sealed


def flip(path: pathlib.Path, position: int = -1, bit: int = 0) -> None:
    """Flips a bit of a byte."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


def edit(folder: pathlib.Path, file: str = 'manifest.json', /, **fields) -> None:
    """Changes fields of a manifest, and its checksum so that it is believed; ... leaves a
    field out.
    """
    path = files.path(folder) / file
    stated = json.loads(path.read_text()) | fields
    path.write_bytes(
        sealed(
            {
                name: value
                for name, value in stated.items()
                if value is not ... and name != 'checksum'
            }
        )
    )


def sign(folder: pathlib.Path, file: str = 'manifest.json', /, **fields) -> None:
    """Makes the manifest state the digests of the files as they are, and the given fields."""
    stated = json.loads((folder / file).read_text())
    digests = {name: files.digest(folder / name) for name in stated['files']}
    edit(
        folder,
        file,
        **fields,
        files={
            name: {'bytes': found.bytes, 'sha256': found.sha256} for name, found in digests.items()
        },
    )
