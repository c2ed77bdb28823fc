"""A copy of a memory as a step of a recipe: as it is, changed, or with a part of its entries."""

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import numpy as np

from opql_jax.core import files
from opql_jax.memory import update
from opql_jax.memory.format import Memory
from opql_jax.memory.manifest import read_manifest


def copy_memory(
    source: str, target: str, change: Callable[[pathlib.Path], None] | None = None
) -> None:
    """Copies the folder of a memory, whole, once `change` was called with it.

    It takes the place of an earlier copy.

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


def copy_entries(
    source: str, target: str, chosen: Callable[[Memory], np.ndarray]
) -> dict[str, int]:
    """Copies the entries of a memory, one at least, whose ids `chosen` gives, with these.

    Returns how many there are and were.
    """
    counts = {}

    def change(copy: pathlib.Path) -> None:
        with contextlib.closing(Memory.open(copy)) as before:
            others = np.setdiff1d(before.ids, chosen(before))
            counts.update(entries=len(before) - len(others), entries_before=len(before))
        if len(others):
            update.delete(copy, entries=others)
            update.compact(copy).close()

    copy_memory(source, target, change)
    return counts
