"""A memory on disk, opened for reading; docs/explanation/memory.md tells what its files hold.

Embeddings of entities are taken from the entity table at search time, so a memory stays valid when
that table is trained further. The id of an entry stays the same for as long as it exists and is
never reused. The row of an entry is its place among all living entries, sorted by topic and then by
id; an update moves rows. In a memory as built, ids are rows.

Nothing in the folder is believed: what the manifest states is compared with the arrays, each file
with its digest when it is first read, and ids and numbers with what they may be.
"""

import concurrent.futures
import contextlib
import functools
import pathlib
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from opql_jax.core import files, locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.arrays import (
    MAX_MAGNITUDE,
    SCALE_BYTES,
    ArraySchema,
    bad_row,
    read_array,
    scales,
)
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import MANIFEST, ManifestError
from opql_jax.core.ranges import ranges
from opql_jax.corpus import tables
from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.manifest import FORMAT, MemoryManifest, SegmentInfo, read_manifest
from opql_jax.memory.relations import Halves, Shards, by_shard, sums

if TYPE_CHECKING:
    from opql_jax.memory.follow import MemoryArrays

ROW_DTYPES = ('float32', 'float16')  # of relations; of halves it is int8

# Offsets are code points of the passage text, half-open. A sentence column is the sentence that
# holds the mention.
SPANS = ('topic', 'target', 'topic_sentence', 'target_sentence')
PROVENANCE = pa.schema(
    [('entry', pa.int64()), ('passage', pa.int32())]
    + [(f'{span}_{side}', pa.int32()) for span in SPANS for side in ('start', 'end')]
)


