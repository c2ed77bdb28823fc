"""The memory on disk: a directory of array shards, Parquet provenance and a manifest.

    manifest.json                             what there is, from what it was built, bytes and sha256 of every file
    segment-00000/topic.npy                   [N] int32, rising
    segment-00000/target.npy                  [N] int32
    segment-00000/offsets.npy                 [n_entities + 1] int64: topic x has rows offsets[x] .. offsets[x + 1] - 1
    segment-00000/ids.npy                     [N] int64, entry ids; without it they are first_entry, first_entry + 1, ...
    segment-00000/relations-00000.npy ...     [shard_rows, d_r] float32 or float16; bfloat16 as its bits, uint16
    segment-00000/provenance-00000.parquet    where the entries of the same shard were read: one row per mention pair
    tombstones-00000.npy                      [deleted] int64, rising: ids of entries that lie in a segment and are no more
    entity_rows-00000.npy                     [new, d_e] float32: embeddings of the entities that new text brought along

Entries hold ids and the relation only; embeddings of entities are taken from the entity table at search time, so a memory
stays valid when that table is trained further. `memory/build.py` writes one segment, `memory/update.py` adds segments and
tombstones and merges them; the manifest comes last, so a directory without one is no memory.

The id of an entry stays the same for as long as it exists and is never given again. The row of an entry is its place
among all living entries, sorted by topic and then by id; an update moves rows. In a memory as built, ids are rows.

Version 1 of the format is a memory as built, with one segment and no tombstones, and with `entity_rows` if it was built over
text that the encoder was not trained with; updates write version 2, which adds `next_entry` (the next id to be given),
`tombstones`, `entity_rows`, `covers` (see `update.inject`) and `history` (the hashes of the states before).
"""

import contextlib
import functools
import hashlib
import json
import pathlib
import weakref

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa

from opql_jax.core import files, locks
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import local_copy
from opql_jax.corpus import tables
from opql_jax.memory.follow import MemoryArrays, relation_bits

FORMAT, BUILT_VERSION, UPDATED_VERSION = 'opql-memory', 1, 2
MANIFEST, PLAN = 'manifest.json', 'plan.json'
DTYPES = {'float32': np.float32, 'float16': np.float16, 'bfloat16': ml_dtypes.bfloat16}

# Offsets are code points of the passage text, half-open. A sentence column is the sentence that holds the mention.
SPANS = ('topic', 'target', 'topic_sentence', 'target_sentence')
PROVENANCE = pa.schema(
    [('entry', pa.int64()), ('passage', pa.int32())]
    + [(f'{span}_{side}', pa.int32()) for span in SPANS for side in ('start', 'end')]
)


class MemoryFormatError(InputError):
    """A memory directory that cannot be used; the message says which file is wrong and what to do."""


