"""Batches of marked pairs for pretraining the relation encoder (L_rel and L_el, paper §2)."""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from opql_jax.core.errors import check_choice
from opql_jax.data import batching, markup, sampling
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.base import Source

_log = logging.getLogger(__name__)

# Rows from which the distribution of lengths is estimated.
_SAMPLE = 4096
# A batch is closed once this many times its rows were offered, even if some stay empty.
_MAX_OFFERED_RATIO = 1.5


class RelationBatch(NamedTuple):
    """Marked pairs."""

    pairs: tuple[batching.PairBucket, ...]


class PairPacker:
    """Marks and packs rows of the pair table, `index`; `capacities` are {bucket length: rows}."""

    def __init__(
        self,
        prepared: Prepared,
        columns: Mapping[str, np.ndarray],
        rows: int,
        max_context: int,
        buckets: batching.Buckets = (),
    ):
        """Plans batches of `rows` rows of the pair table with `max_context` mentions each."""
        self.index = sampling.PairIndex(columns)
        self._records = prepared.records
        self._special = prepared.special
        self._max_context = max_context
        tokens, _ = self._records.sizes()
        sample = np.unique(np.linspace(0, len(self.index.topic) - 1, _SAMPLE).astype(np.int64))
        lengths = self._mark(sample, self._read(sample), np.arange(len(sample))).lengths.tolist()
        # The sample may lack the longest row, which must have a bucket too.
        longest = int(tokens[np.unique(self.index.passage)].max()) + markup.MARKUP_ROOM
        lengths.append(longest)
        self.capacities = batching.capacities_for(lengths, lengths, rows, buckets)

    def _mark(
        self, rows: np.ndarray, passages: markup.JoinedPassages, at: np.ndarray
    ) -> markup.MarkedPairs:
        """Marks rows, whose passages are those at `at`."""
        topic, target = self.index.topic_mention[rows], self.index.target_mention[rows]
        return markup.MarkedPairs(passages, at, topic, target, self._special)

    def _read(self, rows: np.ndarray) -> markup.JoinedPassages:
        return self._records.read_joined(self.index.passage[rows])

    def pack(
        self, chunks: Iterator[tuple[np.ndarray, np.ndarray]]
    ) -> tuple[batching.PairBucket, ...]:
        """Packs chunks (rows, whether meant as anchors) until full, a pair once per passage.

        Rows without room are skipped, and anchors stay if their pair has another passage.
        """
        packer = batching.Packer(self.capacities)
        most = _MAX_OFFERED_RATIO * sum(self.capacities.values())
        seen: set[int] = set()  # pair and passage
        none = np.zeros(0, np.int64)
        offered, read = [(none, none, none.astype(bool))], []
        packed, before = [], 0  # places among the offered, and how many were read before
        while not (packer.full or len(seen) > most):
            # As many as there is room for are read at once.
            some, room = [], sum(packer.free.values())
            while room > 0 and (chunk := next(chunks, None)) is not None:
                some.append(chunk)
                room -= len(chunk[0])
            if not some:
                break
            rows, meant = (np.concatenate(column) for column in zip(*some))
            keys = sampling.pair_key(self.index.pair_of(rows), self.index.passage[rows])
            offered.append((rows, keys, meant))
            read.append(self._read(rows))
            lengths = self._mark(rows, read[-1], np.arange(len(rows))).lengths.tolist()
            for place, (key, length) in enumerate(zip(keys.tolist(), lengths), before):
                if key not in seen:
                    seen.add(key)
                    if packer.add(length):
                        packed.append(place)
            before += len(rows)
        rows, keys, meant = (np.concatenate(column) for column in zip(*offered))
        places = np.array(packed, np.int64)
        anchors = np.isin(keys[places], keys[meant])
        rows, pairs = rows[places], keys[places] >> 32
        _, pair, count = np.unique(pairs, return_inverse=True, return_counts=True)
        anchors &= count[pair] > 1
        marked = self._mark(rows, markup.end_to_end(read), places)

        def bucket(length, n, members):
            members = np.array(members, np.int64)
            tokens, r1, r2 = marked.batch(members, n, length)
            column = lambda values, fill: batching.filled(values[members], n, fill)
            topic, target = (
                column(ends[rows], -1) for ends in (self.index.topic, self.index.target)
            )
            context = marked.context(members, n, self._max_context)
            return batching.PairBucket(
                tokens, r1, r2, topic, target, column(anchors, False), *context
            )

        return tuple(bucket(*each) for each in packer.buckets())


@dataclasses.dataclass(frozen=True)
class RelationSettings:
    """Which pairs make a batch.

    Attributes:
        sampler: 'groups' (the paper's anchor, 2 positives, 8 hard negatives) or 'shared'
            (neighbouring pairs, every encoded mention is a positive or hard negative of others).
        anchors: how their pairs are drawn, see `sampling.ANCHORS`.
        rows: mentions encoded per step.
        buckets: of these, ((tokens of a row, rows), ...), shortest first; planned from the text if
            (), each and all together a multiple of 8 rows.
        neighbours: pairs around each seed pair (sampler 'shared'); with 1, negatives are hard by
            chance alone. The fewer, the more subjects a batch has; with many, a passage's subject
            tells no two rows apart and is not learnt.
        max_context: context mentions per row for L_el; each costs a softmax over all entities.
        min_count, max_pairs: which pairs are learnt from, see `select_pair_rows`; all by default,
            in the paper (§2.5) the 800,000 with the highest mutual information of those that 5
            passages mention.
    """

    sampler: str = 'shared'
    anchors: str = 'pairs'
    rows: int = 256
    buckets: batching.Buckets = ()
    neighbours: int = 16
    max_context: int = 2
    min_count: int = 1
    max_pairs: int | None = None


class RelationSource(Source):
    """Draws marked pairs by a sampler, see `sampling`.

    Attributes:
        has_positives: whether two passages mention the same pair. If none do, no row is an anchor,
            and L_rel teaches nothing.
    """

    def __init__(self, prepared: Prepared, settings: RelationSettings, seed: int = 0):
        super().__init__(seed)
        check_choice('sampler', settings.sampler, sampling.SAMPLERS)
        columns = prepared.pairs
        if (settings.min_count, settings.max_pairs) != (1, None):  # else a copy of the whole table
            rows = select_pair_rows(prepared, 'all', settings.min_count, settings.max_pairs)
            columns = {name: column[rows] for name, column in columns.items()}
        sizes = settings.rows, settings.max_context, settings.buckets
        self._packer = PairPacker(prepared, columns, *sizes)
        options: dict = {'anchors': settings.anchors}
        options |= {'neighbours': settings.neighbours} if settings.sampler == 'shared' else {}
        self._sampler = sampling.SAMPLERS[settings.sampler](self._packer.index, **options)
        self.capacities = self._packer.capacities
        self.has_positives = bool(self._packer.index.repeated.any())
        if not self.has_positives:
            _log.warning('no two passages mention one pair, so L_rel teaches nothing: add text')

    def batch(self, step, rng) -> RelationBatch:
        return RelationBatch(self._packer.pack(self._sampler.draw(rng)))