class Memory:
    """A finished memory, opened for reading: one state of it, which later updates do not change.

    Arrays are memory-mapped, except that those of several segments, or with tombstones, are merged
    in main memory.

    Attributes:
        topic, target, ids: [N] int32, int32 and int64, of the living entries by row.
        deleted: [m] int64, rising: ids of entries that are stored and deleted.
        entity_rows: [new, d_e] float32, embeddings of the entities that the entity table lacks; [0,
            0] if there are none.
    """

    def __init__(
        self, directory: pathlib.Path, manifest: MemoryManifest, readers: contextlib.ExitStack
    ):
        self.directory, self.manifest = directory, manifest
        self.entity_rows = np.zeros((0, 0), np.float32)
        if new := manifest.entity_rows:
            schema = ArraySchema('float32', (new.num_entities, new.dim), largest=MAX_MAGNITUDE)
            self.entity_rows = self._load(new.file, schema)
        topic, target, ids = ([np.zeros(0, dtype)] for dtype in (np.int32, np.int32, np.int64))
        is_halves = manifest.relations == 'halves'
        mentions: list[np.ndarray] = [np.zeros((0, 2), np.int32)]
        # Of each shard the file of where its entries were read, and their ids [n] int64.
        shards: list[tuple[str, np.ndarray]] = []
        stored: list[tuple[str, int]] = []  # files with relations or halves, and how many
        num_mentions = 0
        for segment in manifest.segments:
            of_entities = ArraySchema('int32', (segment.num_entries,), ids=(segment.num_entities,))
            topic.append(self._load(f'{segment.name}/topic.npy', of_entities))
            target.append(self._load(f'{segment.name}/target.npy', of_entities))
            of_entries = ArraySchema('int64', (segment.num_entries,), ids=(manifest.next_entry,))
            file, rows = f'{segment.name}/ids.npy', np.arange(len(topic[-1]))
            ids.append(self._load(file, of_entries) if file in manifest.files else rows)
            self._check_order(segment, topic[-1], ids[-1], after=ids[-2].max(initial=-1))
            least, most = (1, 2 * segment.num_entries) if is_halves else (0, 0)
            if not least <= segment.num_mentions <= most:
                halves = f'{segment.name} has halves of {segment.num_mentions} mentions'
                raise self._damaged(MANIFEST, f'{halves}, and relations as {manifest.relations}')
            for number, start, stop in shards_of(segment.num_entries, manifest.shard_rows):
                relations, provenance = shard_files(segment.name, number)
                shards.append((provenance, ids[-1][start:stop]))
                stored += [] if segment.num_mentions else [(relations, stop - start)]
            if segment.num_mentions:
                of_mentions = ArraySchema(
                    'int32', (segment.num_entries, 2), ids=(segment.num_mentions,) * 2
                )
                numbers = self._load(f'{segment.name}/mentions.npy', of_mentions)
                mentions.append(
                    numbers + np.int64(num_mentions) if num_mentions else numbers.view(np.ndarray)
                )
                num_mentions += segment.num_mentions
                stored += [
                    (halves_file(segment.name, number), 2 * (stop - start))
                    for number, start, stop in shards_of(segment.num_mentions, manifest.shard_rows)
                ]
        self._first = np.cumsum([0] + [len(entries) for _, entries in shards])
        self.deleted = np.zeros(0, np.int64)
        # Where the entry of each row is stored; None if row i is stored at i.
        self._place: np.ndarray | None = None
        if len(manifest.segments) == 1 and not manifest.tombstones:
            (_, self.topic), (_, self.target), (_, self.ids) = topic, target, ids
        else:
            self._merge(*map(np.concatenate, (topic, target, ids)))
        self._check_counts()
        self._shards = shards
        # A single segment stays on disk.
        pairs = mentions[-1] if len(mentions) <= 2 else np.concatenate(mentions)
        # Of the stored entries, in their order; None where each has a relation of its own.
        self._pairs = pairs if is_halves else None
        no_relations = np.zeros((0, _width(manifest)), manifest.dtype)
        self._relations = Shards(
            stored, functools.partial(_read_relations, directory, manifest), no_relations
        )
        self._mentions = functools.lru_cache(maxsize=64)(
            functools.partial(_read_mentions, directory, manifest, shards)
        )
        self._release = weakref.finalize(self, readers.close)

    def _merge(self, topic, target, ids):
        """Makes one sequence of living entries, sorted by topic and id."""
        # Ids rise from segment to segment and within the entries of a topic, so that a stable sort
        # leaves them in order.
        place = np.argsort(topic, kind='stable')
        if deleted := self.manifest.tombstones:
            ids_of = ArraySchema('int64', (deleted.num_entries,), ids=(self.manifest.next_entry,))
            dead = self._load(deleted.file, ids_of)
            if not ((np.diff(dead) > 0).all() and np.isin(dead, ids).all()):
                raise self._damaged(deleted.file, 'not the ids of stored entries in rising order')
            place, self.deleted = place[~np.isin(ids[place], dead)], dead
        self._place = place
        self.topic = topic[place]
        self.target = target[place]
        self.ids = ids[place]

    def _check_order(self, segment: SegmentInfo, topic, ids, after: int):
        """Raises ManifestError unless a segment is in order; `after` is the last id before it."""
        if (topic[1:] < topic[:-1]).any():
            raise self._damaged(f'{segment.name}/topic.npy', 'not in rising order')
        step = np.diff(ids)
        unique = (step > 0).all() or (
            (step[topic[1:] == topic[:-1]] > 0).all() and (np.diff(np.sort(ids)) > 0).all()
        )
        if not unique or ids.min() <= after:
            wrong = f'not ids from {after + 1} on, each once, rising with each topic'
            raise self._damaged(f'{segment.name}/ids.npy', wrong)

    def _check_counts(self):
        """Raises ManifestError unless the counts of the manifest are those of the arrays."""
        manifest = self.manifest
        known = [segment.num_entities for segment in self.manifest.segments]
        if len(self.topic) != manifest.num_entries:
            living = f'there are {len(self.topic)} living entries'
            raise self._damaged(MANIFEST, f'num_entries is {manifest.num_entries}, {living}')
        if known and not max(known) <= manifest.num_entities <= max(known) + len(self.entity_rows):
            there = f'{max(known)} and {len(self.entity_rows)} injected ones'
            raise self._damaged(MANIFEST, f'num_entities is {manifest.num_entities}, of {there}')

    @classmethod
    def open(
        cls, directory, encoder_hash: str | None = None, vocabulary_hash: str | None = None
    ) -> 'Memory':
        """Opens the memory in `directory`, on disk or in a bucket, of which a copy is opened.

        `encoder_hash` and `vocabulary_hash` are those of what is in use; None checks nothing.
        ManifestError: no memory, an unfinished build, another format version, a missing or
        truncated file, or a memory built with another encoder or vocabulary.
        """
        if files.is_remote(directory):
            read_manifest(directory)  # which says best what is wrong with a folder
        directory = manifest_lib.local_copy(directory)
        while True:
            manifest = read_manifest(directory)
            readers = locks.shared(directory, (segment.name for segment in manifest.segments))
            try:
                manifest_lib.check_files(directory, manifest, FORMAT)
                memory = cls(directory, manifest, readers)
                break
            except (InputError, OSError):
                readers.close()
                # An update that ended meanwhile may have removed files of the state before.
                if read_manifest(directory) == manifest:
                    raise
        for kind, used in (('encoder', encoder_hash), ('vocabulary', vocabulary_hash)):
            if used is not None:
                memory._check_hash(kind, used)
        return memory

    @functools.cached_property
    def offsets(self) -> np.ndarray:
        """[n_entities + 1] int64: topic x has the rows offsets[x] .. offsets[x + 1] - 1."""
        # Only when they are needed, by when the number of entities was compared with the
        # vocabulary.
        rows_of_topic = np.bincount(self.topic, minlength=self.manifest.num_entities)
        return np.concatenate([[0], np.cumsum(rows_of_topic)]).astype(np.int64)

    def close(self) -> None:
        """Lets `compact` remove this state's files, as dropping the object does."""
        self._release()

    def __len__(self) -> int:
        return self.manifest.num_entries

    def hash(self) -> str:
        """Hex sha256 that identifies the content of the memory (every file's digest enters it)."""
        return manifest_lib.manifest_hash(self.manifest)

    def descends_from(self, earlier_hash: str) -> bool:
        """Whether `earlier_hash` is this memory's `hash`, or of a state that was updated to it."""
        return earlier_hash == self.hash() or earlier_hash in self.manifest.history

    def check_encoder(self, params) -> None:
        """Raises ManifestError if the memory was not built with the encoder parameters `params`."""
        self._check_hash('encoder', params_hash(params))

    def check_vocabulary(self, vocab: EntityVocab) -> None:
        """Raises ManifestError if the `EntityVocab` does not begin with the memory's entities."""
        count = self.manifest.num_entities
        self._check_hash('vocabulary', vocab.hash(min(count, len(vocab))))
        if count > len(vocab):
            raise self._damaged(
                MANIFEST, f'num_entities is {count}, of {len(vocab)} in the vocabulary'
            )

    def arrays(self) -> 'MemoryArrays':
        """The living entries as device arrays for `memory.follow`; without any, one of no topic."""
        import jax.numpy as jnp  # here, as nothing else of a memory needs devices

        from opql_jax.memory.follow import MemoryArrays

        if len(self) >= 2**31:
            raise ManifestError(
                f'{self.directory}: {len(self)} entries do not fit int32 ids; shard the memory'
            )
        topic, target, relations = self.topic, self.target, self.relations()
        if not len(self):
            topic = target = np.full(1, -1, np.int32)
            relations = np.zeros((1, relations.shape[1]), relations.dtype)
        columns = topic, target, relations, self.offsets.astype(np.int32)
        return MemoryArrays(*map(jnp.asarray, columns))

    def relations(self, rows=None) -> np.ndarray:
        """Relations [n, d_r] of rows (all if None), as stored; of halves float32, unit length."""
        if rows is None:
            shards = self.relation_shards
            if self._place is None and self._pairs is None:
                return np.concatenate(shards)
            rows = np.arange(len(self))
        places = self._places(rows)
        if self._pairs is None:
            return self._relations.take(places)
        return sums(self._pairs[places], self._relations.take)

    def halves(self) -> Halves | None:
        """What the relations of all rows are sums of, as stored; None if relations are stored."""
        if self._pairs is None:
            return None
        take = self._relations.take
        both = lambda mentions: take(np.ravel(2 * mentions[:, None] + [0, 1]))
        of = lambda mentions: both(mentions).reshape(len(mentions), 2, -1)
        return Halves(self._pairs[self._places(np.arange(len(self)))], of)

    def _places(self, rows) -> np.ndarray:
        """Where the entries of rows [n] are stored, among all that are."""
        rows = np.asarray(rows, np.int64)
        return rows if self._place is None else self._place[rows]

    def rows(self, entry_ids) -> np.ndarray:
        """The rows [n] int64 of entries; IndexError for an id that is no living entry."""
        entry_ids = np.asarray(entry_ids, np.int64).reshape(-1)
        by_id = self._by_id
        rows, missing = np.zeros_like(entry_ids), entry_ids
        if len(by_id):
            rows = by_id[
                np.minimum(np.searchsorted(self.ids, entry_ids, sorter=by_id), len(by_id) - 1)
            ]
            missing = entry_ids[self.ids[rows] != entry_ids]
        if len(missing):
            raise IndexError(
                f'entry {missing[0]} is not in {self.directory}, which has {len(self)} entries'
            )
        return rows

    @functools.cached_property
    def _by_id(self) -> np.ndarray:
        return np.argsort(self.ids, kind='stable')

    def provenance(self, entry_ids) -> list[dict]:
        """Where entries were read: for each id a dict per mention pair, several if averaged.

        It has `entry` and `passage` ids, and the spans (start, end) of SPANS in code points of the
        passage. IndexError: an id that is no living entry.
        """
        columns = self.mentions(self.rows(entry_ids))
        columns = {name: column.tolist() for name, column in columns.items()}
        return [
            {'entry': columns['entry'][i], 'passage': columns['passage'][i]}
            | {span: (columns[f'{span}_start'][i], columns[f'{span}_end'][i]) for span in SPANS}
            for i in range(len(columns['entry']))
        ]

    def mentions(self, rows) -> dict[str, np.ndarray]:
        """The columns of `PROVENANCE` for some rows, in their order: one item per mention pair."""
        rows = np.asarray(rows, np.int64)
        order = [np.zeros(0, np.int64)]
        parts = [{field.name: np.zeros(0, field.type.to_pandas_dtype()) for field in PROVENANCE}]
        for shard, indices, _ in by_shard(self._places(rows), self._first):
            columns = self._mentions(shard)
            first, end = (
                np.searchsorted(columns['entry'], self.ids[rows[indices]], side=side)
                for side in ('left', 'right')
            )
            which, mentions = ranges(first, end - first)
            order.append(indices[which])
            parts.append({name: column[mentions] for name, column in columns.items()})
        by_row = np.argsort(np.concatenate(order), kind='stable')
        return {
            name: np.concatenate([part[name] for part in parts])[by_row]
            for name in PROVENANCE.names
        }

    def read_from(self, passages) -> np.ndarray:
        """Ids [n] int64, rising, of the living entries with a mention in one of `passages`."""
        entries = [np.zeros(0, np.int64)]
        for shard in range(len(self._shards)):
            columns = self._mentions(shard)
            entries.append(columns['entry'][np.isin(columns['passage'], passages)])
        return np.intersect1d(np.concatenate(entries), self.ids)

    def verify(self) -> None:
        """Reads every file; raises ManifestError naming the first that is not as stated."""
        manifest_lib.verify_files(self.directory, self.manifest, FORMAT)
        self.relation_shards  # noqa: B018, whose numbers are looked at
        mentions = sum(len(self._mentions(shard)['entry']) for shard in range(len(self._shards)))
        if mentions != self.manifest.num_mentions:
            raise self._damaged(
                MANIFEST, f'num_mentions is {self.manifest.num_mentions}, there are {mentions}'
            )

    @property
    def relation_shards(self) -> list[np.ndarray]:
        """The relations as stored, by segment, with deleted ones: [rows, d_r], or packed halves."""
        # Which are hashed without holding Python's lock.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(self._relations.__getitem__, range(len(self._relations))))

    def _damaged(self, name: str, what: str) -> ManifestError:
        return FORMAT.damaged(self.directory / name, what)

    def _check_hash(self, kind: str, used: str) -> None:
        built = self.manifest.hashes.get(kind)
        if built != used:
            raise ManifestError(
                f'{self.directory} was built with the {kind} {built}, but the {kind} in use is '
                f'{used}: use that {kind}, or build a memory with the present one'
            )

    def _load(self, name: str, schema: ArraySchema) -> np.ndarray:
        return _load(self.directory, self.manifest, name, schema)


