"""Length buckets: a batch is a few arrays of fixed shapes, short rows beside long ones.

Padding every row to the longest wastes most of the encoder's work. Here each bucket length has a fixed number
of rows, planned once from the corpus, so that all batches of a run have the same shapes and one compilation
serves them. A row may sit in a longer bucket than it needs when its own is full.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.data.markup import MarkedPair, MaskedMention
from opql_jax.data.tokenizer import SpecialIds

# Lengths with markup. The longest holds a passage of 128 tokens with room to spare.
BUCKET_LENGTHS = (32, 48, 64, 96, 136)


def bucket_of(length: int, bucket_lengths: Sequence[int]) -> int:
    """The shortest bucket that holds a row of `length` tokens.

    Raises:
        InputError: if none does.
    """
    for bucket in sorted(bucket_lengths):
        if bucket >= length:
            return bucket
    raise InputError(f'a row of {length} tokens exceeds the longest bucket {max(bucket_lengths)}')


def lengths_in(batch: Mapping[str, np.ndarray]) -> list[int]:
    """The bucket lengths of a packed batch, increasing."""
    prefix = 'tokens_'
    return sorted(int(name.removeprefix(prefix)) for name in batch if name.startswith(prefix))


def plan_capacities(
    lengths: Sequence[int], rows: int, bucket_lengths: Sequence[int] = BUCKET_LENGTHS, multiple: int = 8
) -> dict[int, int]:
    """Shares out the rows of a batch over the buckets as the corpus' lengths are distributed.

    Args:
        lengths: lengths of (a sample of) the corpus' marked rows, in tokens.
        rows: rows a batch.
        bucket_lengths: increasing; the last must hold every row.
        multiple: each bucket has a multiple of this many rows, so that they divide over devices.

    Returns:
        {bucket length: rows}, without empty buckets; rows add up to `rows`, rounded up to `multiple`. Rounding is
        towards longer buckets, where every row fits.

    Raises:
        InputError: if there are no lengths, or one exceeds the longest bucket.
    """
    lengths = np.asarray(lengths)
    bucket_lengths = tuple(bucket_lengths)
    if list(bucket_lengths) != sorted(set(bucket_lengths)):
        raise InputError(f'bucket_lengths must increase: {bucket_lengths}')
    if rows < 1 or multiple < 1:
        raise InputError(f'rows is {rows} and multiple is {multiple}; both must be at least 1')
    if not lengths.size:
        raise InputError('cannot plan buckets without any row')
    total = -(-rows // multiple) * multiple
    capacities, assigned = {}, 0
    # The longest bucket that any row needs always exists; it takes what rounding left.
    longest = bucket_of(lengths.max(), bucket_lengths)
    for length in bucket_lengths[: bucket_lengths.index(longest)]:
        share = total * np.mean(lengths <= length)
        capacity = int(min(share, total - multiple) - assigned) // multiple * multiple
        if capacity > 0:
            capacities[length] = capacity
            assigned += capacity
    capacities[longest] = total - assigned
    return capacities


class Packer:
    """Gives rows places in buckets, one by one, each in the shortest bucket with room.

    As longer buckets accept all that shorter ones do, this order loses no place: a row is refused only when
    no arrangement of the rows before it would have left it one.
    """

    def __init__(self, capacities: Mapping[int, int]):
        self.capacities = dict(sorted(capacities.items()))
        self.free = dict(self.capacities)
        self.places: list[int] = []  # the bucket length of each accepted row

    @property
    def full(self) -> bool:
        return not any(self.free.values())

    def add(self, length: int) -> bool:
        """Places a row of `length` tokens; False when no bucket that can hold it has room.

        Raises:
            InputError: if the row exceeds the longest bucket, so that it could never be placed.
        """
        for bucket, free in self.free.items():
            if free and bucket >= length:
                self.free[bucket] -= 1
                self.places.append(bucket)
                return True
        bucket_of(length, self.capacities)
        return False


def pack(
    rows: Sequence[MarkedPair],
    capacities: Mapping[int, int],
    special: SpecialIds,
    max_context: int,
    anchors: Sequence[bool] | None = None,
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Packs marked pairs into the arrays of one batch.

    Args:
        rows: marked pairs, the most wanted first.
        capacities: {bucket length L: rows n}, see `plan_capacities`.
        special: marker ids.
        max_context: C, the width of the context arrays; no row may have more.
        anchors: whether each row counts as an anchor of L_rel; none does by default.

    Returns:
        (batch, placed). The batch holds for each L: `tokens_{L}` [n, L], `r1_{L}`, `r2_{L}`, `topic_{L}`,
        `target_{L}` [n], `context_positions_{L}`, `context_entities_{L}` [n, C], all int32, and `anchor_{L}` [n]
        bool. Unused rows have topic, target and context entities -1 and [CLS] [SEP] as tokens, so that attention
        over them is defined; unused context slots have entity -1 and position 0. `placed` [len(rows)] bool tells
        which rows found a place.

    Raises:
        InputError: if a row exceeds the longest bucket, or the width of the context arrays.
    """
    placed, members = _assign(rows, capacities)
    batch = {}
    for length, chosen in members.items():
        n = capacities[length]
        topic = np.full(n, -1, np.int32)
        target = np.full(n, -1, np.int32)
        anchor = np.zeros(n, bool)
        r1, r2 = np.zeros(n, np.int32), np.zeros(n, np.int32)
        context_positions = np.zeros((n, max_context), np.int32)
        context_entities = np.full((n, max_context), -1, np.int32)
        for at, i in enumerate(chosen):
            row = rows[i]
            r1[at], r2[at], topic[at], target[at] = row.r1, row.r2, row.topic, row.target
            anchor[at] = anchors is not None and anchors[i]
            count = len(row.context_entities)
            if count > max_context:
                raise InputError(f'a row has {count} context mentions; at most {max_context} fit')
            context_positions[at, :count] = row.context_positions
            context_entities[at, :count] = row.context_entities
        batch |= {
            f'tokens_{length}': pad_tokens([rows[i].tokens for i in chosen], n, length, special),
            f'r1_{length}': r1,
            f'r2_{length}': r2,
            f'topic_{length}': topic,
            f'target_{length}': target,
            f'anchor_{length}': anchor,
            f'context_positions_{length}': context_positions,
            f'context_entities_{length}': context_entities,
        }
    return batch, placed


