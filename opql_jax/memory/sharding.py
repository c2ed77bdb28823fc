"""Places a memory on the devices of a mesh, in the form that `memory/search.py` searches.

Rows are split over all devices. What a user chooses is 'exact' or 'approx'; which arrays the
platform needs for it beside the memory's own is decided here: on one CPU device `Factors`, anywhere
else keys, which `search_keys.with_keys` adds.
"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from opql_jax.core import distributed
from opql_jax.core.errors import InputError, check_choice
from opql_jax.parallel.mesh import ROWS, platform_of, row_devices

MODES = ('exact', 'approx')
# The factored search keeps the maxima of buckets of rows, at most of so many; rows of a device are
# a multiple of it.
BUCKET = 32
# Numbers of a TPU's vector register, in a row.
_LANES = 128


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Factors:
    """What the search on one CPU needs beside the arrays, see `memory/search_factored.py`."""

    topics: jax.Array  # [T] int32, the entities that are topics, in rising order
    # [N'] int32, the position of the entry's topic in `topics`; T in padding, which is never found.
    slot: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ShardedMemory:
    """A memory placed on a mesh by `shard_memory`, a pytree; entries are named by their rows."""

    mesh: Mesh = dataclasses.field(metadata={'static': True})
    mode: str = dataclasses.field(metadata={'static': True})  # how it is searched, one of MODES
    topic: jax.Array  # [N'] int32, -1 in padding
    target: jax.Array  # [N'] int32, -1 in padding
    # [N', d_r] float32 or float16. On a TPU float32, and [N', d_r / 128, 128] if 128 divides d_r:
    # of that form a chip reads single rows, of the other eight at a time.
    relations: jax.Array
    # [N', P] int32, the passages that an entry was read in, -1 in unused slots; None unless given.
    passages: jax.Array | None = None
    factors: Factors | None = None  # on one CPU device
    # [N', d_e + d_r], [E[topic]; r], in bfloat16 for 'approx' and float32 for 'exact'; None on one
    # CPU device, and until `search_keys.with_keys` has computed them.
    keys: jax.Array | None = None
    # A function of the host that finds entries in place of a search, see `ann.searched_by`.
    propose: Callable | None = dataclasses.field(default=None, metadata={'static': True})


def shard_memory(
    topic, target, relations, mesh: Mesh, mode: str = 'exact', passages=None
) -> ShardedMemory:
    """Places a memory on a mesh, rows split over all its devices.

    An 'approx' search chooses by bfloat16 products, on a TPU with the partial reduction of
    `lax.approx_max_k` (expected recall 0.99), and scores what it returns exactly. On one CPU device
    it is the exact one, and fast where equal topics lie together. `topic` and `target` are [N]
    int32, `relations` [N, d_r] float32 or float16, and `passages` [N, P] int32, -1 in unused slots,
    for searches that exclude what was read in some. InputError: an unknown mode, arrays that differ
    in length, no row, or too many for int32 ids.
    """
    topic = np.asarray(topic, np.int32)
    target = np.asarray(target, np.int32)
    relations = np.asarray(relations)
    check_choice('mode', mode, MODES)
    lengths = [len(column) for column in (topic, target, relations, passages) if column is not None]
    if min(lengths) < 1 or len(set(lengths)) > 1:
        raise InputError(
            f'a memory needs at least one row and columns of one length, not of {lengths}'
        )
    if len(topic) >= 2**31 - row_devices(mesh) * BUCKET:
        raise InputError(f'{len(topic)} rows do not fit int32 ids')
    padding = -len(topic) % (row_devices(mesh) * BUCKET)

    def pad(array, fill=0):
        if padding:
            return np.concatenate([array, np.full((padding, *array.shape[1:]), fill, array.dtype)])
        return array

    columns = {
        'topic': pad(topic, -1),
        'target': pad(target, -1),
        'relations': pad(_stored(relations, platform_of(mesh))),
    }
    if passages is not None:
        columns['passages'] = pad(np.asarray(passages, np.int32), -1)
    place = lambda array: distributed.put(array, NamedSharding(mesh, ROWS))
    factors = None
    if mesh.size == 1 and platform_of(mesh) == 'cpu':
        topics, slot = np.unique(topic, return_inverse=True)
        factors = Factors(place(topics), place(pad(slot.astype(np.int32), len(topics))))
    return ShardedMemory(mesh, mode, **jax.tree.map(place, columns), factors=factors)


def _stored(relations, platform):
    """Relations [N, d_r] as `ShardedMemory` holds them."""
    if platform != 'tpu':
        return relations
    shape = (-1, _LANES) if relations.shape[1] % _LANES == 0 else (-1,)
    return relations.astype(np.float32).reshape(len(relations), *shape)