def shards_of(num_entries: int, shard_rows: int) -> list[tuple[int, int, int]]:
    """(number, first row, end) of the shards of a segment."""
    return [
        (start // shard_rows, start, min(start + shard_rows, num_entries))
        for start in range(0, num_entries, shard_rows)
    ]


def shard_files(segment: str, number: int) -> tuple[str, str]:
    """The names of a shard's relations and of its provenance."""
    return f'{segment}/relations-{number:05d}.npy', f'{segment}/provenance-{number:05d}.parquet'


def halves_file(segment: str, number: int) -> str:
    """The name of a shard of halves."""
    return f'{segment}/halves-{number:05d}.npy'


def _load(directory, manifest: MemoryManifest, name: str, schema: ArraySchema) -> np.ndarray:
    file = manifest_lib.checked_file(directory, name, manifest, FORMAT)
    return read_array(file, schema, {}, FORMAT.advice, mmap_mode='r')


def _width(manifest: MemoryManifest) -> int:
    """The numbers of a stored relation, or half."""
    return manifest.relation_dim + (SCALE_BYTES if manifest.relations == 'halves' else 0)


def _read_relations(directory, manifest: MemoryManifest, name: str, rows: int) -> np.ndarray:
    """The rows of a file of relations [rows, d_r], or of packed halves."""
    width, dtype, is_packed = _width(manifest), manifest.dtype, manifest.relations == 'halves'
    shape = (rows // 2, 2, width) if is_packed else (rows, width)
    # As a plain array, of which some rows are taken faster.
    relations = _load(directory, manifest, name, ArraySchema(dtype, shape))
    relations = relations.view(np.ndarray).reshape(rows, width)
    if (row := bad_row(scales(relations) if is_packed else relations)) is not None:
        bad = f'row {row} has a number that is not finite, or above {MAX_MAGNITUDE:g}'
        raise FORMAT.damaged(directory / name, bad)
    return relations


def _read_mentions(
    directory, manifest: MemoryManifest, shards, shard: int
) -> dict[str, np.ndarray]:
    """The provenance of one shard, sorted by entry id."""
    name, ids = shards[shard]
    file = manifest_lib.checked_file(directory, name, manifest, FORMAT)
    table = tables.read_table(file, PROVENANCE, advice=FORMAT.advice)
    columns = {name: tables.numbers(table[name]) for name in PROVENANCE.names}
    by_entry = np.argsort(columns['entry'], kind='stable')
    columns = {name: column[by_entry] for name, column in columns.items()}
    entries, passage = np.unique(columns['entry']), columns['passage']
    if not np.array_equal(entries, np.sort(ids)):
        raise FORMAT.damaged(file, 'its entries are not those of the shard')
    passages = manifest.covers.passages if manifest.covers else 2**31
    if passage.min() < 0 or passage.max() >= passages:
        others = f'names passages {passage.min()} to {passage.max()} of {passages}'
        raise FORMAT.damaged(file, others)
    for span in SPANS:
        start, end = columns[f'{span}_start'], columns[f'{span}_end']
        if (start < 0).any() or (end < start).any():
            raise FORMAT.damaged(file, f'a span {span} ends before it begins')
    return columns