def pack_masked(
    rows: Sequence[MaskedMention], capacities: Mapping[int, int], special: SpecialIds
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Packs passages with one hidden mention each, as `pack` does pairs.

    Returns:
        (batch, placed): `tokens_{L}` [n, L], `position_{L}` [n], `entity_{L}` [n], int32; entity is -1 in unused
        rows.
    """
    placed, members = _assign(rows, capacities)
    batch = {}
    for length, chosen in members.items():
        n = capacities[length]
        position, entity = np.zeros(n, np.int32), np.full(n, -1, np.int32)
        position[: len(chosen)] = [rows[i].position for i in chosen]
        entity[: len(chosen)] = [rows[i].entity for i in chosen]
        tokens = pad_tokens([rows[i].tokens for i in chosen], n, length, special)
        batch |= {f'tokens_{length}': tokens, f'position_{length}': position, f'entity_{length}': entity}
    return batch, placed


def pad_tokens(rows: Sequence[np.ndarray], count: int, length: int, special: SpecialIds) -> np.ndarray:
    """Stacks token rows to [count, length] int32; missing rows hold [CLS] [SEP]."""
    tokens = np.full((count, length), special.pad, np.int32)
    for at, row in enumerate(rows):
        tokens[at, : len(row)] = row
    tokens[len(rows) :, :2] = special.cls, special.sep
    return tokens


def _assign(rows, capacities):
    """Returns (placed [len(rows)] bool, {bucket length: indices of its rows})."""
    packer = Packer(capacities)
    placed = np.array([packer.add(len(row.tokens)) for row in rows], bool)
    members = {length: [] for length in packer.capacities}
    for i, bucket in zip(np.flatnonzero(placed), packer.places):
        members[bucket].append(int(i))
    return placed, members
