"""A copy of a memory as a step of a recipe: as it is, or changed."""

import pathlib
import shutil
import tempfile
from collections.abc import Callable

from opql_jax.core import files
from opql_jax.memory.manifest import read_manifest


def copy_memory(source: str, target: str, change: Callable[[pathlib.Path], None] | None = None) -> None:
    """Copies the folder of a memory; the target appears whole, in place of an earlier copy.

    Args:
        source, target: the folders.
        change: called with the folder of the copy, before it is renamed to `target`.

    Raises:
        ManifestError: there is something else in the place of the target.
    """
    place = pathlib.Path(target)
    with tempfile.TemporaryDirectory(prefix=f'.{place.name}.', dir=place.parent) as temporary:
        copy = shutil.copytree(source, pathlib.Path(temporary, place.name))
        if change:
            change(copy)
        if place.exists():
            read_manifest(place)  # or it is not a copy that this made
            files.rmtree(place)
        copy.rename(place)
