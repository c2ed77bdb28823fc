"""The memory on disk: a folder of array shards, Parquet provenance and a manifest, and how it is read.

    manifest.json                             what there is, what it was built from, bytes and sha256 of every file
    segment-00000/topic.npy                   [N] int32, rising
    segment-00000/target.npy                  [N] int32
    segment-00000/ids.npy                     [N] int64, entry ids
    segment-00000/offsets.npy                 [n_entities + 1] int64: topic x has the rows offsets[x] .. offsets[x + 1] - 1
    segment-00000/relations-00000.npy ...     [shard_rows, d_r] float32 or float16; bfloat16 as its bits, uint16
    segment-00000/provenance-00000.parquet    where the entries of the same shard were read: one row per mention pair
    tombstones-00000.npy                      [deleted] int64, rising: ids of entries that are stored in a segment and deleted
    entity_rows-00000.npy                     [new, d_e] float32: embeddings of entities that the entity table lacks

Entries hold ids and the relation only; embeddings of entities are taken from the entity table at search time, so a memory
stays valid when that table is trained further. `memory/build.py` writes one segment, `memory/update.py` adds segments and
tombstones and merges them; the manifest comes last, so a folder without one is no memory.

The id of an entry stays the same for as long as it exists and is never given again. The row of an entry is its place
among all living entries, sorted by topic and then by id; an update moves rows. In a memory as built, ids are rows.

The manifest states, besides the files, `segments` (name, num_entries, num_entities of each), `tombstones` and `entity_rows` (file
and size, or null), `next_entry` (the next id to be given), the options of the build (`build.BuildOptions`), `history` (the hashes
of the states before) and `injected` (what the last update added, if it was an injection).
"""

import contextlib
import functools
import pathlib
import weakref

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa

from opql_jax.core import files, locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import MANIFEST, FolderFormat, ManifestError
from opql_jax.corpus import tables
from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.follow import MemoryArrays, relation_bits

FORMAT = FolderFormat('opql-memory', 1, 'a memory', 'build_memory')
PLAN = 'plan.json'
DTYPES = {'float32': np.float32, 'float16': np.float16, 'bfloat16': ml_dtypes.bfloat16}

# Offsets are code points of the passage text, half-open. A sentence column is the sentence that holds the mention.
SPANS = ('topic', 'target', 'topic_sentence', 'target_sentence')
PROVENANCE = pa.schema(
    [('entry', pa.int64()), ('passage', pa.int32())]
    + [(f'{span}_{side}', pa.int32()) for span in SPANS for side in ('start', 'end')]
)


