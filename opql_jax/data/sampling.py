"""Which pair rows make a batch for L_rel: positives, hard negatives and neighbours (paper §2).

A *row* is one mention of an ordered pair (topic, target) in a passage; a *pair* has one or more
rows. A positive of a row is one of the same pair in another passage: in its own passage most words
are the same, and tell nothing about the relation. A hard negative shares its topic or its target,
never both.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from opql_jax.core.errors import InputError, check_choice
from opql_jax.corpus.tables import PREPARED

COLUMNS = ('topic', 'target', 'passage', 'topic_mention', 'target_mention')
# After this many repeats in a row, a sampler goes through what is left.
PATIENCE = 20
# Caps per anchor (paper §2.5).
POSITIVES, NEGATIVES = 2, 8
# Anchor pairs are drawn uniformly, or in proportion to their mentions.
ANCHORS = ('pairs', 'mentions')


class PairIndex:
    """Finds the rows of a pair and the pairs that share a topic or a target.

    Attributes:
        topic, target, passage, topic_mention, target_mention: [n_rows] int32, the pair table.
        pair_start: [n_pairs + 1] int64; the rows of pair p are pair_start[p] .. pair_start[p + 1].
        pair_topic, pair_target: [n_pairs] int32, sorted by (topic, target).
        repeated: [n_pairs] bool, pairs that at least two passages mention.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        """Takes `COLUMNS`, [n_rows]; InputError if empty or not sorted by (topic, target)."""
        self.topic, self.target, self.passage, self.topic_mention, self.target_mention = (
            np.asarray(columns[name], np.int32) for name in COLUMNS
        )
        if not len(self.topic):
            raise InputError('the pair table is empty: no passage mentions two entities')
        keys = pair_key(self.topic, self.target)
        if np.any(keys[1:] < keys[:-1]):
            raise InputError(f'the pair table is not sorted by (topic, target); {PREPARED.advice}')
        starts = np.concatenate([[0], 1 + np.flatnonzero(keys[1:] != keys[:-1])])
        self._keys = keys[starts]
        self.pair_start = np.append(starts, len(keys))
        self.pair_topic, self.pair_target = self.topic[starts], self.target[starts]
        last, first = (f.reduceat(self.passage, starts) for f in (np.maximum, np.minimum))
        self.repeated = last > first
        # Pairs in order of (topic, repeated first), and of (target, repeated first).
        self._sides = [_Side(ends, self.repeated) for ends in (self.pair_topic, self.pair_target)]

    def pair_of(self, rows: np.ndarray) -> np.ndarray:
        """The pair of each row."""
        return np.searchsorted(self.pair_start, rows, side='right') - 1

    def find(self, topic: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The pair (topic, target), elementwise; -1 where there is none."""
        keys = pair_key(topic, target)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, at, -1)

    def pairs_of_topic(self, entity: int) -> tuple[int, int]:
        """The range of pairs with this topic."""
        start, end = np.searchsorted(self.pair_topic, [entity, entity + 1])
        return int(start), int(end)

    def rows(self, pair: int, count: int, rng: np.random.Generator) -> np.ndarray:
        """Up to `count` random rows of a pair, each of another passage."""
        start, end = int(self.pair_start[pair]), int(self.pair_start[pair + 1])
        if count == 1:
            return rng.integers(start, end, 1)
        rows = some(start, end, 8 * count, rng)
        of_passage: dict[int, int] = {}  # for so few, ten times as fast as np.unique
        for row, passage in zip(rows.tolist(), self.passage[rows].tolist()):
            of_passage.setdefault(passage, row)
        return np.array(list(of_passage.values())[:count], np.int64)

    def neighbours(
        self, pair: int, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """At most `count` random pairs with its topic, and with its target; repeated first."""
        by_topic, by_target = self._sides
        return (
            by_topic.draw(int(self.pair_topic[pair]), pair, count, rng),
            by_target.draw(int(self.pair_target[pair]), pair, count, rng),
        )


# Where keys of `_Side` change: repeated pairs of an entity, others, the next entity.
_KEY_BOUNDS = np.arange(3)


class _Side:
    """Pairs by one of their two entities, repeated ones first."""

    def __init__(self, entity, repeated):
        keys = 2 * entity.astype(np.int64) + ~repeated
        self._order = np.argsort(keys, kind='stable')
        self._keys = keys[self._order]

    def draw(self, entity, exclude, count, rng):
        """At most `count` pairs of an entity without `exclude`, repeated if there are fewer."""
        start, middle, end = self._keys.searchsorted(2 * entity + _KEY_BOUNDS).tolist()
        chosen = self._order[some(start, middle, count + 1, rng)]
        chosen = chosen[chosen != exclude][:count]
        if len(chosen) < count:
            others = self._order[some(middle, end, count + 1 - len(chosen), rng)]
            chosen = np.concatenate([chosen, others[others != exclude]])[:count]
        return chosen


class GroupSampler:
    """The paper's groups (§2.5): half of the negatives share the topic, half the target."""

    def __init__(self, index: PairIndex, anchors: str = 'pairs'):
        self._index, self._seeds = index, _Seeds(index, anchors)

    def draw(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields groups (rows [m], is_anchor [m] bool) of distinct anchor pairs, anchors first."""
        for pair in self._seeds.unseen(set(), rng):
            same = self._index.rows(pair, 1 + POSITIVES, rng)
            by_topic, by_target = self._index.neighbours(pair, NEGATIVES, rng)
            chosen = by_topic[: max(NEGATIVES // 2, NEGATIVES - len(by_target))]
            chosen = np.concatenate([chosen, by_target[: NEGATIVES - len(chosen)]])
            start = self._index.pair_start
            rows = np.concatenate([same, rng.integers(start[chosen], start[chosen + 1])])
            yield rows, np.arange(len(rows)) == 0


class SharedSampler:
    """Each row of a repeated pair is an anchor, and other rows its hard negatives.

    Of pairs that neighbour a seed pair, breadth-first. The paper's anchor costs 11 encodings.
    """

    def __init__(self, index: PairIndex, neighbours: int = 16, anchors: str = 'pairs'):
        """Takes so many pairs around each seed pair, the seed included."""
        self._index, self._neighbours, self._seeds = index, neighbours, _Seeds(index, anchors)

    def draw(self, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields neighbourhoods (rows [m], is_anchor [m] bool, all True); no pair comes twice."""
        seen = set()
        for seed in self._seeds.unseen(seen, rng):
            cluster = [seed]
            for pair in cluster:  # grows while it is walked: breadth-first
                room = self._neighbours - len(cluster)
                if room <= 0:
                    break
                by_topic, by_target = self._index.neighbours(pair, (self._neighbours + 1) // 2, rng)
                new = [p for p in np.concatenate([by_topic, by_target]).tolist() if p not in seen]
                new = list(dict.fromkeys(new))[:room]
                seen.update(new)
                cluster += new
            rows = np.concatenate([self._index.rows(p, 1 + POSITIVES, rng) for p in cluster])
            yield rows, np.ones(len(rows), bool)


SAMPLERS: dict[str, Callable] = {'groups': GroupSampler, 'shared': SharedSampler}


def some(start: int, end: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """At most `count` distinct random integers of [start, end), or all, in O(count)."""
    if end - start <= 4 * count:
        return start + rng.permutation(end - start)[:count]
    distinct = list(dict.fromkeys(rng.integers(start, end, 2 * count).tolist()))
    return np.array(distinct[:count], np.int64)


class _Seeds:
    """The repeated pairs; all pairs if none is repeated, as L_el can still use them."""

    def __init__(self, index, anchors):
        check_choice('anchors', anchors, ANCHORS)
        self._pairs = np.flatnonzero(index.repeated | (not index.repeated.any()))
        mentions = np.diff(index.pair_start)[self._pairs]
        self._ends = np.cumsum(mentions) if anchors == 'mentions' else None

    def _draw(self, rng) -> int:
        if self._ends is None:
            return int(self._pairs[rng.integers(len(self._pairs))])
        mention = rng.integers(self._ends[-1])
        return int(self._pairs[self._ends.searchsorted(mention, side='right')])

    def unseen(self, seen, rng):
        """All pairs in random order, added to `seen`; those already in it are left out."""
        misses = 0
        # A batch needs few of many seeds, so permuting them all would be wasteful.
        while misses < PATIENCE:
            seed = self._draw(rng)
            if seed in seen:
                misses += 1
                continue
            misses = 0
            seen.add(seed)
            yield seed
        for seed in rng.permutation(self._pairs).tolist():
            if seed not in seen:
                seen.add(seed)
                yield seed


def pair_key(topic: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(topic, target) as one int64 that sorts alike."""
    return (np.asarray(topic, np.int64) << 32) + np.asarray(target, np.int64)
