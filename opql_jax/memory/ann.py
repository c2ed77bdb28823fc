"""An approximate index of a memory's keys by ScaNN; what it proposes is scored from the memory.

Beside a manifest lie `index-00000/ids.npy`, [N] int64, entry ids by their number in the index, and
what ScaNN wrote.

ScaNN (Guo et al., ICML 2020; SOAR, Sun et al., NeurIPS 2023) looks into the `leaves` partitions
nearest to a query and proposes the `depth` entries with the best scores by codes of 4 bits for 2
dimensions. Their keys `[E[topic]; r]` are then scored in float32, so that the index holds no second
copy of them: ScaNN's files take d_e + d_r bytes an entry, a quarter of its key.

Deleted entries are never returned, injected ones are searched exactly beside it, and an index is
refused once more than MAX_CHANGED of its entries are deleted or were added. It is of one entity
table: training that further moves the keys.
"""

import dataclasses
import functools
import importlib.metadata
import logging
import os
import pathlib
import re
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core import files
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.arrays import ArraySchema, bad_row, read_array
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import params_hash
from opql_jax.core.manifest import MANIFEST, FolderFormat, Manifest, ManifestError, read_manifest
from opql_jax.memory import search
from opql_jax.memory.follow import Queries
from opql_jax.memory.format import Memory
from opql_jax.memory.manifest import Count, Size
from opql_jax.memory.sharding import ShardedMemory, shard_memory
from opql_jax.parallel import entity_table as entity_table_lib
from opql_jax.parallel.mesh import make_mesh

FOLDER = r'index-\d{5}'
ASSETS = 'scann_assets.pbtxt'
_TYPES = {
    'ah_codebook.pb': 'AH_CENTERS',
    'serialized_partitioner.pb': 'PARTITIONER',
    'datapoint_to_token.npy': 'TOKENIZATION_NPY',
    'hashed_dataset.npy': 'AH_DATASET_NPY',
    'hashed_dataset_soar.npy': 'AH_DATASET_SOAR_NPY',
}
# What ScaNN's list of its files says, and all files of an index.
_ASSETS = ''.join(
    f'assets {{\n  asset_type: {kind}\n  asset_path: "{name}"\n}}\n'
    for name, kind in _TYPES.items()
)
SCANN_FILES = ('ids.npy', ASSETS, 'scann_config.pb', *_TYPES)
MAX_CHANGED = 0.1
_BLOCK_ROWS = 1 << 15  # scored exactly at a time
_log = logging.getLogger(__name__)
_top_k = jax.jit(search.top_k, static_argnames='k')


class IndexManifest(Manifest, forbid_unknown_fields=True, kw_only=True):
    """What an index was built of (hashes and counts), how, and with what result."""

    memory: str
    num_entries: Count
    k: Size
    num_entities: Count
    recall_target: float
    entity_table: str  # the hash of its first `num_entities` rows
    folder: str
    scann: str | None  # ScaNN's version; None if the memory is searched exactly: `exact` says why
    exact: str | None = None
    num_leaves: Size = 1
    leaves: Size = 1  # partitions to look into, for each query
    depth: Size = 1  # entries to score exactly, likewise
    recall: float | None = None  # recall@k as measured
    recall_standard_error: float | None = None
    recall_queries: int = 0

    def __post_init__(self):
        if (self.scann is None) == (self.exact is None):
            raise ValueError('one of scann and exact has to be null')


FORMAT = FolderFormat('opql-index', 1, 'an index', 'ann_build.build_index', IndexManifest)


class ExactIndex:
    """Exact search of a memory by E [n, d_e], with an index's interface, for want of ScaNN."""

    recall = 1.0

    def __init__(self, memory: Memory, entity_table):
        mesh, self._memory = make_mesh(), None
        self._dims = check_table(memory, entity_table).shape[1], memory.manifest.relation_dim
        if len(memory):
            self._memory = shard_memory(memory.topic, memory.target, memory.relations(), mesh)
            self._table = entity_table_lib.place(
                entity_table, entity_table_lib.Layout(mesh, len(entity_table))
            )

    def search(self, query_e, query_r, k: int) -> tuple[np.ndarray, np.ndarray]:
        """See `ScannIndex.search`."""
        query_e, query_r = check_queries(query_e, query_r, k, self._dims)
        if self._memory is None or not len(query_e):
            return _unused(len(query_e), k)
        scores, ids = _top_k(self._memory, self._table, Queries(query_e, query_r), k=k)
        return np.asarray(scores), np.asarray(ids)


