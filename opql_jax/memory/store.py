"""The memory on disk: a directory of array shards, Parquet provenance and a manifest.

    manifest.json                             what there is, from what it was built, bytes and sha256 of every file
    segment-00000/topic.npy                   [N] int32, rising
    segment-00000/target.npy                  [N] int32
    segment-00000/offsets.npy                 [n_entities + 1] int64: topic x has rows offsets[x] .. offsets[x + 1] - 1
    segment-00000/relations-00000.npy ...     [shard_rows, d_r] float32 or float16; bfloat16 as its bits, uint16
    segment-00000/provenance-00000.parquet    where the entries of the same shard were read: one row per mention pair

The entry id is the row number. Entries hold ids and the relation only; embeddings of entities are taken from the entity
table at search time, so a memory stays valid when that table is trained further. `memory/build.py` writes all this; the
manifest comes last, so a directory without one is no memory.
"""

import functools
import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pyarrow as pa

from opql_jax.corpus import tables
from opql_jax.corpus.errors import InputError
from opql_jax.memory.follow import MemoryArrays

FORMAT, VERSION = 'opql-memory', 1
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
    """A finished memory, opened for reading. Arrays are memory-mapped.

    Attributes:
        directory: pathlib.Path.
        manifest: the parsed manifest.
        topic, target: [N] int32.
        offsets: [n_entities + 1] int64.
        relation_shards: list of [rows, d_r] arrays in the stored dtype; end to end they are the N relations.
    """

    def __init__(self, directory: pathlib.Path, manifest: dict):
        self.directory, self.manifest = directory, manifest
        (segment,) = manifest['segments']
        n, dim, dtype = manifest['num_entries'], manifest['relation_dim'], manifest['dtype']
        self.topic = self._load(segment['topic'], (n,), 'int32')
        self.target = self._load(segment['target'], (n,), 'int32')
        self.offsets = self._load(segment['offsets'], (manifest['num_entities'] + 1,), 'int64')
        self.relation_shards = [
            self._load(shard['relations'], (shard['num_entries'], dim), _stored(dtype)).view(DTYPES[dtype])
            for shard in segment['shards']
        ]
        self._shards = segment['shards']
        self._first = np.cumsum([0] + [shard['num_entries'] for shard in self._shards])
        self._mentions = functools.lru_cache(maxsize=64)(self._read_mentions)

    @classmethod
    def open(cls, directory, encoder_hash: str | None = None, vocabulary_hash: str | None = None) -> 'Memory':
        """Opens the memory in `directory`.

        Args:
            directory: what `build` wrote.
            encoder_hash: `params_hash` of the encoder in use; None leaves it unchecked.
            vocabulary_hash: hash of the entity vocabulary in use; None leaves it unchecked.

        Raises:
            MemoryFormatError: no memory, an unfinished build, another format version, a missing or truncated file, or a
                memory built with another encoder or vocabulary.
        """
        directory = pathlib.Path(directory)
        manifest = read_manifest(directory)
        for name, stated in manifest['files'].items():
            file = directory / name
            if not file.is_file():
                raise MemoryFormatError(f'{file}: listed in {MANIFEST} but missing; {_RESTORE}')
            if file.stat().st_size != stated['bytes']:
                raise MemoryFormatError(
                    f'{file}: {file.stat().st_size} bytes, {MANIFEST} says {stated["bytes"]}: '
                    f'truncated or overwritten; {_RESTORE}'
                )
        memory = cls(directory, manifest)
        for kind, wanted in (('encoder', encoder_hash), ('vocabulary', vocabulary_hash)):
            if wanted is not None:
                memory._check_hash(kind, wanted)
        return memory

    def __len__(self) -> int:
        return self.manifest['num_entries']

    def hash(self) -> str:
        """Hex sha256 that identifies the content of the memory (every file's digest enters it)."""
        return hashlib.sha256(json.dumps(self.manifest, sort_keys=True).encode()).hexdigest()

    def check_encoder(self, params) -> None:
        """Raises MemoryFormatError if the memory was not built with the encoder parameters `params`."""
        self._check_hash('encoder', params_hash(params))

    def arrays(self) -> MemoryArrays:
        """The memory as arrays on the default device, for `memory.follow`."""
        if len(self) >= 2**31:
            raise MemoryFormatError(f'{self.directory}: {len(self)} entries do not fit int32 ids; shard the memory')
        return MemoryArrays(
            topic=jnp.asarray(self.topic),
            target=jnp.asarray(self.target),
            relations=jnp.asarray(np.concatenate(self.relation_shards)),
            offsets=jnp.asarray(self.offsets, jnp.int32),
        )

    def provenance(self, entry_ids) -> list[dict]:
        """Where entries were read: for each id in turn one dict per mention pair (several if mentions were averaged).

        Returns:
            Dicts with `entry` and `passage` ids, and the character spans (start, end) `topic`, `target`,
            `topic_sentence` and `target_sentence`; offsets are code points of the passage text.

        Raises:
            IndexError: an id that is no entry.
        """
        found = []
        for entry in np.asarray(entry_ids, np.int64).reshape(-1).tolist():
            if not 0 <= entry < len(self):
                raise IndexError(f'entry {entry} is not in {self.directory}, which has {len(self)} entries')
            columns = self._mentions(int(np.searchsorted(self._first, entry, side='right')) - 1)
            first, end = np.searchsorted(columns['entry'], [entry, entry + 1])
            for i in range(first, end):
                row = {'entry': entry, 'passage': int(columns['passage'][i])}
                row |= {span: (int(columns[f'{span}_start'][i]), int(columns[f'{span}_end'][i])) for span in SPANS}
                found.append(row)
        return found

    def verify(self) -> None:
        """Reads every byte; raises MemoryFormatError naming all files whose sha256 is not the manifest's."""
        wrong = [
            name for name, stated in self.manifest['files'].items() if tables.sha256(self.directory / name) != stated['sha256']
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
            array = np.load(file, mmap_mode='r', allow_pickle=False)
        except (OSError, ValueError) as error:
            raise MemoryFormatError(f'{file}: not a readable array ({error}); {_RESTORE}') from error
        if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
            raise MemoryFormatError(
                f'{file}: {array.dtype}{list(array.shape)}, {MANIFEST} says {dtype}{list(shape)}; {_RESTORE}'
            )
        return array

    def _read_mentions(self, shard: int) -> dict[str, np.ndarray]:
        file = self.directory / self._shards[shard]['provenance']
        try:
            table = tables.read_table(file, PROVENANCE, advice=_RESTORE)
        except tables.CorpusError as error:
            raise MemoryFormatError(str(error)) from error
        return {name: table[name].to_numpy() for name in PROVENANCE.names}


_RESTORE = 'restore it from a copy, or delete the memory and build it again'


def read_manifest(directory) -> dict:
    """The manifest of a finished memory.

    Raises:
        MemoryFormatError: there is none, or it is not one that this program reads.
    """
    path = pathlib.Path(directory) / MANIFEST
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
    if manifest.get('version') != VERSION:
        raise MemoryFormatError(
            f'{path}: format version {manifest.get("version")}, this program reads {VERSION}; build the memory again'
        )
    return manifest


def _stored(dtype: str) -> str:
    """The dtype in the .npy file: .npy has no bfloat16, whose bits are stored as uint16."""
    return 'uint16' if dtype == 'bfloat16' else dtype
