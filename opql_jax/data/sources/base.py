"""The interface of all sources of batches, and their common code.

`source[step]` is the batch of a step: a NamedTuple of NumPy arrays of the same shapes, a pure
function of (seed, step, shard). So a run that is resumed at step n sees what an uninterrupted one
would have seen. A batch is that of the whole job: every process makes it, and places the rows that
its devices hold. Where something else joins batches, as t5x does, each is of a shard: passages are
drawn independently, and each question and topic comes once per epoch over all shards.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import grain
import jax
import numpy as np

from opql_jax.core import processes
from opql_jax.core.errors import InputError
from opql_jax.data import batching
from opql_jax.data.batching import Buckets
from opql_jax.data.markup import JoinedPassages, end_to_end
from opql_jax.data.prepared import Prepared
from opql_jax.data.questions import EpochOrder

# JAX takes larger seeds only some of the time.
MAX_SEED = 2**32 - 1


class Source:
    """An endless sequence of batches."""

    def __init__(self, seed: int):
        if not 0 <= seed <= MAX_SEED:
            raise InputError(f'seed={seed}: give a number of 0 to {MAX_SEED}')
        self._seed, self._shard_index, self._shard_count = seed, 0, 1

    def shard(self, index: int, count: int) -> Self:
        """Shard `index` of `count`, each of which makes batches of the same size."""
        shard = copy.copy(self)
        shard._shard_index, shard._shard_count = index, count
        return shard

    def __getitem__(self, step: int):
        rng = np.random.default_rng((self._seed, int(step), self._shard_index))
        return self.batch(int(step), rng)

    def _deal(self, order: EpochOrder, turn: int, count: int) -> np.ndarray:
        """This shard's next `count` items; all shards together take each once an epoch."""
        return order.take((turn * self._shard_count + self._shard_index) * count, count)

    def batch(self, step: int, rng: np.random.Generator):
        """The batch of a step; all its randomness comes from `rng` and the seed."""
        raise NotImplementedError


class PassageSource(Source):
    """Draws passages that mention an entity, and hides a mention of each."""

    def __init__(
        self, prepared: Prepared, rows: int, least: int, room: int, buckets: Buckets, seed: int
    ):
        """Plans batches of so many passages, with `least` tokens of markup and `room` for more.

        InputError: no passage has a mention, or one does not fit the longest bucket.
        """
        super().__init__(seed)
        self._records, self._special = prepared.records, prepared.special
        tokens, mentions = self._records.sizes()
        self._passages = np.flatnonzero(mentions)
        if not len(self._passages):
            raise InputError(f'{self._records.path}: no passage has a mention')
        tokens = tokens[self._passages]
        self.capacities = batching.capacities_for(tokens + least, tokens + room, rows, buckets)

    def _fill(self, rng: np.random.Generator, choose: Callable) -> tuple['Drawn', batching.Packer]:
        """Draws passages, twice if the first leave room, and assigns them to buckets.

        `choose(ids [n], JoinedPassages, rng)` gives what is hidden, arrays [n, ...], and lengths
        [n].
        """
        packer, numbers, texts, choices, rows = batching.Packer(self.capacities), [], [], [], []
        before = 0
        for _ in range(2):
            numbers.append(rng.choice(self._passages, sum(packer.free.values())))
            texts.append(self._records.read_joined(numbers[-1]))
            choice, lengths = choose(numbers[-1], texts[-1], rng)
            choices.append(choice)
            rows.append(before + np.flatnonzero([packer.add(n) for n in lengths.tolist()]))
            before += len(lengths)
        choice, texts = tuple(map(np.concatenate, zip(*choices))), end_to_end(texts)
        return Drawn(np.concatenate(numbers), texts, choice, np.concatenate(rows)), packer


class Drawn(NamedTuple):
    """Passages that were drawn for a batch."""

    numbers: np.ndarray  # [n], ids
    texts: JoinedPassages
    choice: tuple[np.ndarray, ...]  # what is hidden in each, arrays [n, ...]
    rows: np.ndarray  # those that found room, in the order of the packer


@jax.tree_util.register_static
class Hops(int):
    """The number of hops of a batch: static, so a jitted function is compiled for each."""


def named_leaves(batch) -> dict[str, Any]:
    """A batch's arrays by path, such as 'pairs/0/tokens'; a number of hops is an int32 scalar."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(batch, is_leaf=_is_hops)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator='/')
    return {name(path): np.int32(leaf) if _is_hops(leaf) else leaf for path, leaf in leaves}


def from_named_leaves(like, leaves: Mapping[str, Any], path: str = ''):
    """The inverse of `named_leaves`, with the types of `like`; parts without leaves are empty."""
    if hasattr(like, '_fields'):
        parts = like._asdict().items()
        return type(like)(*(from_named_leaves(p, leaves, f'{path}{name}/') for name, p in parts))
    if isinstance(like, tuple):
        count = len({n.removeprefix(path).partition('/')[0] for n in leaves if n.startswith(path)})
        indices = range(count if like else 0)
        return tuple(from_named_leaves(like[0], leaves, f'{path}{i}/') for i in indices)
    return like if like is None else leaves[path.removesuffix('/')]


def _is_hops(leaf):
    return isinstance(leaf, Hops)


def interleave(lists: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The first items of all lists, then the second items, and so on."""
    at = lambda k: [items[k] for items in lists if k < len(items)]
    return [np.array(at(k), np.int64) for k in range(max(map(len, lists)))]


# More than two threads gain little; and how many batches are made ahead.
_THREADS, _AHEAD = 2, 4


def batches(source: Source, start: int, stop: int, *, worker_processes: int = 0) -> Iterator:
    """Yields the batches of the steps start, start + 1, ... stop - 1.

    A batch is a function of its step, so starting at step n yields exactly what a run from step 0
    sees from n on. They are made by threads, or by `worker_processes` in their place, each with the
    source in its own memory. InputError: a number of processes that cannot be. What a source raises
    comes at the step concerned.
    """
    if worker_processes < 0 or worker_processes == 1:
        raise InputError('input_processes: give 0, or at least 2')
    if worker_processes:
        steps, ahead = range(start, stop), -(-_AHEAD // worker_processes)
        return processes.map_ordered(source.__getitem__, steps, worker_processes, ahead)
    options = grain.ReadOptions(num_threads=_THREADS, prefetch_buffer_size=_AHEAD)
    made = grain.MapDataset.range(start, stop).map(source.__getitem__)
    return iter(made.to_iter_dataset(options))