class Memory:
    """A finished memory, opened for reading: one state of it, which later updates do not change.

    Arrays are memory-mapped, except that those of several segments, or with tombstones, are merged in main memory.

    Attributes:
        directory: pathlib.Path.
        manifest: the parsed manifest.
        topic, target: [N] int32, of the living entries by row.
        ids: [N] int64, of the living entries by row.
        offsets: [n_entities + 1] int64; topic x has the rows offsets[x] .. offsets[x + 1] - 1.
        relation_shards: list of [rows, d_r] arrays in the stored dtype; end to end they are the relations as they are
            stored: in a memory as built or compacted the N rows, otherwise by segment and with those of deleted entries.
        entity_rows: [new, d_e] float32, embeddings of the entities that the entity table lacks; [0, 0] if there are none.
    """

    def __init__(self, directory: pathlib.Path, manifest: dict, readers: contextlib.ExitStack):
        self.directory, self.manifest = directory, manifest
        segments, dtype = manifest['segments'], manifest['dtype']
        shards = [
            (*shard_files(segment['name'], number), stop - start)
            for segment in segments
            for number, start, stop in shards_of(segment['num_entries'], manifest['shard_rows'])
        ]
        self._first = np.cumsum([0] + [rows for *_, rows in shards])
        stored = 'uint16' if dtype == 'bfloat16' else dtype  # .npy has no bfloat16, whose bits are stored
        self.relation_shards = [
            self._load(relations, (rows, manifest['relation_dim']), stored).view(DTYPES[dtype]) for relations, _, rows in shards
        ]
        column = lambda segment, name, size, dtype: self._load(f'{segment["name"]}/{name}.npy', (size,), dtype)
        topic, target, ids = (
            [column(segment, name, segment['num_entries'], dtype) for segment in segments]
            for name, dtype in (('topic', 'int32'), ('target', 'int32'), ('ids', 'int64'))
        )
        offsets = [column(segment, 'offsets', segment['num_entities'] + 1, 'int64') for segment in segments]
        self.entity_rows = np.zeros((0, 0), np.float32)
        self._place: np.ndarray | None = None  # where the entry of each row is stored; None if row i is stored at i
        if new := manifest['entity_rows']:
            self.entity_rows = self._load(new['file'], (new['num_entities'], new['dim']), 'float32')
        if len(segments) == 1 and not manifest['tombstones']:
            (self.topic,), (self.target,), (self.offsets,), (self.ids,) = topic, target, offsets, ids
            if new := manifest['num_entities'] + 1 - len(self.offsets):  # entities that came without an entry
                self.offsets = np.pad(self.offsets, (0, new), 'edge')
        else:
            self._merge(topic, target, ids)
        if len(self.topic) != manifest['num_entries']:
            raise ManifestError(
                f'{directory}: {len(self.topic)} living entries, {MANIFEST} says {manifest["num_entries"]}; {FORMAT.advice}'
            )
        read = functools.partial(_read_mentions, directory, [provenance for _, provenance, _ in shards])
        self._mentions = functools.lru_cache(maxsize=64)(read)
        self._release = weakref.finalize(self, readers.close)

    def _merge(self, topic, target, ids):
        """Makes one sequence of living entries, sorted by topic and id."""
        topic, target, ids = (
            np.concatenate([np.zeros(0, dtype), *parts])
            for parts, dtype in ((topic, np.int32), (target, np.int32), (ids, np.int64))
        )
        # Ids rise from segment to segment and within the entries of a topic, so that a stable sort leaves them in order.
        place = np.argsort(topic, kind='stable')
        if deleted := self.manifest['tombstones']:
            dead = self._load(deleted['file'], (deleted['num_entries'],), 'int64')
            place = place[~np.isin(ids[place], dead)]
        self._place, self.topic, self.target, self.ids = place, topic[place], target[place], ids[place]
        self.offsets = np.searchsorted(self.topic, np.arange(self.manifest['num_entities'] + 1)).astype(np.int64)

    @classmethod
    def open(cls, directory, encoder_hash: str | None = None, vocabulary_hash: str | None = None) -> 'Memory':
        """Opens the memory in `directory`.

        Args:
            directory: what `build` wrote, on disk or in a bucket, of which a copy is opened.
            encoder_hash: `params_hash` of the encoder in use; None leaves it unchecked.
            vocabulary_hash: hash of the entity vocabulary in use; None leaves it unchecked.

        Raises:
            ManifestError: no memory, an unfinished build, another format version, a missing or truncated file, or a
                memory built with another encoder or vocabulary.
        """
        if files.is_remote(directory):
            read_manifest(directory)  # which says best what is wrong with a folder
        directory = manifest_lib.local_copy(directory)
        while True:
            manifest = read_manifest(directory)
            readers = locks.shared(directory / segment['name'] for segment in manifest['segments'])
            try:
                manifest_lib.check_files(directory, manifest, FORMAT)
                memory = cls(directory, manifest, readers)
                break
            except (ManifestError, OSError):
                readers.close()
                # An update that ended meanwhile may have removed files of the state before.
                if read_manifest(directory) == manifest:
                    raise
        for kind, used in (('encoder', encoder_hash), ('vocabulary', vocabulary_hash)):
            if used is not None:
                memory._check_hash(kind, used)
        return memory

    def close(self) -> None:
        """Lets `compact` remove this state's files, as dropping the object does; then `provenance` may find them gone."""
        self._release()

    def __len__(self) -> int:
        return self.manifest['num_entries']

    def hash(self) -> str:
        """Hex sha256 that identifies the content of the memory (every file's digest enters it)."""
        return manifest_lib.manifest_hash(self.manifest)

    def descends_from(self, earlier_hash: str) -> bool:
        """Whether `earlier_hash` is the `hash` of this memory, or of a state that updates turned into it."""
        return earlier_hash == self.hash() or earlier_hash in self.manifest['history']

    def check_encoder(self, params) -> None:
        """Raises ManifestError if the memory was not built with the encoder parameters `params`."""
        self._check_hash('encoder', params_hash(params))

    def check_vocabulary(self, vocab: EntityVocab) -> None:
        """Raises ManifestError if the `EntityVocab` does not begin with the memory's entities."""
        self._check_hash('vocabulary', vocab.hash(self.manifest['num_entities']))

    def arrays(self) -> MemoryArrays:
        """The living entries as arrays on the default device, for `memory.follow`, which speaks of entries by their rows.

        Without entries there is one row that belongs to no topic, since nothing can be gathered from no rows.
        """
        if len(self) >= 2**31:
            raise ManifestError(f'{self.directory}: {len(self)} entries do not fit int32 ids; shard the memory')
        topic, target, relations = self.topic, self.target, self.relations()
        if not len(self):
            topic = target = np.full(1, -1, np.int32)
            relations = np.zeros((1, relations.shape[1]), relations.dtype)
        return MemoryArrays(
            topic=jnp.asarray(topic),
            target=jnp.asarray(target),
            relations=jnp.asarray(relation_bits(relations)),
            offsets=jnp.asarray(self.offsets, jnp.int32),
        )

    def relations(self, rows=None) -> np.ndarray:
        """Relations [n, d_r] in the stored dtype of some rows; of all if None."""
        if rows is None:
            if self._place is None:
                return np.concatenate(self.relation_shards)
            rows = np.arange(len(self))
        rows = np.asarray(rows, np.int64)
        out = np.empty((len(rows), self.manifest['relation_dim']), DTYPES[self.manifest['dtype']])
        for shard, indices, places in self._by_shard(rows):
            out[indices] = self.relation_shards[shard][places]
        return out

    def rows(self, entry_ids) -> np.ndarray:
        """The rows [n] int64 of entries.

        Raises:
            IndexError: an id that is no living entry.
        """
        entry_ids = np.asarray(entry_ids, np.int64).reshape(-1)
        by_id = self._by_id
        rows, missing = np.zeros_like(entry_ids), entry_ids
        if len(by_id):
            rows = by_id[np.minimum(np.searchsorted(self.ids, entry_ids, sorter=by_id), len(by_id) - 1)]
            missing = entry_ids[self.ids[rows] != entry_ids]
        if len(missing):
            raise IndexError(f'entry {missing[0]} is not in {self.directory}, which has {len(self)} entries')
        return rows

    @functools.cached_property
    def _by_id(self) -> np.ndarray:
        return np.argsort(self.ids, kind='stable')

    def provenance(self, entry_ids) -> list[dict]:
        """Where entries were read: for each id in turn one dict per mention pair (several if mentions were averaged).

        Returns:
            Dicts with `entry` and `passage` ids, and the character spans (start, end) `topic`, `target`,
            `topic_sentence` and `target_sentence`; offsets are code points of the passage text.

        Raises:
            IndexError: an id that is no living entry.
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
        for shard, indices, _ in self._by_shard(rows):
            columns = self._mentions(shard)
            first, end = (np.searchsorted(columns['entry'], self.ids[rows[indices]], side=side) for side in ('left', 'right'))
            count = end - first
            # first[0], first[0] + 1, ... end[0] - 1, first[1], ...
            mentions = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
            order.append(np.repeat(indices, count))
            parts.append({name: column[mentions] for name, column in columns.items()})
        by_row = np.argsort(np.concatenate(order), kind='stable')
        return {name: np.concatenate([part[name] for part in parts])[by_row] for name in PROVENANCE.names}

    def read_from(self, passages) -> np.ndarray:
        """Ids [n] int64, rising, of the living entries with a mention in one of `passages`."""
        entries = [np.zeros(0, np.int64)]
        for shard in range(len(self.relation_shards)):
            columns = self._mentions(shard)
            entries.append(columns['entry'][np.isin(columns['passage'], passages)])
        return np.intersect1d(np.concatenate(entries), self.ids)

    def _by_shard(self, rows):
        """Yields (shard, indices into `rows`, rows of the shard) for every shard in which some of `rows` lie."""
        place = rows if self._place is None else self._place[rows]
        order = np.argsort(place, kind='stable')
        bounds = np.searchsorted(place[order], self._first)
        for shard in np.flatnonzero(np.diff(bounds)):
            indices = order[bounds[shard] : bounds[shard + 1]]
            yield shard, indices, place[indices] - self._first[shard]

    def verify(self) -> None:
        """Reads every byte; raises ManifestError naming all files whose sha256 is not the manifest's."""
        wrong = [
            name for name, digest in self.manifest['files'].items() if files.sha256(self.directory / name) != digest['sha256']
        ]
        if wrong:
            raise ManifestError(f'{self.directory}: sha256 differs from {MANIFEST} in {", ".join(wrong)}; {FORMAT.advice}')

    def _check_hash(self, kind: str, used: str) -> None:
        built = self.manifest['hashes'][kind]
        if built != used:
            raise ManifestError(
                f'{self.directory} was built with the {kind} {built}, but the {kind} in use is {used}: '
                f'use that {kind}, or build a memory with the present one'
            )

    def _load(self, name: str, shape: tuple, dtype: str) -> np.ndarray:
        file = self.directory / name
        try:
            array = files.read_array(file, mmap_mode='r')
        except (OSError, ValueError) as error:
            raise ManifestError(f'{file}: not a readable array ({error}); {FORMAT.advice}') from error
        if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
            raise ManifestError(
                f'{file}: {array.dtype}{list(array.shape)}, {MANIFEST} says {dtype}{list(shape)}; {FORMAT.advice}'
            )
        return array


