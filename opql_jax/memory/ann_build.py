"""Builds the approximate index of a memory (`memory/ann.py`) and tunes its recall.

A build is reproducible: the same memory, table, options and ScaNN give the same bytes in a new
directory. So training has one thread, and the settings are chosen by the work that they cause and
not by a clock.
"""

import importlib.metadata
import logging
import math
import os

import numpy as np

from opql_jax.core import files as storage
from opql_jax.core import locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.errors import InputError
from opql_jax.memory import ann, segments
from opql_jax.memory.ann import ExactIndex, ScannIndex
from opql_jax.memory.format import Memory

MIN_ENTRIES = 20_000  # with fewer, ScaNN's guide says, brute force is best
NUM_QUERIES = 512  # of each of the two samples
NOISE = 0.5  # of a sampled query, in norms of its key

_MAX_DEPTH = 32  # in k
# An estimate of how many are scored in the time that it takes to fetch and score one key.
_CODES_PER_KEY = 64
_BLOCK_ROWS = 1 << 15
# Names the folder that is being built, and the one that it replaces.
_PLAN = manifest_lib.plan_format(
    'opql-index-build', 'a plan of an index', 'ann_build.build_index', 'plan.json'
)
_log = logging.getLogger(__name__)


def build_index(
    directory, memory: Memory, entity_table, *, k: int = 32, recall: float = 0.95, queries=None
) -> ScannIndex | ExactIndex:
    """Builds a memory's index, tunes it to a measured recall, and writes it over an old one.

    Recall@k is the share of the k best entries, by exact search, that the index returns. On a first
    sample of queries the least depth that reaches the target is found for each number of leaves,
    and of these settings the one that scores the fewest entries is tried on a second sample, whose
    recall the manifest states. Where that is not above the target by two standard errors, the aim
    on the first is raised. With fewer than MIN_ENTRIES entries, or without ScaNN, search is exact.

    `directory` is the index's own, `entity_table` E [n, d_e]. `queries` (query_e [Q, d_e], query_r
    [Q, d_r]), at least 4, are split in two samples; None takes keys of entries with Gaussian noise,
    which may be easier than what a model asks. InputError: a bad argument, a directory that holds
    something else, no setting with this recall (the index that was there stays), a ScaNN that does
    not import, or another process writing here.
    """
    directory = storage.require_local(directory)
    if not 0 < recall <= 1 or k < 1:
        raise InputError(
            f'recall must be above 0 and at most 1, and k at least 1, not recall={recall}, k={k}'
        )
    table, dims = ann.check_table(memory, entity_table), memory.manifest.relation_dim
    if queries is not None:
        query_e, query_r = queries
        queries = ann.check_queries(query_e, query_r, k, (table.shape[1], dims))
        if len(query_e) < 4:
            raise InputError(
                'queries must be at least 4: half of them are for tuning, half '
                'to measure the recall'
            )
    with locks.writer(directory):
        before, folder = _folders(directory)
        manifest: dict = {'memory': memory.hash(), 'num_entries': len(memory), 'k': k}
        manifest |= {'num_entities': memory.manifest.num_entities, 'recall_target': recall}
        table_hash = ann.table_hash(table, memory.manifest.num_entities)
        manifest |= {'entity_table': table_hash, 'folder': folder, 'scann': None}
        digests: dict = {}
        scann = ann.scann_interface()
        if len(memory) < MIN_ENTRIES:
            manifest['exact'] = f'{len(memory)} entries are fewer than {MIN_ENTRIES}'
        elif scann is None:
            manifest['exact'] = 'ScaNN was not installed when it was built'
        else:
            manifest['scann'] = importlib.metadata.version('scann')
            manifest['num_leaves'] = num_leaves = round(math.sqrt(len(memory)))
            rng = np.random.default_rng(0)
            exact = ExactIndex(memory, table)
            tuning, measuring = (
                (query_e, query_r, exact.search(query_e, query_r, k)[1])
                for query_e, query_r in _samples(memory, table, queries, rng)
            )
            del exact  # which holds a copy of the relations
            searcher = _train(scann, _keys(memory, table, np.arange(len(memory))), k, num_leaves)
            header = {'format': ann.FORMAT.name, 'version': ann.FORMAT.version, 'files': {}}
            stated = ann.IndexManifest(**(header | manifest))
            index = ScannIndex(memory, table, searcher, np.asarray(memory.ids), stated)
            manifest |= _tune(index, tuning, measuring, recall)
            manifest_lib.plan_update(directory, _PLAN, {before} - {''}, [folder])
            digests = _write(directory, folder, searcher, np.asarray(memory.ids))
        manifest_lib.write_manifest(directory, ann.FORMAT, manifest, digests)
        _clean(directory, folder)
    return ann.open_index(directory, memory, entity_table)


def _train(scann, keys, k, num_leaves):
    """The searcher of keys [N, d]; it keeps codes only."""
    # Random first centres, ScaNN's default, differ from run to run even with one thread; several
    # promise no order of sums.
    builder = scann.builder(keys, k, 'dot_product').set_n_training_threads(1)
    builder = builder.tree(num_leaves, num_leaves, random_init=False, soar_lambda=1.5)
    return builder.score_ah(2, anisotropic_quantization_threshold=0.2).build()


