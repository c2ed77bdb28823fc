"""Finds the best k entries of a whole memory, whose rows and entities are split over all devices of a mesh.

    score_i = query_e . E[topic_i] + query_r . r_i

The first term is the same for all entries of a topic, so each device computes it once per topic and adds it to the products of
its relations, chunk by chunk; keys `[E[topic]; r]` are never assembled, which halves the work. Of the scores only the maxima of
small buckets of rows are kept: the k buckets with the highest maxima contain the best k rows, whose scores are then computed
once more, exactly.

Each device keeps a full k: topic-sorted rows put all good entries of a query on few devices, so that k/D per device would lose
them. Devices exchange the (score, row) of what they found, each for its share of the queries; before the search each receives
all queries and all of E, of which it needs the rows of its topics. Ties go to the lowest row.

The search runs without gradient; `rescore` and `retrieve` compute the scores of what it found with gradient. There the relation
part of a score comes from the device that owns the entry, the entity part from the one that owns the row of E, and devices
exchange scores [B, k] and embeddings [B, d_e], never keys [B, k, d].
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from opql_jax.core.errors import InputError
from opql_jax.memory.follow import Followed, Queries, aggregate, masked_softmax, nan_of, rankable, relation_values
from opql_jax.memory.sharding import BUCKET, ShardedMemory, platform_of
from opql_jax.parallel import entity_table as entity_table_lib
from opql_jax.parallel.collectives import QueryLayout, owned
from opql_jax.parallel.mesh import MESH_AXES, ROWS

MAX_SCORE_BYTES = 1 << 28  # of all scores alive at a time on a device

_PRECISION = lax.Precision.HIGHEST
# These constants were chosen with benchmarks/memory_search.py. Scores of a chunk on a CPU, whose cache should hold
# them, and rows of one. A chunk is a copy of its relations, which few scores are not worth: up to _CPU_WHOLE of them come from
# all rows at once, if these need no conversion.
_CPU_SCORES, _CPU_ROWS, _CPU_WHOLE = 1 << 18, (1 << 10, 1 << 12), 1 << 21
_ACCELERATOR_ROWS = 1 << 16
# Buckets that 'approx' keeps for each entry to be found.
_CPU_OVERSAMPLING, _ACCELERATOR_OVERSAMPLING = 8, 2
# Numbers of relations gathered at a time when rows are scored again; a CPU's cache should hold them.
_CPU_GATHERED, _ACCELERATOR_GATHERED = 1 << 20, 1 << 22


class SearchFilter(NamedTuple):
    """Which entries each query may find. None does not restrict.

    Attributes:
        topics: [B, n] bool, the entities whose entries may be found.
        excluded_targets: [B] or [B, X] int32, targets that must not be found, -1 for none.
        excluded_passage: [B] int32, a passage of which no entry must be found, -1 for none.
    """

    topics: jax.Array | None = None
    excluded_targets: jax.Array | None = None
    excluded_passage: jax.Array | None = None


EVERYTHING = SearchFilter()


class Retrieved(NamedTuple):
    """The entries that a search found, and their targets.

    Attributes:
        followed: Followed, the weighted set of targets and the evidence.
        scores: [B, k] float32 of `followed.entry_rows`, with gradient; -inf in unused slots.
        targets: [B, k] int32 of `followed.entry_rows`; -1 in unused slots.
        embedding: [B, d_e] float32, e_Y: the embeddings of the targets, weighted by beta.
    """

    followed: Followed
    scores: jax.Array
    targets: jax.Array
    embedding: jax.Array


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
    best, place = lax.top_k(padded[buckets].reshape(-1), k)
    # A place in the padding can be kept only with -inf, which marks an unused slot.
    return best, jnp.minimum(buckets[place // size] * size + place % size, width - 1)


class _Choice(NamedTuple):
    """How rows are chosen that will be scored exactly: static, made by `_choice`.

    Attributes:
        keep: buckets to keep.
        size: rows of a bucket.
        chunk: rows scored at a time, a multiple of `size`.
        dtype: of the products.
        partial: buckets are kept by a partial reduction, which may miss some; of so many rows on all devices, 0 for no.
    """

    keep: int
    size: int
    chunk: int
    dtype: jnp.dtype
    partial: int

    def candidates(self, rows):
        """Buckets of a device that compete for being kept."""
        return -(-rows // self.chunk) * min(self.keep, self.chunk) if self.partial else rows // self.size


def _choice(memory, k, queries, rows, platform) -> _Choice:
    """The choice for a number of queries, of `rows` rows on each device."""
    cpu, approx = platform == 'cpu', memory.mode == 'approx'
    dtype = jnp.bfloat16 if approx and not cpu else jnp.float32
    keep = k * ((_CPU_OVERSAMPLING if cpu else _ACCELERATOR_OVERSAMPLING) if approx else 1)
    partial = len(memory.slot) if approx and platform == 'tpu' else 0
    size = 1 if partial else BUCKET // 4 if approx and cpu else BUCKET
    # About as many buckets to choose from as rows to score again.
    while size > 1 and rows < size * size * keep:
        size //= 2
    chunk = min(_chunk_rows(queries, rows, cpu, _keys(memory).dtype == dtype), rows)
    return _Choice(keep, size, max(1, chunk // size) * size, dtype, partial)


def _chunk_rows(queries, rows, cpu, plain):
    """Rows to score at a time; `plain` says whether their relations need no conversion."""
    if not cpu:
        return _ACCELERATOR_ROWS
    if plain and queries * rows <= _CPU_WHOLE:
        return rows
    return min(max(_CPU_SCORES // queries, _CPU_ROWS[0]), _CPU_ROWS[1])


def _keys(memory):
    """What rows are chosen by, [N', d]."""
    return memory.relations if memory.codes is None else memory.codes


def _entity_scores(query_e, table, topics, allowed):
    """query_e . E[x] for the topics of this device, -inf for those that are not allowed, and for rows without one: [T + 1]."""
    if 2 * len(topics) < len(table):
        scores = _products(query_e, table[topics], jnp.float32)
    else:  # reading all of E costs less than copying half of it
        scores = _products(query_e, table, jnp.float32)[topics]
    if allowed is not None:
        scores = jnp.where(allowed[topics], scores, -jnp.inf)
    return jnp.append(scores, -jnp.inf)


def _sum_of(relation_scores, entity_scores):
    """Scores of entries; -inf, whatever its relation is, where an entry has no topic that is searched."""
    return jnp.where(entity_scores == -jnp.inf, -jnp.inf, relation_scores + entity_scores)


def _filtered(scores, filter, memory, rows_of):
    """Scores, -inf where the filter excludes an entry's target or passage; `rows_of` takes the entries' part of an array."""
    if filter.excluded_targets is not None:
        excluded = (rows_of(memory.target)[..., None] == jnp.atleast_1d(filter.excluded_targets)).any(axis=-1)
        scores = jnp.where(excluded, -jnp.inf, scores)
    if filter.excluded_passage is not None:
        excluded = (rows_of(memory.passages) == filter.excluded_passage).any(axis=-1) & (filter.excluded_passage >= 0)
        scores = jnp.where(excluded, -jnp.inf, scores)
    return scores


def _choose(query_r, filter, entity_scores, memory, choice):
    """Rows in which the best k of this device are, [m] int32 rising, and which of them count, [m] bool."""
    (keep, size, chunk, dtype, partial), rows = choice, len(memory.slot)
    query = query_r if memory.directions is None else _products(query_r, memory.directions.T, jnp.float32)

    def step(_, number):
        first = number * (chunk // size)
        start = jnp.minimum(first, (rows - chunk) // size)  # the last chunk overlaps the one before
        part = lambda array: lax.dynamic_slice_in_dim(array, start * size, chunk)
        scores = _products(query, relation_values(part(_keys(memory))), dtype)
        scores = _filtered(_sum_of(scores, _at(entity_scores, part(memory.slot))), filter, memory, part)
        scores = rankable(scores)
        bucket = start + jnp.arange(chunk // size, dtype=jnp.int32)
        best = jnp.where(bucket >= first, jnp.max(scores.reshape(-1, size), axis=1), -jnp.inf)
        if partial:
            best, place = lax.approx_max_k(best, min(keep, chunk), recall_target=0.99, reduction_input_size_override=partial)
            bucket = start + place
        return None, (best, bucket * size)

    _, (best, row) = lax.scan(step, None, jnp.arange(-(-rows // chunk), dtype=jnp.int32))
    best, row = best.reshape(-1), row.reshape(-1)
    best, place = _top_of(best, min(keep, len(best)))
    row, best = lax.sort((row[place], best), num_keys=1)
    return (row[:, None] + jnp.arange(size)).reshape(-1), jnp.repeat(best != -jnp.inf, size)


def _best_of(query_r, filter, entity_scores, memory, row, counts, k, group):
    """Exact scores and rows [k] of the best of some rows [m]; 0 and -inf where there are none."""
    groups = -(-max(k, len(row)) // group)
    row, counts = (jnp.pad(x, (0, groups * group - len(x))).reshape(groups, group) for x in (row, counts))

    def score(_, part):
        row, counts = part
        relations = relation_values(_at(memory.relations, row))
        scores = _sum_of(_products(query_r, relations, jnp.float32), _at(entity_scores, memory.slot[row]))
        scores = _filtered(scores, filter, memory, lambda column: _at(column, row))
        return None, jnp.where(counts, rankable(scores), -jnp.inf)

    _, scores = lax.scan(score, None, (row, counts))
    best, place = lax.top_k(scores.reshape(-1), k)
    return best, row.reshape(-1)[place]


def _search_shard(memory, table, queries, filter, *, layout, choice, k, whole):
    """The search on one device: scores and ids [B', k] of the best of all devices for its share of the queries."""
    queries, filter = layout.gather((queries, filter))
    rows, count = len(memory.slot), len(queries.entity)
    if not whole:  # XLA would copy it
        table = lax.all_gather(table, MESH_AXES, tiled=True)
    # Alive at a time for each query: maxima and their rows, entity scores before and after the choice of topics, scores of a chunk.
    alive = 3 * choice.candidates(rows) + len(table) + len(memory.topics) + 1 + choice.chunk
    blocks = -(-count // max(1, MAX_SCORE_BYTES // (4 * alive)))
    block = -(-count // blocks)
    gathered = _CPU_GATHERED if platform_of(memory.mesh) == 'cpu' else _ACCELERATOR_GATHERED
    group = max(1, gathered // (block * memory.relations.shape[1]))

    def one(query):
        (query_e, query_r), filter = query
        scores = _entity_scores(query_e, table, memory.topics, filter.topics)
        row, counts = _choose(query_r, filter, scores, memory, choice)
        return _best_of(query_r, filter, scores, memory, row, counts, k, min(group, len(row)))

    if blocks == 1:
        best, ids = jax.vmap(one)((queries, filter))
    else:  # of one size: a smaller last one would be alive beside the others
        padding = blocks * block - count
        split = lambda x: jnp.pad(x, ((0, padding), *[(0, 0)] * (x.ndim - 1))).reshape(blocks, block, *x.shape[1:])
        results = lax.map(jax.vmap(one), jax.tree.map(split, (queries, filter)))
        best, ids = (x.reshape(-1, k)[:count] for x in results)
    ids += lax.axis_index(MESH_AXES) * rows
    # Devices hold rows in rising order, so the order of places is again the order of ids.
    best, place = lax.top_k(layout.exchange(best), k)
    return best, jnp.where(best == -jnp.inf, -1, jnp.take_along_axis(layout.exchange(ids), place, axis=1))


def _specs(memory):
    """How the arrays of a memory are split: by rows, but for what all rows share."""
    by_rows = jax.tree.map(lambda _: ROWS, memory)
    return by_rows if memory.directions is None else dataclasses.replace(by_rows, directions=PartitionSpec())


def top_k(memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter = EVERYTHING):
    """Finds the best k entries of the memory for each query, without gradient. Call it inside `jax.jit`.

    Where scores are equal up to rounding, the result may depend on the number of devices.

    Args:
        memory: the memory.
        entity_table: [n, d_e], rows split over all devices of the memory's mesh; an n they do not divide is padded, a copy.
        queries: Queries of B rows.
        k: entries to return per query (static); there may be fewer in the memory.
        filter: which entries each query may find.

    Returns:
        scores [B, k] float32 in falling order, -inf in unused slots, and rows [B, k] int32, -1 in unused slots.

    Raises:
        InputError: no query, k below 1, or a filter by passages of a memory that was placed without them.
    """
    mesh, count = memory.mesh, len(queries.entity)
    if not count:
        raise InputError('a search needs at least one query')
    if k < 1:
        raise InputError(f'k must be at least 1, not {k}')
    if filter.excluded_passage is not None and memory.passages is None:
        raise InputError('to exclude a passage a search needs a memory made by shard_memory(..., passages=...)')
    layout = QueryLayout.of(count, mesh)
    choice = _choice(memory, k, count, len(memory.slot) // mesh.size, platform_of(mesh))
    search = functools.partial(_search_shard, layout=layout, choice=choice, k=k, whole=mesh.size == 1)
    arguments = lax.stop_gradient((memory, entity_table_lib.pad_rows(entity_table, mesh), queries)) + (filter,)
    specs = (_specs(memory), ROWS, layout.spec, layout.spec)
    # Where each device has all queries their results are equal, which the check cannot see.
    return jax.shard_map(search, mesh=mesh, in_specs=specs, out_specs=layout.spec, check_vma=False)(*arguments)


def rescore(memory: ShardedMemory, entity_table, queries: Queries, entry_rows):
    """Computes the scores of chosen entries, with gradient to the queries, the relations and the entity table.

    Args:
        memory, entity_table, queries: as in `top_k`.
        entry_rows: [B, k] int32; -1 in unused slots.

    Returns:
        scores [B, k] float32, 0 in unused slots; topics and targets, both [B, k] int32, -1 in unused slots.
    """
    layout = QueryLayout.of(len(entry_rows), memory.mesh)

    def score(memory, table, queries, entry_rows):
        (query_e, query_r), entry_rows = layout.gather((queries, entry_rows))
        row, own = owned(entry_rows, len(memory.slot))
        relations = relation_values(memory.relations[row]).astype(jnp.float32)
        scores = jnp.where(own, jnp.einsum('bd,bkd->bk', query_r, relations, precision=_PRECISION), 0.0)
        entities = jnp.stack([memory.topics[memory.slot[row]], memory.target[row]])
        # 0 where an entry is of another device, so that the sum is the entity's number, and 1 more than it, or 0.
        topics, targets = lax.psum(jnp.where(own, entities + 1, 0), MESH_AXES) - 1
        row, own = owned(topics, len(table))
        embeddings = table[row].astype(jnp.float32)
        scores += jnp.where(own, jnp.einsum('bd,bkd->bk', query_e, embeddings, precision=_PRECISION), 0.0)
        return layout.sum(scores), topics, targets

    specs = (_specs(memory), ROWS, layout.spec, layout.spec)
    out_specs = (layout.spec, PartitionSpec(), PartitionSpec())
    run = jax.shard_map(score, mesh=memory.mesh, in_specs=specs, out_specs=out_specs)
    return run(memory, entity_table_lib.pad_rows(entity_table, memory.mesh), queries, entry_rows)


def retrieve(memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter = EVERYTHING) -> Retrieved:
    """Searches, and weights the targets of what was found. Args as in `top_k`.

    Returns:
        Retrieved, with gradient to the queries, the relations and the entity table.
    """
    _, entry_rows = top_k(memory, entity_table, queries, k, filter)
    scores, _, targets = rescore(memory, entity_table, queries, entry_rows)
    valid = entry_rows >= 0
    beta = masked_softmax(scores, valid)
    embedding = entity_table_lib.weighted_sum(entity_table, targets, beta, memory.mesh)
    entities, weights = aggregate(targets, beta)
    bad = nan_of(queries)
    followed = Followed(entities, weights + bad, entry_rows, beta + bad)
    return Retrieved(followed, jnp.where(valid, scores, -jnp.inf), targets, embedding)
