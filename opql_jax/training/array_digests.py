"""Digests of the parts of arrays that devices hold, by which a checkpoint is checked.

Each process hashes the parts that it holds, in the background, into a file of its own. A part is a
rectangle of its array, and all parts together are the array, so that a reader can check it however
many devices and processes wrote it.
"""

import asyncio
import concurrent.futures
import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import future

from opql_jax.core import distributed
from opql_jax.core.hashing import leaf_name


class Part(NamedTuple):
    """A part of an array in main memory."""

    item: str  # the tree that the array is of, such as 'params'
    name: str  # of the array in it, 'encoder/w_r/kernel'
    shape: tuple[int, ...]  # of the whole array
    start: tuple[int, ...]  # where the part begins in it
    data: np.ndarray


class ArrayDigest(NamedTuple):
    """The digest of an array: its sorted parts (start, stop, hex SHA-256)."""

    dtype: str
    shape: tuple[int, ...]
    parts: list


# {item: {name of an array: its digest}}
Digests = dict[str, dict[str, ArrayDigest]]


def parts_of(items: Mapping[str, Any], shapes: Mapping[str, Any]) -> list[Part]:
    """Copies the array parts that this process hashes, of replicas the first; one hashes NumPy's.

    `items` are trees of arrays by name, `shapes` like trees of their `shape` without padding.
    """
    parts = []
    for item, tree in items.items():
        for (path, leaf), shape in zip(
            jax.tree.leaves_with_path(tree), jax.tree.leaves(shapes[item]), strict=True
        ):
            for begin, data in _shards_to_hash(leaf):
                start, whole = begin or (0,) * np.ndim(data), tuple(np.shape(shape))
                kept = tuple(slice(0, max(size - first, 0)) for first, size in zip(start, whole))
                # A copy: what the array lies in belongs to the next step of training.
                copy = np.array(np.asarray(data)[kept], copy=True, order='C')
                if copy.size or not math.prod(whole):
                    parts.append(Part(item, leaf_name(path), whole, start, copy))
    return parts


def _shards_to_hash(leaf):
    """(start, data) of the parts of an array that this process hashes."""
    if not isinstance(leaf, jax.Array):
        return [((), leaf)] if distributed.is_primary() else []
    shards = [shard for shard in leaf.addressable_shards if shard.replica_id == 0]
    for shard in shards:
        shard.data.copy_to_host_async()
    return [(tuple(part.start or 0 for part in shard.index), shard.data) for shard in shards]


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _joined(files: list) -> Digests:
    """The digests of all processes; ValueError if parts are missing or malformed."""
    out: Digests = {}
    for item, name, dtype, shape, start, stop, digest in (row for file in files for row in file):
        known = out.setdefault(item, {}).setdefault(name, ArrayDigest(dtype, tuple(shape), []))
        if known[:2] != (dtype, tuple(shape)) or not len(shape) == len(start) == len(stop):
            raise ValueError(f'its digests do not say what {name} is')
        known.parts.append((tuple(start), tuple(stop), digest))
    for arrays in out.values():
        for name, (_, shape, parts) in arrays.items():
            parts.sort()
            covered = sum(math.prod(b - a for a, b in zip(start, stop)) for start, stop, _ in parts)
            if covered != math.prod(shape):
                raise ValueError(
                    f'its digests are of {covered} of the {math.prod(shape)} numbers of {name}'
                )
    return out


def identity(arrays: Mapping[str, ArrayDigest]) -> str:
    """Hex SHA-256 of an item's arrays, which also depends on how they were split."""
    return hashlib.sha256(json.dumps(sorted(arrays.items())).encode()).hexdigest()


def shapes_of(tree, arrays: Mapping[str, ArrayDigest]):
    """The shapes of saved arrays, without the padding of `tree`."""
    whole = lambda path, leaf: arrays.get(leaf_name(path), leaf).shape
    return jax.tree.map_with_path(
        lambda path, leaf: jax.ShapeDtypeStruct(whole(path, leaf), leaf.dtype), tree
    )


def first_difference(tree, arrays: Mapping[str, ArrayDigest]) -> str:
    """The name of the first array that `tree` lacks, or has of another type or shape; or ''."""
    expected = {
        leaf_name(path): f'{leaf.dtype} {list(leaf.shape)}'
        for path, leaf in jax.tree.leaves_with_path(tree)
    }
    found = {name: f'{known.dtype} {list(known.shape)}' for name, known in arrays.items()}
    for name in sorted(expected.keys() | found.keys()):
        before, now = found.get(name, 'none'), expected.get(name, 'none')
        if before != now:
            return f'{name} was {before} and is {now}'
    return ''


def without_padding(tree, arrays: Mapping[str, ArrayDigest]):
    """Restored arrays without the padding that they were written with."""

    def cut(path, leaf):
        shape = arrays.get(leaf_name(path), leaf).shape
        return leaf if leaf.shape == shape else leaf[tuple(map(slice, shape))]

    return jax.tree.map_with_path(cut, tree)


def differs(tree, arrays: Mapping[str, ArrayDigest]) -> bool:
    """Whether arrays in main memory differ from their digests."""
    leaves = {leaf_name(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}
    if leaves.keys() != arrays.keys():
        return True
    if any((str(leaves[n].dtype), leaves[n].shape) != known[:2] for n, known in arrays.items()):
        return True
    every = [(leaves[name], *part) for name, known in arrays.items() for part in known.parts]
    is_same = lambda part: _sha256(part[0][tuple(map(slice, part[1], part[2]))]) == part[3]
    # Hashing releases the GIL.
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        return not all(threads.map(is_same, every))


class Handler(ocp.AsyncCheckpointHandler):
    """Writes digests as an item of a checkpoint, a file `<process>.json` for each process."""

    async def async_save(self, directory, args: 'SaveDigests'):
        # Orbax makes the folder, and calls it whole once this is done.
        written = _write(directory, args.parts)
        return [future.CommitFutureAwaitingContractedSignals(written, name='array_digests')]

    def save(self, directory, args: 'SaveDigests'):
        asyncio.run(_write(directory, args.parts))

    def restore(self, directory, args: 'RestoreDigests | None' = None) -> Digests:
        return _joined([json.loads(file.read_text()) for file in sorted(directory.glob('*.json'))])


async def _write(directory, parts: list[Part]) -> None:
    rows = []
    for item, name, shape, start, data in parts:
        stop = [first + size for first, size in zip(start, data.shape)]
        rows.append((item, name, str(data.dtype), shape, start, stop, _sha256(data)))
    (directory / f'{distributed.process_index()}.json').write_text(json.dumps(rows))


@ocp.args.register_with_handler(Handler, for_save=True)
@dataclasses.dataclass
class SaveDigests(ocp.args.CheckpointArgs):
    """The parts to hash and write."""

    parts: list[Part]


@ocp.args.register_with_handler(Handler, for_restore=True)
@dataclasses.dataclass
class RestoreDigests(ocp.args.CheckpointArgs):
    """Takes no arguments."""