def shards_of(num_entries: int, shard_rows: int) -> list[tuple[int, int, int]]:
    """(number, first row, end) of the shards of a segment."""
    return [(start // shard_rows, start, min(start + shard_rows, num_entries)) for start in range(0, num_entries, shard_rows)]


def shard_files(segment: str, number: int) -> tuple[str, str]:
    """The names of a shard's relations and of its provenance."""
    return f'{segment}/relations-{number:05d}.npy', f'{segment}/provenance-{number:05d}.parquet'


def read_manifest(directory) -> dict:
    """The manifest of a finished memory; raises ManifestError if there is none, or not one that this program reads."""
    path = files.path(directory)
    if not (path / MANIFEST).is_file() and (path / PLAN).is_file():
        raise ManifestError(
            f'{path}: the build of this memory is unfinished; run build_memory again with the same options to resume it'
        )
    return manifest_lib.read_manifest(path, FORMAT)


def _read_mentions(directory, provenance, shard: int) -> dict[str, np.ndarray]:
    """The provenance of one shard, sorted by entry id."""
    table = tables.read_table(directory / provenance[shard], PROVENANCE, advice=FORMAT.advice)
    columns = {name: table[name].to_numpy() for name in PROVENANCE.names}
    by_entry = np.argsort(columns['entry'], kind='stable')
    return {name: column[by_entry] for name, column in columns.items()}
