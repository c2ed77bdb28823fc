"""The best k entries of the whole memory, whose rows and entities lie over all devices of a mesh.

    score_i = query_e . E[topic_i] + query_r . r_i

The first term is the same for all entries of a topic, so each device computes it once per topic it holds and adds it to
the products of its relations, chunk by chunk; keys `[E[topic]; r]` are never assembled, which halves the work. Of the
scores only the maxima of small buckets of rows are kept. The k buckets with the highest maxima contain the best k rows,
and the rows of those are scored again, exactly.

Each device keeps a full k: topic-sorted rows put all good entries of a query on few devices, so that k/D a device would
lose them. Of what they found devices exchange (score, id) only, each receiving those of its share of the queries; before
the search each receives all queries and all of E, of which it needs the rows of its topics. Ties go to the lowest entry id.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding

from opql_jax.core import distributed
from opql_jax.core.errors import InputError
from opql_jax.memory.follow import relation_bits, relation_values, without_signs
from opql_jax.parallel.collectives import Batch
from opql_jax.parallel.rules import spec

MODES = ('exact', 'approx', 'int8', 'pca')
# Those that choose buckets by smaller or fewer numbers than the relations.
CODED = ('int8', 'pca')
MAX_SCORE_BYTES = 1 << 28  # of all scores alive at a time on a device

_PRECISION = lax.Precision.HIGHEST
# Rows of a bucket, at most: rows of a device are a multiple of it. Smaller buckets leave fewer rows to score again and
# more maxima to choose from.
_BUCKET = 32
# Buckets for each entry to be kept in 'approx', at least: of k good rows anywhere, (k - 1) / (2 buckets) share one with
# a better one, 1 in 128.
_APPROX_BUCKETS = 64
# Scores of a chunk on a CPU, whose cache should hold them, and rows of one. A chunk is a copy of its relations, which few
# scores are not worth: up to _CPU_WHOLE of them come from all rows at once, if these need no conversion.
_CPU_SCORES, _CPU_ROWS, _CPU_WHOLE = 1 << 18, (1 << 10, 1 << 12), 1 << 21
_ACCELERATOR_ROWS = 1 << 16
# Relations that the directions of 'pca' are found from, at most.
_PCA_ROWS = 1 << 16
# Rows that are so many times as long as the median count as that long when these are found.
_PCA_LONG = 8
# Numbers of relations gathered at a time when rows are scored again; a CPU's cache should hold them.
_CPU_GATHERED, _ACCELERATOR_GATHERED = 1 << 20, 1 << 22


class ShardedMemory(NamedTuple):
    """Rows of a memory over the D devices of a mesh; the entry id is the row number. Made by `shard_memory`.

    Attributes:
        topics: [D T] int32, the T entities that are topics on each device, in rising order; unused places repeat 0.
        slot: [N'] int32, the place of the entry's topic among those of its device; T in padding and in deleted entries,
            which are never found.
        target: [N'] int32.
        relations: [N', d_r] float32 or float16; bfloat16 as its bits, uint16 (see `follow.relation_values`).
        codes: what a mode of CODED reads: for 'int8' [N', d_r] int8, the relations by row in units of `scales`; for 'pca'
            [N', d_p] float32, their products with `axes`. None unless made for one.
        scales: [N'] float32; None unless made for 'int8'.
        axes: [d_r, d_p] float32, the d_p = 3/8 d_r orthogonal directions in which relations are longest; None unless made for 'pca'.
        passages: [N', P] int32, where an entry was read, -1 in unused slots; None unless given.
    """

    topics: jax.Array
    slot: jax.Array
    target: jax.Array
    relations: jax.Array
    codes: jax.Array | None = None
    scales: jax.Array | None = None
    axes: jax.Array | None = None
    passages: jax.Array | None = None


def shard_memory(topic, target, relations, mesh: Mesh, alive=None, mode: str = 'exact', passages=None) -> ShardedMemory:
    """Places a memory on a mesh, rows split over all its devices.

    Args:
        topic, target: [N] int32; where equal topics lie together, each device needs few entities.
        relations: [N, d_r].
        mesh: as `parallel.mesh.make_mesh` makes them.
        alive: [N] bool, False for deleted entries; None if none is deleted.
        mode: a mode that will be used; one of CODED needs more to read than the rest, which can be used too.
        passages: [N, P] int32, the passages each entry was read in, -1 in unused slots; for searches that bar some.

    Raises:
        InputError: an unknown mode, arrays that differ in length, no row, or too many for int32 ids.
    """
    topic, target, relations = np.asarray(topic, np.int32), np.asarray(target, np.int32), np.asarray(relations)
    if mode not in MODES:
        raise InputError(f'mode must be one of {", ".join(MODES)}, not {mode!r}')
    lengths = [len(topic), len(target), len(relations), *(len(column) for column in (alive, passages) if column is not None)]
    if min(lengths) < 1 or len(set(lengths)) > 1:
        raise InputError(f'a memory needs at least one row and columns of one length, not of {lengths}')
    if len(topic) >= 2**31 - mesh.size * _BUCKET:
        raise InputError(f'{len(topic)} rows do not fit int32 ids')
    codes = scales = axes = None
    if mode == 'int8':
        scales = np.abs(relations).max(axis=1).astype(np.float32) / 127
        unit = np.where(scales > 0, scales, 1)
        codes = np.rint(relations.astype(np.float32) / unit[:, None]).astype(np.int8)
    elif mode == 'pca':
        axes = _longest(relations)
        codes = relations.astype(np.float32) @ axes
    padding = -len(topic) % (mesh.size * _BUCKET)

    def pad(array, fill=0):
        return np.concatenate([array, np.full((padding, *array.shape[1:]), fill, array.dtype)]) if padding else array

    used = pad(np.ones(len(topic), bool) if alive is None else np.asarray(alive, bool))
    shards = np.split(pad(topic, topic[-1]), mesh.size)
    found = [np.unique(shard) for shard in shards]
    width = max(map(len, found))
    topics = np.concatenate([np.pad(entities, (0, width - len(entities))) for entities in found])
    slot = np.concatenate([np.searchsorted(entities, shard) for entities, shard in zip(found, shards)])
    slot = np.where(used, slot, width).astype(np.int32)

    place = lambda array: distributed.put(array, NamedSharding(mesh, spec('entries')))
    columns = dict(target=target, relations=relation_bits(relations), codes=codes, scales=scales)
    columns |= dict(passages=None if passages is None else np.asarray(passages, np.int32))
    columns = {name: place(pad(column)) for name, column in columns.items() if column is not None}
    if axes is not None:
        columns['axes'] = distributed.put(axes, NamedSharding(mesh, spec()))
    return ShardedMemory(place(topics), place(slot), **columns)


def _longest(relations):
    """The orthogonal directions that hold most of the squares of relations [N, d_r], see `ShardedMemory`: [d_r, d_p] float32.

    Not of their differences from the mean, as scores are products with all of a relation.
    """
    some = relations[:: -(-len(relations) // _PCA_ROWS)].astype(np.float32)
    some = some[np.isfinite(some).all(axis=1)]  # a bad row must not spoil the search for the others
    size = np.abs(some).max(axis=1, keepdims=True)
    # Nor may one of huge numbers, which no other's squares would count beside.
    some /= np.maximum(size, _PCA_LONG * np.median(size) if len(some) else 0) + np.finfo(np.float32).tiny
    _, directions = np.linalg.eigh(some.T @ some)  # the longest come last
    return directions[:, -max(1, relations.shape[1] * 3 // 8) :]


def even(table, mesh):
    """The entity table with rows of zeros, so that devices share it evenly."""
    return jnp.pad(table, ((0, -table.shape[0] % mesh.size), (0, 0)))


def _at(array, places):
    """`array[places]` for places that are known to be in it; to look whether they are would cost as much again."""
    return array.at[places].get(mode='promise_in_bounds')


def _products(query, keys, dtype):
    """[C] float32 products of [d] and [C, d], computed in `dtype` with float32 sums."""
    precision = _PRECISION if dtype == jnp.float32 else None
    return lax.dot_general(
        query.astype(dtype), keys.astype(dtype), (((0,), (1,)), ((), ())), precision, preferred_element_type=jnp.float32
    )


def _top_of(scores, k):
    """Exact `lax.top_k` of [C], ties to the lowest place, several times as fast on a CPU.

    The k buckets of neighbours with the highest maxima, lower buckets first, contain the best k: an entry of any other
    bucket has k better ones, one in each of those. So one cheap pass takes the maxima and `top_k` sees few numbers.
    """
    (width,) = scores.shape
    size = int((width / k) ** 0.5)
    if size < 4:
        return lax.top_k(scores, min(k, width))
    padded = jnp.pad(scores, (0, -width % size), constant_values=-jnp.inf).reshape(-1, size)
    _, buckets = lax.top_k(jnp.max(padded, axis=-1), k)
    buckets = jnp.sort(buckets)  # in order of place, so that ties are again met in it
    best, found = lax.top_k(padded[buckets].reshape(-1), k)
    # A place in the padding can be kept only with -inf, which marks an unused slot.
    return best, jnp.minimum(buckets[found // size] * size + found % size, width - 1)


def _bucket_size(rows, k, mode):
    """Rows of a bucket: about as many buckets to choose from as rows to score again, which in 'approx' is one a bucket."""
    size = _BUCKET // 4 if mode == 'pca' else _BUCKET  # of more buckets
    while size > 1 and (rows < _APPROX_BUCKETS * k * size if mode == 'approx' else rows < size * size * k):
        size //= 2
    return size


def _entity_scores(query_e, table, topics, member):
    """query_e . E[x] for the topics of this device, and -inf for rows without one: [T + 1] float32."""
    if 2 * len(topics) < len(table):
        scores = _products(query_e, table[topics], jnp.float32)
    else:  # reading all of E costs less than copying half of it
        scores = _products(query_e, table, jnp.float32)[topics]
    if member is not None:
        scores = jnp.where(member[topics], scores, -jnp.inf)
    return jnp.append(scores, -jnp.inf)


def _sum_of(relation_scores, entity_scores):
    """Scores of entries; -inf, whatever its relation is, where an entry has no topic that is searched."""
    return jnp.where(entity_scores == -jnp.inf, -jnp.inf, relation_scores + entity_scores)


def _without(barred, memory, rows_of, scores):
    """Scores, -inf where an entry has the target, or was read in the passage, that is barred; `rows_of` takes their rows."""
    exclude, passage = barred
    if exclude is not None:
        same = (rows_of(memory.target)[..., None] == jnp.atleast_1d(exclude)).any(axis=-1)
        scores = jnp.where(same, -jnp.inf, scores)
    if passage is not None:
        same = (rows_of(memory.passages) == passage).any(axis=-1) & (passage >= 0)
        scores = jnp.where(same, -jnp.inf, scores)
    return scores


def _keys(memory, mode):
    """What buckets are chosen by, [N', d_r or d_p]."""
    return memory.codes if mode in CODED else memory.relations


def _choose(query_r, barred, entity_scores, memory, k, keep, chunk, mode, dtype, total, on_tpu):
    """Rows in which the best k of this device are, [m] int32 rising, and which of them count, [m] bool."""
    rows = len(memory.slot)
    size = _bucket_size(rows, keep, mode)
    chunk = max(1, min(chunk, rows) // size) * size
    neighbours = mode != 'approx' or on_tpu
    asked = _products(query_r, memory.axes.T, jnp.float32) if mode == 'pca' else query_r

    def step(_, number):
        first = number * (chunk // size)
        start = jnp.minimum(first, (rows - chunk) // size)  # the last chunk overlaps the one before

        def part(array):
            if neighbours:
                return lax.dynamic_slice_in_dim(array, start * size, chunk)
            strided = array.reshape(size, rows // size, *array.shape[1:])
            return lax.dynamic_slice_in_dim(strided, start, chunk // size, axis=1).reshape(chunk, *array.shape[1:])

        scores = _products(asked, relation_values(part(_keys(memory, mode))), dtype)
        if mode == 'int8':
            scores *= part(memory.scales)
        scores = _without(barred, memory, part, _sum_of(scores, _at(entity_scores, part(memory.slot))))
        # A maximum may leave NaN out (XLA's of large arrays on a CPU does). A NaN's row must be chosen, and is scored again.
        scores = jnp.where(jnp.isnan(scores), jnp.inf, scores)
        bucket = start + jnp.arange(chunk // size, dtype=jnp.int32)
        if mode != 'approx':
            best, row = jnp.max(scores.reshape(-1, size), axis=1), bucket * size
        elif on_tpu:
            scores = jnp.where(jnp.arange(chunk) >= (first - start) * size, scores, -jnp.inf)
            best, row = lax.approx_max_k(scores, min(k, chunk), recall_target=0.99, reduction_input_size_override=total)
            return None, (best, start * size + row)
        else:
            # Strided: neighbours have the same topic and similar scores, so that in buckets of them one hid the others.
            best, row = scores[: chunk // size], bucket
            for member, other in enumerate(scores.reshape(size, -1)[1:], start=1):
                row = jnp.where(other > best, bucket + member * (rows // size), row)
                best = jnp.maximum(best, other)
        return None, (jnp.where(bucket >= first, best, -jnp.inf), row)

    _, (best, row) = lax.scan(step, None, jnp.arange(-(-rows // chunk), dtype=jnp.int32))
    best, row = best.reshape(-1), row.reshape(-1)
    best, place = _top_of(without_signs(best), min(keep, len(best)))
    row, best = lax.sort((row[place], best), num_keys=1)
    counts = best != -jnp.inf
    if mode == 'approx':
        return row, counts
    return (row[:, None] + jnp.arange(size)).reshape(-1), jnp.repeat(counts, size)


def _best_of(query_r, barred, entity_scores, memory, row, counts, k, group):
    """Exact scores and rows [k] of the best of some rows [m]; 0 and -inf where there are none."""
    groups = -(-max(k, len(row)) // group)
    row, counts = (jnp.pad(x, (0, groups * group - len(x))).reshape(groups, group) for x in (row, counts))

    def score(_, part):
        row, counts = part
        relations = relation_values(_at(memory.relations, row))
        scores = _sum_of(_products(query_r, relations, jnp.float32), _at(entity_scores, memory.slot[row]))
        scores = _without(barred, memory, lambda column: _at(column, row), scores)
        return None, jnp.where(counts, without_signs(scores), -jnp.inf)

    _, scores = lax.scan(score, None, (row, counts))
    best, place = lax.top_k(scores.reshape(-1), k)
    return best, row.reshape(-1)[place]


def _search_shard(query_e, query_r, memory, table, member, barred, *, batch, k, chunk, mode, dtype, total, platform):
    """The search on one device: scores and ids [B', k] of the best of all devices for its share of the queries."""
    queries = batch.gather((query_e, query_r, member, barred))
    if total > len(memory.slot):  # else it is whole; XLA would copy it
        table = lax.all_gather(table, batch.axes, tiled=True)
    rows, count = len(memory.slot), len(queries[0])
    keep = k * (4 if mode == 'pca' else 2 if mode == 'int8' or dtype != jnp.float32 else 1)
    if chunk is None and platform == 'cpu':
        whole = count * rows <= _CPU_WHOLE and _keys(memory, mode).dtype == dtype
        chunk = rows if whole else min(max(_CPU_SCORES // count, _CPU_ROWS[0]), _CPU_ROWS[1])
    chunk = min(chunk or _ACCELERATOR_ROWS, rows)
    # Alive at a time for each query: maxima and their rows, entity scores before and after the choice of topics, scores of a chunk.
    alive = 3 * (rows // _bucket_size(rows, keep, mode)) + len(table) + len(memory.topics) + 1 + chunk
    blocks = -(-count // max(1, MAX_SCORE_BYTES // (4 * alive)))
    block = -(-count // blocks)
    gathered = _CPU_GATHERED if platform == 'cpu' else _ACCELERATOR_GATHERED
    group = max(1, gathered // (block * memory.relations.shape[1]))

    def one(query):
        query_e, query_r, member, barred = query
        scores = _entity_scores(query_e, table, memory.topics, member)
        row, counts = _choose(query_r, barred, scores, memory, k, keep, chunk, mode, dtype, total, platform == 'tpu')
        return _best_of(query_r, barred, scores, memory, row, counts, k, min(group, len(row)))

    if blocks == 1:
        best, ids = jax.vmap(one)(queries)
    else:  # of one size: a smaller last one would be alive beside the others
        padding = blocks * block - count
        split = lambda x: jnp.pad(x, ((0, padding), *[(0, 0)] * (x.ndim - 1))).reshape(blocks, block, *x.shape[1:])
        found = lax.map(jax.vmap(one), jax.tree.map(split, queries))
        best, ids = (x.reshape(-1, k)[:count] for x in found)
    ids += lax.axis_index(batch.axes) * rows
    # Devices hold rows in rising order, so the order of places is again the order of ids.
    best, found = lax.top_k(batch.exchange(best), k)
    return best, jnp.where(best == -jnp.inf, -1, jnp.take_along_axis(batch.exchange(ids), found, axis=1))


def _platform(mesh):
    return mesh.devices.flat[0].platform


def placed(memory):
    """How the arrays of a memory lie: by rows, but for what all rows share."""
    by_rows = jax.tree.map(lambda _: spec('entries'), memory)
    return by_rows if memory.axes is None else by_rows._replace(axes=spec())


def topk(
    query_e, query_r, memory, entity_table, mesh, k, chunk=None, mode='exact', dtype=jnp.float32, member=None, exclude=None,
    passage=None,
):  # fmt: skip
    """The best k entries of the memory for each query, without gradient. Call it inside `jax.jit`.

    Args:
        query_e: [B, d_e] float32, the entity part of the query (W_k folded in).
        query_r: [B, d_r] float32, the relation part.
        memory: ShardedMemory over `mesh`.
        entity_table: [n, d_e], rows split over all devices of `mesh`; an n they do not divide is padded, which copies it.
        mesh: the mesh of `memory`.
        k: entries to keep (static).
        chunk: rows a step (static), by default as many as serve a CPU's cache. But for 'approx', the result depends on
            it, and on the number of devices, only where scores are equal up to rounding.
        mode: 'exact'; 'approx', which may miss an entry where a better one shares its bucket; 'int8', which chooses
            buckets by the int8 relations, twice as many; 'pca', which chooses smaller ones by the relations in fewer
            numbers, four times as many, and so misses entries where relations need all of theirs.
        dtype: type of the products. With any but float32 'exact' and 'approx' choose twice as many buckets. The scores are exact always.
        member: [B, n] bool, the topics each query may find entries of; None for all.
        exclude: [B] or [B, X] int32, targets that each query must not find, -1 for none; None excludes nothing.
        passage: [B] int32, a passage from which each query must find no entry, -1 for any; None bars none.

    Returns:
        scores [B, k] float32 in falling order, -inf in unused slots, and entry ids [B, k] int32, -1 in unused slots.

    Raises:
        InputError: an unknown mode, no query, k or chunk below 1, a mode of CODED or `passage` on a memory made without it.
    """
    if mode not in MODES:
        raise InputError(f'mode must be one of {", ".join(MODES)}, not {mode!r}')
    if not len(query_e):
        raise InputError('a search needs at least one query')
    if k < 1 or (chunk is not None and chunk < 1):
        raise InputError(f'k and chunk must be at least 1, not k={k}, chunk={chunk}')
    if mode in CODED and (memory.codes is None or (mode == 'pca') != (memory.axes is not None)):
        raise InputError(f'mode {mode!r} needs a memory made by shard_memory(..., mode={mode!r})')
    if passage is not None and memory.passages is None:
        raise InputError('to bar a passage a search needs a memory made by shard_memory(..., passages=...)')
    batch = Batch.of(len(query_e), mesh)
    search = functools.partial(
        _search_shard, batch=batch, k=k, chunk=chunk, mode=mode, dtype=dtype, total=len(memory.slot),
        platform=_platform(mesh),
    )  # fmt: skip
    arguments = lax.stop_gradient((query_e, query_r, memory, even(entity_table, mesh)))
    specs = (batch.spec, batch.spec, placed(memory), spec('entities'), batch.spec, batch.spec)
    arguments += member, (exclude, passage)
    # Where each device has all queries their results are equal, which the check cannot see.
    return jax.shard_map(search, mesh=mesh, in_specs=specs, out_specs=batch.spec, check_vma=False)(*arguments)