def params_hash(tree) -> str:
    """Hex sha256 of a tree of arrays: of the path, dtype, shape and bytes of every leaf, in order of the paths."""
    digest = hashlib.sha256()
    leaves = [
        (jax.tree_util.keystr(path, simple=True, separator='/'), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]
    for path, leaf in sorted(leaves, key=lambda item: item[0]):
        leaf = np.asarray(leaf)
        digest.update(f'{path}\0{leaf.dtype}\0{leaf.shape}\0'.encode())
        digest.update(leaf.tobytes())
    return digest.hexdigest()


class Memory:
    """A finished memory, opened for reading: one state of it, which later updates do not change.

    Arrays are memory-mapped, except that those of several segments, or with tombstones, are merged in main memory.

    Attributes:
        directory: pathlib.Path.
        manifest: the parsed manifest.
        topic, target: [N] int32, of the living entries by row.
        offsets: [n_entities + 1] int64; topic x has the rows offsets[x] .. offsets[x + 1] - 1.
        relation_shards: list of [rows, d_r] arrays in the stored dtype; end to end they are the relations as they are
            stored: in a memory as built or compacted the N rows, otherwise by segment and with those of deleted entries.
        entity_rows: [new, d_e] float32, embeddings of the entities that the entity table lacks; [0, 0] if there are none.
    """

    def __init__(self, directory: pathlib.Path, manifest: dict, readers: contextlib.ExitStack):
        self.directory, self.manifest = directory, manifest
        segments = manifest['segments']
        dim, dtype = manifest['relation_dim'], manifest['dtype']
        self._shards = [shard for segment in segments for shard in segment['shards']]
        self._first = np.cumsum([0] + [shard['num_entries'] for shard in self._shards])
        self.relation_shards = [
            self._load(shard['relations'], (shard['num_entries'], dim), _stored(dtype)).view(DTYPES[dtype])
            for shard in self._shards
        ]
        topic, target = (
            [self._load(segment[name], (segment['num_entries'],), 'int32') for segment in segments]
            for name in ('topic', 'target')
        )
        offsets = [
            self._load(segment['offsets'], (segment.get('num_entities', manifest['num_entities']) + 1,), 'int64')
            for segment in segments
        ]
        ids = [
            self._load(segment['ids'], (segment['num_entries'],), 'int64')
            if 'ids' in segment
            else np.arange(segment['first_entry'], segment['first_entry'] + segment['num_entries'])
            for segment in segments
        ]
        new = manifest.get('entity_rows')
        self.entity_rows = (
            self._load(new['file'], (new['num_entities'], new['dim']), 'float32') if new else np.zeros((0, 0), np.float32)
        )
        if len(segments) == 1 and not manifest.get('tombstones'):
            self._place = None  # row i is stored at place i
            (self.topic,), (self.target,), (self.offsets,), (self.ids,) = topic, target, offsets, ids
            if new := manifest['num_entities'] + 1 - len(self.offsets):  # entities that came without an entry
                self.offsets = np.pad(self.offsets, (0, new), 'edge')
        else:
            self._merge(topic, target, ids)
        if len(self.topic) != manifest['num_entries']:
            raise MemoryFormatError(
                f'{directory}: {len(self.topic)} living entries, {MANIFEST} says {manifest["num_entries"]}; {_RESTORE}'
            )
        self._mentions = functools.lru_cache(maxsize=64)(functools.partial(_read_mentions, directory, self._shards))
        self._release = weakref.finalize(self, readers.close)

    def _merge(self, topic, target, ids):
        """One sequence of living entries sorted by topic and id; `_place` says where each is stored."""
        topic, target, ids = (
            np.concatenate(parts) if parts else np.zeros(0, dtype)
            for parts, dtype in ((topic, np.int32), (target, np.int32), (ids, np.int64))
        )
        # Ids rise from segment to segment and within the entries of a topic, so that a stable sort leaves them in order.
        self._place = np.argsort(topic, kind='stable')
        if listed := self.manifest['tombstones']:
            dead = self._load(listed['file'], (listed['num_entries'],), 'int64')
            self._place = self._place[~np.isin(ids[self._place], dead)]
        self.topic, self.target, self.ids = (column[self._place] for column in (topic, target, ids))
        self.offsets = np.searchsorted(self.topic, np.arange(self.manifest['num_entities'] + 1)).astype(np.int64)

    @classmethod
    def open(cls, directory, encoder_hash: str | None = None, vocabulary_hash: str | None = None) -> 'Memory':
        """Opens the memory in `directory`.

        Args:
            directory: what `build` wrote, on disk or in a bucket, of which a copy is opened.
            encoder_hash: `params_hash` of the encoder in use; None leaves it unchecked.
            vocabulary_hash: hash of the entity vocabulary in use; None leaves it unchecked.

        Raises:
            MemoryFormatError: no memory, an unfinished build, another format version, a missing or truncated file, or a
                memory built with another encoder or vocabulary.
        """
        if files.is_remote(directory):
            read_manifest(directory)  # which says best what is wrong with a folder
        directory = local_copy(directory)
        while True:
            manifest = read_manifest(directory)
            readers = locks.shared(directory / name for name in segment_folders(manifest))
            try:
                _check_files(directory, manifest)
                memory = cls(directory, manifest, readers)
                break
            except (MemoryFormatError, OSError):
                readers.close()
                # An update that ended meanwhile may have removed files of the state before.
                if read_manifest(directory) == manifest:
                    raise
        for kind, wanted in (('encoder', encoder_hash), ('vocabulary', vocabulary_hash)):
            if wanted is not None:
                memory._check_hash(kind, wanted)
        return memory

    def close(self) -> None:
        """Lets `compact` remove this state's files, as dropping the object does; then `provenance` may find them gone."""
        self._release()

    def __len__(self) -> int:
        return self.manifest['num_entries']

    def hash(self) -> str:
        """Hex sha256 that identifies the content of the memory (every file's digest enters it)."""
        return manifest_hash(self.manifest)

    def descends_from(self, earlier_hash: str) -> bool:
        """Whether `earlier_hash` is the `hash` of this memory, or of a state that updates turned into it."""
        return earlier_hash == self.hash() or earlier_hash in self.manifest.get('history', ())

    def check_encoder(self, params) -> None:
        """Raises MemoryFormatError if the memory was not built with the encoder parameters `params`."""
        self._check_hash('encoder', params_hash(params))

    def check_vocabulary(self, vocab) -> None:
        """Raises MemoryFormatError if the `EntityVocab` does not begin with the memory's entities."""
        self._check_hash('vocabulary', vocab.hash(self.manifest['num_entities']))

    def arrays(self) -> MemoryArrays:
        """The living entries as arrays on the default device, for `memory.follow`, which speaks of entries by their rows.

        Without entries there is one row that belongs to no topic, since nothing can be gathered from no rows.
        """
        if len(self) >= 2**31:
            raise MemoryFormatError(f'{self.directory}: {len(self)} entries do not fit int32 ids; shard the memory')
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
        for shard, asked, places in self._by_shard(rows):
            out[asked] = self.relation_shards[shard][places]
        return out

    def rows(self, entry_ids) -> np.ndarray:
        """The rows [n] int64 of entries.

        Raises:
            IndexError: an id that is no living entry.
        """
        wanted = np.asarray(entry_ids, np.int64).reshape(-1)
        by_id = self._by_id
        found = np.searchsorted(self.ids, wanted, sorter=by_id)
        rows = by_id[np.minimum(found, len(by_id) - 1)] if len(by_id) else np.zeros_like(wanted)
        missing = wanted[self.ids[rows] != wanted] if len(by_id) else wanted
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
        order, parts = (
            [np.zeros(0, np.int64)],
            [{field.name: np.zeros(0, field.type.to_pandas_dtype()) for field in PROVENANCE}],
        )
        for shard, asked, _ in self._by_shard(rows):
            columns = self._mentions(shard)
            first, end = (np.searchsorted(columns['entry'], self.ids[rows[asked]], side=side) for side in ('left', 'right'))
            count = end - first
            # first[0], first[0] + 1, ... end[0] - 1, first[1], ...
            found = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
            order.append(np.repeat(asked, count))
            parts.append({name: column[found] for name, column in columns.items()})
        by_row = np.argsort(np.concatenate(order), kind='stable')
        return {name: np.concatenate([part[name] for part in parts])[by_row] for name in PROVENANCE.names}

    def read_from(self, passages) -> np.ndarray:
        """Ids [n] int64, rising, of the living entries with a mention in one of `passages`."""
        found = [np.zeros(0, np.int64)]
        for shard in range(len(self._shards)):
            columns = self._mentions(shard)
            found.append(columns['entry'][np.isin(columns['passage'], passages)])
        return np.intersect1d(np.concatenate(found), self.ids)

    def _by_shard(self, rows):
        """Yields (shard, indices into `rows`, rows of the shard) for every shard in which some of `rows` lie."""
        place = rows if self._place is None else self._place[rows]
        order = np.argsort(place, kind='stable')
        bounds = np.searchsorted(place[order], self._first)
        for shard in np.flatnonzero(np.diff(bounds)):
            asked = order[bounds[shard] : bounds[shard + 1]]
            yield shard, asked, place[asked] - self._first[shard]

    def verify(self) -> None:
        """Reads every byte; raises MemoryFormatError naming all files whose sha256 is not the manifest's."""
        wrong = [
            name for name, stated in self.manifest['files'].items() if files.sha256(self.directory / name) != stated['sha256']
        ]
        if wrong:
            raise MemoryFormatError(f'{self.directory}: sha256 differs from {MANIFEST} in {", ".join(wrong)}; {_RESTORE}')

    def _check_hash(self, kind: str, wanted: str) -> None:
        built = self.manifest['hashes'][kind]
        if built != wanted:
            raise MemoryFormatError(
                f'{self.directory} was built with the {kind} {built}, but the {kind} in use is {wanted}: '
                f'use that {kind}, or build a memory with the present one'
            )

    def _load(self, name: str, shape: tuple, dtype: str) -> np.ndarray:
        file = self.directory / name
        try:
            array = files.read_array(file, mmap_mode='r')
        except (OSError, ValueError) as error:
            raise MemoryFormatError(f'{file}: not a readable array ({error}); {_RESTORE}') from error
        if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
            raise MemoryFormatError(
                f'{file}: {array.dtype}{list(array.shape)}, {MANIFEST} says {dtype}{list(shape)}; {_RESTORE}'
            )
        return array


_RESTORE = 'restore it from a copy, or delete the memory and build it again'


def read_manifest(directory) -> dict:
    """The manifest of a finished memory.

    Raises:
        MemoryFormatError: there is none, or it is not one that this program reads.
    """
    path = files.path(directory) / MANIFEST
    if not path.is_file():
        if (path.parent / PLAN).is_file():
            raise MemoryFormatError(
                f'{path.parent}: the build of this memory is unfinished; '
                'run build_memory again with the same options to resume it'
            )
        raise MemoryFormatError(f'{path}: no such file; {path.parent} is not a memory')
    try:
        manifest = json.loads(path.read_text(encoding='utf-8'))
    except ValueError as error:
        raise MemoryFormatError(f'{path}: not valid JSON ({error}); {_RESTORE}') from error
    if not isinstance(manifest, dict) or manifest.get('format') != FORMAT:
        raise MemoryFormatError(f'{path}: not the manifest of a memory (no format {FORMAT!r})')
    if manifest.get('version') not in (BUILT_VERSION, UPDATED_VERSION):
        raise MemoryFormatError(
            f'{path}: format version {manifest.get("version")}, this program reads {BUILT_VERSION} and {UPDATED_VERSION}; '
            'build the memory again'
        )
    return manifest


def _stored(dtype: str) -> str:
    """The dtype in the .npy file: .npy has no bfloat16, whose bits are stored as uint16."""
    return 'uint16' if dtype == 'bfloat16' else dtype


def manifest_hash(manifest: dict) -> str:
    """Hex sha256 of what a manifest states; that of a memory is its `Memory.hash`."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def segment_folders(manifest: dict) -> list[str]:
    """Names of the folders in which the segments of a manifest lie."""
    return [segment['topic'].partition('/')[0] for segment in manifest['segments']]


def _check_files(directory, manifest):
    for name, stated in manifest['files'].items():
        file = directory / name
        try:
            size = file.stat().st_size
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MemoryFormatError(f'{file}: listed in {MANIFEST} but missing; {_RESTORE}') from error
        if size != stated['bytes']:
            raise MemoryFormatError(
                f'{file}: {size} bytes, {MANIFEST} says {stated["bytes"]}: truncated or overwritten; {_RESTORE}'
            )


def _read_mentions(directory, shards, shard: int) -> dict[str, np.ndarray]:
    """The provenance of one shard, sorted by entry id."""
    try:
        table = tables.read_table(directory / shards[shard]['provenance'], PROVENANCE, advice=_RESTORE)
    except tables.CorpusError as error:
        raise MemoryFormatError(str(error)) from error
    columns = {name: table[name].to_numpy() for name in PROVENANCE.names}
    by_entry = np.argsort(columns['entry'], kind='stable')
    return {name: column[by_entry] for name, column in columns.items()}
