"""Length buckets: a batch is a few arrays of fixed shapes, short rows beside long ones.

Each bucket length has a fixed number of rows, planned once from the corpus, so that all batches of
a run are served by one compilation. A row may sit in a longer bucket than it needs. A bucket is a
NamedTuple of arrays with a row for each input.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data.tokenizer import SpecialIds

# Tokens per row, with markup. The longest has room for a passage of 128 tokens.
BUCKET_LENGTHS = (32, 48, 64, 96, 136)
# A planned bucket has a multiple of this many rows, so that they divide over devices.
ROW_MULTIPLE = 8
# Buckets in settings: (tokens of a row, rows of a batch), shortest first; () plans them by the
# text.
Buckets = tuple[tuple[int, int], ...]


class PairBucket(NamedTuple):
    """n pairs of at most L tokens, C context mentions; int32. Unused rows: [CLS] [SEP], ids -1."""

    tokens: np.ndarray  # [n, L]
    r1: np.ndarray  # [n], position of [R1], after the topic
    r2: np.ndarray  # [n], position of [R2], after the target
    topic: np.ndarray  # [n], entity
    target: np.ndarray  # [n], entity
    anchor: np.ndarray  # [n] bool, whether L_rel counts the row as an anchor
    context_positions: np.ndarray  # [n, C], first tokens of other mentions; 0 in unused slots
    context_entities: np.ndarray  # [n, C], their entities; -1 in unused slots


class MaskedBucket(NamedTuple):
    """n passages of at most L tokens with one hidden mention; int32, entity -1 if unused."""

    tokens: np.ndarray  # [n, L]
    position: np.ndarray  # [n], of [ENT]
    entity: np.ndarray  # [n]


def plan_capacities(lengths: Sequence[int] | np.ndarray, rows: int) -> dict[int, int]:
    """Distributes a batch's rows over the buckets as the `lengths` [n] of marked rows are.

    Returns {bucket length: rows}, each and their sum a multiple of `ROW_MULTIPLE`, rounded towards
    longer buckets. InputError: there is no row, or one exceeds the longest bucket.
    """
    lengths = np.asarray(lengths)
    if rows < 1:
        raise InputError(f'rows is {rows}; it must be at least 1')
    if not lengths.size:
        raise InputError('cannot plan buckets without any row')
    total = round_up(rows, ROW_MULTIPLE)
    capacities, assigned = {}, 0
    # The longest bucket that any row needs always exists; it takes what rounding left.
    longest = bucket_of(int(lengths.max()), BUCKET_LENGTHS)
    for length in BUCKET_LENGTHS[: BUCKET_LENGTHS.index(longest)]:
        share = total * float(np.mean(lengths <= length))
        capacity = int(min(share, total - ROW_MULTIPLE) - assigned) // ROW_MULTIPLE * ROW_MULTIPLE
        if capacity > 0:
            capacities[length] = capacity
            assigned += capacity
    capacities[longest] = total - assigned
    return capacities


def capacities_for(
    least: Sequence[int] | np.ndarray,
    lengths: Sequence[int] | np.ndarray,
    rows: int,
    buckets: Buckets = (),
) -> dict[int, int]:
    """The buckets of a batch of `rows` rows, {length: rows}: as stated, or by `plan_capacities`.

    A row needs at least `least` tokens, and uses up to `lengths`; the longest bucket cuts the rest.
    InputError: the rows of stated buckets do not add up, or their lengths do not rise; a row does
    not fit the longest; or this host cannot hold the tokens of a batch.
    """
    if not buckets:
        most = max(max(BUCKET_LENGTHS), np.max(least, initial=0))
        capacities = plan_capacities(np.minimum(lengths, most), rows)
    else:
        capacities = {int(length): int(count) for length, count in buckets}
        lengths_given = [length for length, _ in buckets]
        if lengths_given != sorted(capacities) or min(capacities.values()) < 1:
            raise InputError(f'buckets={buckets}: give (tokens, rows >= 1) of each, shortest first')
        if (total := sum(capacities.values())) != rows:
            raise InputError(f'buckets={buckets} have {total} rows, but a batch has {rows}')
    if (longest := int(np.max(least, initial=0))) > max(capacities):
        raise InputError(f'buckets={buckets}: the longest row has {longest} tokens')
    size = sum(length * count for length, count in capacities.items()) * np.dtype(np.int32).itemsize
    if size > (held := os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')):
        raise InputError(
            f'rows={rows}: the tokens of a batch take {size / 1e9:,.0f} GB, and this host has '
            f'{held / 1e9:,.0f} GB: take fewer rows'
        )
    return capacities


def bucket_of(length: int, bucket_lengths: Iterable[int]) -> int:
    """The shortest of rising bucket lengths for a row of `length` tokens; else InputError."""
    for bucket in bucket_lengths:
        if bucket >= length:
            return bucket
    raise InputError(f'a row of {length} tokens exceeds the longest bucket {bucket}')


class Packer:
    """Puts each row into the shortest bucket with room; refuses a row only if none has room."""

    def __init__(self, capacities: Mapping[int, int]):
        """Takes {bucket length: rows}, see `plan_capacities`."""
        self.capacities = dict(sorted(capacities.items()))
        self.free = dict(self.capacities)
        self.assigned: list[int] = []  # the bucket length of each accepted row

    @property
    def full(self) -> bool:
        return not any(self.free.values())

    def add(self, length: int) -> bool:
        """Takes a row of `length` tokens; False if none has room. InputError: it is too long."""
        for bucket, free in self.free.items():
            if free and bucket >= length:
                self.free[bucket] -= 1
                self.assigned.append(bucket)
                return True
        bucket_of(length, self.capacities)
        return False

    def buckets(self) -> Iterator[tuple[int, int, list[int]]]:
        """Yields (length, capacity, indices of the accepted rows in it) of each bucket."""
        for length, capacity in self.capacities.items():
            inside = [i for i, bucket in enumerate(self.assigned) if bucket == length]
            yield length, capacity, inside


def filled(values: np.ndarray, count: int, fill) -> np.ndarray:
    """`values` [n, ...] with rows of `fill` after them, [count, ...]."""
    out = np.full((count, *values.shape[1:]), fill, values.dtype)
    out[: len(values)] = values
    return out


def pad_rows(
    rows: Sequence | np.ndarray, count: int, shape: tuple[int, ...] = (), fill=0, dtype=np.int32
) -> np.ndarray:
    """Stacks rows of any sizes up to `shape` to an array `[count, *shape]`, padded by `fill`."""
    out = np.full((count, *shape), fill, dtype)
    for i, row in enumerate(rows):
        filled: tuple = (i, *map(slice, np.shape(row)))
        out[filled] = row
    return out


def pad_tokens(
    rows: Sequence[np.ndarray] | np.ndarray, count: int, length: int, special: SpecialIds
) -> np.ndarray:
    """Stacks token rows to [count, length] int32; missing rows hold [CLS] [SEP]."""
    tokens = pad_rows(rows, count, (length,), special.pad)
    tokens[len(rows) :, :2] = special.cls, special.sep
    return tokens


def round_up(n: int, multiple: int) -> int:
    """The smallest positive multiple of `multiple` that is at least n."""
    return max(-(-n // multiple), 1) * multiple