class ScannIndex:
    """An index opened by `open_index` for a state of its memory, with `IndexManifest`'s figures."""

    def __init__(
        self, memory: Memory, entity_table, searcher, ids: np.ndarray, manifest: IndexManifest
    ):
        self._memory, self._searcher, self.manifest = memory, searcher, manifest
        self._table = check_table(memory, entity_table).astype(np.float32, copy=False)
        # Of an index that is being built they are set by tuning.
        self.leaves, self.depth, self.recall = manifest.leaves, manifest.depth, manifest.recall
        living = np.isin(ids, memory.ids)
        self._row = np.full(len(ids), -1, np.int32)  # of each number of the index
        self._row[living] = memory.rows(ids[living])
        fresh = np.flatnonzero(~np.isin(memory.ids, ids))
        changed = len(fresh) + int((~living).sum())
        if changed > MAX_CHANGED * len(ids):
            raise InputError(
                f'{memory.directory}: {changed} entries were added or deleted '
                f'since the index of {len(ids)} entries was built, more than a '
                f'share of {MAX_CHANGED}: build the index again'
            )
        self._fresh = fresh.astype(np.int32)

    def search(self, query_e, query_r, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The best k entries that the index proposes for each query; scores are exact.

        Of queries [B, d_e] and [B, d_r] (W_k folded in) it returns scores [B, k] float32, falling,
        ties to the lowest row, -inf in unused slots, and rows of the memory [B, k] int32, -1 there.
        A query with too few proposals is searched exactly. For another k than the index was tuned
        for, the depth changes in proportion. InputError: queries of another shape, or k below 1.
        """
        memory, table = self._memory, self._table
        query_e, query_r = check_queries(
            query_e, query_r, k, (table.shape[1], memory.manifest.relation_dim)
        )
        if not len(query_e):
            return _unused(0, k)
        rows = self.propose(query_e, query_r, -(-self.depth * k // self.manifest.k), self.leaves)
        if len(self._fresh):
            rows = np.concatenate(
                [rows, _nearest(query_e, query_r, self._fresh, k, memory, table)], axis=1
            )
        rows = np.pad(rows, ((0, 0), (0, max(0, k - rows.shape[1]))), constant_values=-1)
        short = (rows >= 0).sum(axis=1) < min(k, len(memory))
        if short.any():
            every = np.arange(len(memory), dtype=np.int32)
            rows[short, :k] = _nearest(query_e[short], query_r[short], every, k, memory, table)
            rows[short, k:] = -1
        scores = _scores(query_e, query_r, rows, memory, table)
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def propose(self, query_e, query_r, depth: int, leaves: int) -> np.ndarray:
        """Rows [B, depth] int32 of the best by their codes, falling; -1 if unused or deleted."""
        # By default a batch of up to 256 would be the work of one thread.
        share = min(256, -(-len(query_e) // (os.cpu_count() or 1)))
        numbers, distance = self._searcher.search_batched_parallel(
            np.concatenate([query_e, query_r], axis=1),
            min(depth, len(self._row)),
            leaves_to_search=leaves,
            batch_size=share,
        )
        return np.where(np.isnan(distance), -1, self._row[numbers])


def open_index(directory, memory: Memory, entity_table) -> ScannIndex | ExactIndex:
    """Opens the index in `directory` over a memory, or over a state that updates turned it into.

    The table may have gained rows for new entities. Where ScaNN is not installed, or the index was
    built for exact search, searches exactly, and logs why, once. InputError: no index of this
    memory and table, one whose memory changed too much or that is damaged, or another ScaNN.
    """
    directory = files.require_local(directory)
    while True:
        manifest = read_manifest(directory, FORMAT)
        try:
            return _open(directory, manifest, memory, check_table(memory, entity_table))
        except Exception:  # of any type: ScaNN reports a file that is gone by one of its own
            # A build that ended meanwhile removes the files of the index before.
            if read_manifest(directory, FORMAT) == manifest:
                raise


def _open(directory, manifest, memory, table):
    if not memory.descends_from(manifest.memory):
        raise ManifestError(
            f'{directory} is an index of the memory {manifest.memory}, not of '
            f'{memory.hash()} in {memory.directory} nor of a state before: '
            'open it with its memory, or build an index of this one'
        )
    if table_hash(table, manifest.num_entities) != manifest.entity_table:
        raise ManifestError(
            f'{directory} was built with the entity table {manifest.entity_table}, the table in '
            'use is another: use that one, or build the index again'
        )
    reason, scann = manifest.exact, None
    if reason is None:
        scann = scann_interface()
        reason = "ScaNN is not installed (pip install 'opql-jax[scann]')"
    if scann is None:
        _warn_once(f'{directory}: {reason}, so the memory is searched exactly')
        return ExactIndex(memory, table)
    if manifest.scann != importlib.metadata.version('scann'):
        raise InputError(
            f'{directory} was built by ScaNN {manifest.scann}, but '
            f'{importlib.metadata.version("scann")} is installed: build the index again, or '
            'install that version'
        )
    check_files(directory, manifest)
    folder = directory / manifest.folder
    schema = ArraySchema('int64', (manifest.num_entries,), ids=(memory.manifest.next_entry,))
    ids = read_array(folder / 'ids.npy', schema, {}, FORMAT.advice)
    if len(np.unique(ids)) < len(ids):
        raise FORMAT.damaged(folder / 'ids.npy', 'has an id twice')
    _check_arrays(folder, manifest)
    try:
        searcher = scann.load_searcher(str(folder), assets_backcompat_shim=False)
    except Exception as error:  # of any type, from C++
        reason = ' '.join(str(error).split())[:200]
        raise FORMAT.damaged(folder, f'ScaNN cannot read it ({reason})') from error
    return ScannIndex(memory, table, searcher, ids, manifest)


def _check_arrays(folder: pathlib.Path, manifest: IndexManifest) -> None:
    """Raises ManifestError unless the arrays that ScaNN trusts are what it wrote."""
    codes = ArraySchema('uint8', (manifest.num_entries, None))
    tokens = ArraySchema('int32', (2 * manifest.num_entries,))
    # Codes have 4 bits. An entry is in a partition, and in a second one or none.
    for name, schema, part, least, below in (
        ('hashed_dataset.npy', codes, slice(None), 0, 1 << 4),
        ('hashed_dataset_soar.npy', codes, slice(None), 0, 1 << 4),
        ('datapoint_to_token.npy', tokens, slice(0, None, 2), 0, manifest.num_leaves),
        ('datapoint_to_token.npy', tokens, slice(1, None, 2), -1, manifest.num_leaves),
    ):
        numbers = read_array(folder / name, schema, {}, FORMAT.advice, mmap_mode='r')[part]
        if numbers.min(initial=0) < least or numbers.max(initial=0) >= below:
            others = f'has numbers that are not {least} to {below - 1}'
            raise FORMAT.damaged(folder / name, others)


def scann_interface():
    """ScaNN's Python interface; None where it is not installed."""
    try:
        import scann
    # Of any type: TensorFlow reports an undefined symbol by an exception of its own.
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == 'scann':
            return None
        problem = f'ScaNN is installed but does not import ({" ".join(str(error).split())[:200]})'
        try:
            tensorflow = importlib.metadata.version('tensorflow')
        except importlib.metadata.PackageNotFoundError:
            raise InputError(
                f"{problem}: install it again, pip install --force-reinstall 'opql-jax[scann]'"
            ) from error
        raise InputError(
            f'{problem}. It imports beside TensorFlow 2.20 or none, and '
            f'TensorFlow {tensorflow} is installed: '
            "pip install 'tensorflow>=2.20,<2.21', or use an environment without TensorFlow"
        ) from error
    return scann.scann_ops_pybind


def searched_by(memory: ShardedMemory, index: ScannIndex | ExactIndex) -> ShardedMemory:
    """A placed memory whose entries ScaNN finds on the host; as it is if the index is exact."""
    if isinstance(index, ExactIndex):
        return memory
    # Held weakly, as JAX keeps what a program was compiled for.
    reference: Any = weakref.ref(index)

    def propose(query_e, query_r, k):
        # What is not finite shows in the scores, which the program computes.
        return reference().search(
            *(np.nan_to_num(np.asarray(x), posinf=0, neginf=0) for x in (query_e, query_r)), k
        )[1]

    return dataclasses.replace(memory, propose=propose)


def _nearest(query_e, query_r, rows, k, memory, table):
    """The best k of `rows` [n], rising: [B, k] int32, -1 in unused slots; without JAX, by NumPy."""
    best = np.full((len(query_e), k), -1, np.int32)
    scores = np.full((len(query_e), k), -np.inf, np.float32)
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = rows[start : start + _BLOCK_ROWS]
        relations = memory.relations(part).astype(np.float32, copy=False)
        added = query_e @ table[memory.topic[part]].T + query_r @ relations.T
        best = np.concatenate([best, np.broadcast_to(part, added.shape)], axis=1)
        scores = np.concatenate([scores, added], axis=1)
        order = np.argsort(-scores, axis=1, kind='stable')[:, :k]
        best, scores = (np.take_along_axis(x, order, axis=1) for x in (best, scores))
    return best


def _scores(query_e, query_r, rows, memory, table):
    """Scores [B, m] float32 of the rows [B, m] of a memory; -inf where the row is -1."""
    scores = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), step := max(1, _BLOCK_ROWS // rows.shape[1])):
        part = slice(start, start + step)
        row = np.maximum(rows[part], 0)
        entities = table[memory.topic[row]]
        relations = (
            memory.relations(row.reshape(-1)).astype(np.float32, copy=False).reshape(*row.shape, -1)
        )
        # Sums by einsum do not depend on the place of the row, so that equal keys have equal
        # scores; BLAS does not say so.
        scores[part] = np.einsum('bd,bmd->bm', query_e[part], entities) + np.einsum(
            'bd,bmd->bm', query_r[part], relations
        )
    return np.where(rows >= 0, scores, -np.inf).astype(np.float32)


def _unused(batch, k):
    return np.full((batch, k), -np.inf, np.float32), np.full((batch, k), -1, np.int32)


def check_queries(query_e, query_r, k, dims):
    """Queries as float32 arrays; InputError unless finite [B, dims[0]], [B, dims[1]], and k > 0."""
    query_e, query_r = np.asarray(query_e, np.float32), np.asarray(query_r, np.float32)
    if (query_e.shape, query_r.shape) != ((len(query_e), dims[0]), (len(query_e), dims[1])):
        raise InputError(
            f'queries must be [B, {dims[0]}] and [B, {dims[1]}], not {query_e.shape} and '
            f'{query_r.shape}'
        )
    if k < 1:
        raise InputError(f'k must be at least 1, not {k}')
    if not (np.isfinite(query_e).all() and np.isfinite(query_r).all()):
        raise InputError('queries hold NaN or infinite numbers')
    return query_e, query_r


def check_table(memory, entity_table):
    """The entity table as a numpy array, checked against the memory."""
    table, count = np.asarray(entity_table), memory.manifest.num_entities
    if table.ndim != 2 or len(table) < count:
        raise InputError(
            f'{memory.directory} has {count} entities, which an entity table of shape '
            f'{table.shape} does not hold'
        )
    if jnp.issubdtype(table.dtype, jnp.floating) and (row := bad_row(table)) is not None:
        raise InputError(
            f'row {row} of the entity table has a number that is not finite, '
            'or is huge: train again'
        )
    return table


def table_hash(table, num_entities: int) -> str:
    """The hash of E's rows when the index was built: an injection may add others."""
    return params_hash(table[:num_entities])


@functools.cache
def _warn_once(message):
    """Logs a warning, the first time that it is given."""
    _log.warning('%s', message)


def check_files(directory, manifest: IndexManifest) -> None:
    """ManifestError unless an index has exactly ScaNN's files, as ScaNN notices no damage."""
    folder = pathlib.PurePath(manifest.folder)
    expected = {f'{folder}/{name}' for name in SCANN_FILES} if manifest.exact is None else set()
    if not re.fullmatch(FOLDER, manifest.folder) or manifest.files.keys() != expected:
        lacks = f'does not list {", ".join(SCANN_FILES)} of {FOLDER}, and nothing else'
        raise FORMAT.damaged(directory / MANIFEST, lacks)
    present = {f'{folder}/{path.name}' for path in (directory / folder).glob('*')}
    if present - expected:
        unlisted = f'not listed in {MANIFEST}: remove it'
        raise FORMAT.damaged(directory / min(present - expected), unlisted)
    manifest_lib.check_files(directory, manifest, FORMAT)
    manifest_lib.verify_files(directory, manifest, FORMAT)
    if expected and (directory / folder / ASSETS).read_bytes() != _ASSETS.encode():
        other = 'not the list of files that ScaNN writes'
        raise FORMAT.damaged(directory / folder / ASSETS, other)
