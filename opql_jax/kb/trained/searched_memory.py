"""The memory as the program of an answerer takes it: searched in the program, or by an index on the host."""

import jax
import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.memory import ann
from opql_jax.memory.follow import MemoryArrays
from opql_jax.memory.format import Memory
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.sharding import ShardedMemory

Index = ann.ScannIndex | ann.ExactIndex


def searched_memory(
    placed: MemoryArrays | ShardedMemory, memory: Memory, entity_table, folder: str | None
) -> tuple[MemoryArrays | ShardedMemory, Index | None]:
    """A placed memory with what its search needs, and the index in a folder, if there is one, that stands in for it and has to live as long.

    InputError: as of `ann.open_index`, or only the rows of known topics are read.
    """
    if not isinstance(placed, ShardedMemory):
        if folder:
            raise InputError(
                f'filter=True reads the rows of known topics alone: leave out the index {folder}, or give filter=False'
            )
        return placed, None
    index = ann.open_index(folder, memory, np.asarray(entity_table)) if folder else None
    placed = ann.searched_by(placed, index) if index else placed
    return jax.jit(with_keys)(placed, entity_table), index


def index_settings(index: Index | None) -> str:
    """What answers depend on besides: an index that finds other entries than an exact search."""
    return repr(index.manifest) if isinstance(index, ann.ScannIndex) else ''
