"""Relations as a memory stores them: a row for each entry, or two halves for each mention.

Where a text is encoded once for all of its pairs, the relation of a pair is the sum of what the
mention that comes first adds and what the other adds, at unit length
(`RelationEncoder.relate_spans`). A text has several times as many pairs as mentions: its memory
holds the two halves that each mention may add, [mentions, 2, d_r] in 8 bits a number
(`core.arrays.packed`), and for each entry which two mentions it is of.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.arrays import SCALE_BYTES, unpacked

# The length that a sum is divided by is at least this: two halves may cancel.
_LEAST = 1e-9
# Relations that are made at a time, which a cache holds.
_BLOCK = 1 << 8


class Halves(NamedTuple):
    """Entries whose relations are sums of halves."""

    # [n, 2] integers, the mentions of each entry's topic and target; of two mentions of a text the
    # first has the lower number.
    mentions: np.ndarray
    # Numbers of mentions [m] int64, rising -> [m, 2, d_r + 4] int8, packed: what each adds as the
    # first of a pair, and as the second.
    of: Callable[[np.ndarray], np.ndarray]


def sums(mentions: np.ndarray, take: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The relations of entries [n, 2], see `Halves`: [n, d_r] float32 of unit length.

    `take` gives packed halves [m, d_r + 4] by number: 2 i is the first half of mention i, 2 i + 1
    its second. Where the topic comes after the target, numbers are turned by d_r / 2 places.
    """
    count, dim = len(mentions), take(np.zeros(0, np.int64)).shape[1] - SCALE_BYTES
    relations = np.empty((count, dim), np.float32)
    both = np.empty((2 * min(count, _BLOCK), dim), np.float32)
    for start in range(0, count, _BLOCK):
        some = mentions[start : start + _BLOCK].astype(np.int64)
        found = relations[start : start + _BLOCK]
        first, second = np.sort(some, axis=1).T
        halves = both[: 2 * len(some)]
        unpacked(take(np.concatenate([2 * first, 2 * second + 1])), out=halves)
        np.add(halves[: len(some)], halves[len(some) :], out=found)
        found /= np.maximum(np.sqrt(np.einsum('nd,nd->n', found, found)), _LEAST)[:, None]
        is_second = some[:, 0] > some[:, 1]
        found[is_second] = np.roll(found[is_second], dim // 2, axis=1)
    return relations


class Shards:
    """An array [n, d] over files, each read when first needed; file i begins at row `first[i]`."""

    def __init__(
        self,
        shards: Sequence[tuple[str, int]],
        read: Callable[[str, int], np.ndarray],
        like: np.ndarray,
    ):
        """Takes the files' names and lengths, what reads one, and an array of no rows."""
        self._shards, self._read, self._like = shards, read, like
        self.first = np.cumsum([0, *(length for _, length in shards)])
        self._arrays: list[np.ndarray | None] = [None] * len(shards)

    def __getitem__(self, number: int) -> np.ndarray:
        """The rows of a file."""
        if (rows := self._arrays[number]) is None:
            self._arrays[number] = rows = self._read(*self._shards[number])
        return rows

    def __len__(self) -> int:
        return len(self._shards)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Some rows [m, d], in any order."""
        if len(self) == 1:
            return self[0].take(rows, axis=0)
        out = np.empty((len(rows), *self._like.shape[1:]), self._like.dtype)
        for shard, indices, places in by_shard(rows, self.first):
            out[indices] = self[shard][places]
        return out


def by_shard(places: np.ndarray, first: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yields (shard, indices into `places`, its rows) of each shard that has places."""
    order = np.argsort(places, kind='stable')
    bounds = np.searchsorted(places[order], first)
    for shard in np.flatnonzero(np.diff(bounds)).tolist():
        indices = order[bounds[shard] : bounds[shard + 1]]
        yield shard, indices, places[indices] - first[shard]