def _tune(index, tuning, measuring, recall) -> dict:
    """Sets the index's leaves and depth; returns them and what the manifest states of them."""
    k, size, num_leaves = index.manifest.k, index.manifest.num_entries, index.manifest.num_leaves
    doubled = (base << i for base in (2, 3) for i in range(num_leaves.bit_length()))
    depths = {}
    for leaves in sorted({1, *(min(number, num_leaves) for number in doubled)}):
        proposed = index.propose(*tuning[:2], _MAX_DEPTH * k, leaves)
        depths[leaves] = _depths(proposed, tuning[2])
    total = tuning[2].size
    most = max(np.isfinite(depth).sum() for depth in depths.values())
    aim = math.ceil(recall * total)
    while aim <= most:
        settings = []
        for leaves, depth in depths.items():
            least = max(k, depth[aim - 1])
            # Each entry is in two leaves.
            work = 2 * size * leaves / num_leaves + _CODES_PER_KEY * least
            settings.append((work, leaves, least))
        _, index.leaves, depth = min(settings)
        index.depth = int(depth)
        query_e, query_r, true_rows = measuring
        _, rows = index.search(query_e, query_r, k)
        found = [np.isin(true, proposed).mean() for true, proposed in zip(true_rows, rows)]
        share = np.array(found)
        mean, error = float(share.mean()), float(share.std(ddof=1) / len(share) ** 0.5)
        told = 'leaves %d, depth %d: recall@%d %.4f, standard error %.4f'
        _log.info(told, index.leaves, index.depth, k, mean, error)
        if mean - 2 * error >= recall:
            measured = {'recall': mean, 'recall_standard_error': error}
            measured |= {'recall_queries': len(share)}
            return {'leaves': index.leaves, 'depth': index.depth} | measured
        aim += max((total - aim) // 10, 1)
    raise InputError(
        f'no setting reaches recall@{k} {recall} on both samples of queries '
        f'({most / total:.4f} is the most on the first): ask for less, give '
        'more or other queries, or search exactly with ann.ExactIndex'
    )


def _depths(proposed, truth):
    """The depths [Q * k], rising, of true rows [Q, k] among proposed [Q, depth]; inf if absent."""
    depths = np.full(truth.shape, np.inf)
    for i in range(truth.shape[1]):
        at = proposed == truth[:, i, None]
        depths[:, i] = np.where(at.any(axis=1), at.argmax(axis=1) + 1, np.inf)
    return np.sort(depths, axis=None)


def _samples(memory, table, queries, rng):
    """Two samples of queries, each (query_e [Q, d_e], query_r [Q, d_r])."""
    if queries is None:
        keys = _keys(memory, table, rng.choice(len(memory), 2 * NUM_QUERIES, replace=False))
        noise = rng.standard_normal(keys.shape, np.float32) * (NOISE / keys.shape[1] ** 0.5)
        keys += noise * np.linalg.norm(keys, axis=1, keepdims=True)
        queries = keys[:, : table.shape[1]], keys[:, table.shape[1] :]
    order = rng.permutation(len(queries[0]))
    return [tuple(part[half] for part in queries) for half in np.array_split(order, 2)]


def _keys(memory, table, rows):
    """Keys [E[topic]; r] of some rows, [n, d_e + d_r] float32."""
    keys = np.empty((len(rows), table.shape[1] + memory.manifest.relation_dim), np.float32)
    for start in range(0, len(rows), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        keys[part, : table.shape[1]] = table[memory.topic[rows[part]]]
        keys[part, table.shape[1] :] = memory.relations(rows[part])
    return keys


def _write(directory, folder, searcher, ids):
    """Writes the files of an index; returns their digests by name."""
    (directory / folder).mkdir()
    searcher.serialize(str(directory / folder), relative_path=True)
    files = segments.write_array(directory, f'{folder}/ids.npy', ids)
    for path in sorted((directory / folder).iterdir()):
        with open(path, 'rb') as file:
            os.fsync(file.fileno())
        files[f'{folder}/{path.name}'] = storage.digest(path)
    return files


def _folders(directory):
    """The present index's folder ('' if none) and a new name; removes what a killed build left."""
    before = ''
    if (directory / manifest_lib.MANIFEST).exists():
        try:
            before = manifest_lib.read_manifest(directory, ann.FORMAT).folder
        except manifest_lib.ManifestError as error:
            raise InputError(f'{error}; give the index a directory of its own') from error
    elif not manifest_lib.is_folder_of(directory, _PLAN):
        begun = f'.{_PLAN.file}.'  # of a build that was killed before it wrote its plan
        for path in sorted(directory.iterdir()):
            if not (locks.is_lock(path) or path.name.startswith(begun)):
                raise InputError(f'{path}: not of an index; give the index a directory of its own')
    _clean(directory, before)
    return before, f'index-{int(before.rpartition("-")[2] or -1) + 1:05d}'


def _clean(directory, folder):
    """Removes what the plan of a build names, but for `folder`, and the plan."""
    storage.remove_partials(directory, manifest_lib.MANIFEST, _PLAN.file)
    if manifest_lib.is_folder_of(directory, _PLAN):
        for name in manifest_lib.read_manifest(directory, _PLAN).names:
            if name != folder and (directory / name).exists():
                storage.rmtree(storage.below(directory, name))
        (directory / _PLAN.file).unlink()
