"""The search of a memory by keys `[E[topic]; r]`, whose rows are split over all devices of a mesh.

Each device multiplies all queries with its keys and keeps the best of its rows; devices exchange
their (score, row), never a key. On a TPU 'approx' is one pass over the keys: their bfloat16 product
is fused with the partial reduction of `lax.approx_max_k`, which is as fast as the keys can be read,
or multiplied. Each device keeps as many rows as are asked for altogether: topic-sorted rows put all
good entries of a query on few devices.

While E is trained, keys are as old as `with_keys` has computed them; `search.rescore` scores what
they choose by E as it is.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax

from opql_jax.memory.follow import Queries, rankable
from opql_jax.memory.selection import SearchFilter, permitted, top_of
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.parallel.collectives import QueryLayout
from opql_jax.parallel.entity_table import pad_rows
from opql_jax.parallel.mesh import ROW_AXES, ROWS, platform_of, row_devices

# Of the scores of a chunk, or of its keys, on a device where these are not fused with their
# reduction.
_CHUNK_BYTES = 1 << 26
# Of the scores of a chunk on a GPU, for which many small chunks, and copies of their keys, are what
# costs most. Three times as much is alive.
GPU_SCORE_BYTES = 1 << 30

# The share of the best rows that the partial reduction may be expected to keep.
_RECALL = 0.99


def _chunk_rows(platform, queries, dim):
    """Rows to score at a time."""
    if platform == 'gpu':
        return max(1, GPU_SCORE_BYTES // (4 * queries))
    return max(1, _CHUNK_BYTES // (4 * max(queries, dim)))


def with_keys(memory: ShardedMemory, entity_table) -> ShardedMemory:
    """The memory with the keys that E gives, [n, d_e], split over all devices, if needed.

    That is on one CPU device, and where an index is searched. Shares of E go round the devices,
    each of which takes the rows of its topics. Call it inside `jax.jit`.
    """
    if memory.factors is not None or memory.propose is not None:
        return memory
    dtype = jnp.bfloat16 if memory.mode == 'approx' else jnp.float32
    devices = row_devices(memory.mesh)
    to_previous = [(device, (device - 1) % devices) for device in range(devices)]

    def keys(topic, relations, table):
        def take(turn, state):
            table, taken = state
            local = topic - (lax.axis_index(ROW_AXES) + turn) % devices * len(table)
            here = (topic >= 0) & (local >= 0) & (local < len(table))
            taken = jnp.where(here[:, None], table[jnp.where(here, local, 0)], taken)
            return lax.ppermute(table, ROW_AXES, to_previous), taken

        table = table.astype(dtype)
        empty = lax.pcast(jnp.zeros((len(topic), table.shape[1]), dtype), ROW_AXES, to='varying')
        _, entities = lax.fori_loop(0, devices, take, (table, empty))
        return jnp.concatenate([entities, relations.astype(dtype).reshape(len(topic), -1)], axis=1)

    run = jax.shard_map(keys, mesh=memory.mesh, in_specs=(ROWS, ROWS, ROWS), out_specs=ROWS)
    table = pad_rows(lax.stop_gradient(entity_table), memory.mesh)
    return dataclasses.replace(
        memory, keys=run(memory.topic, lax.stop_gradient(memory.relations), table)
    )


def top_rows(memory: ShardedMemory, queries: Queries, k: int, filter: SearchFilter):
    """The best rows [B, k] int32 for each query by a memory's keys; -1 in unused slots."""
    layout = QueryLayout.of(len(queries.entity), memory.mesh)
    search = functools.partial(_search_shard, layout=layout, k=k)
    specs = (ROWS, layout.spec, layout.spec)
    # Where each device has all queries their results are equal, which the check cannot see.
    run = jax.shard_map(
        search, mesh=memory.mesh, in_specs=specs, out_specs=layout.spec, check_vma=False
    )
    return run(memory, queries, filter)


def _search_shard(memory, queries, filter, *, layout, k):
    queries, filter = layout.gather((queries, filter))
    query = jnp.concatenate(queries, axis=1).astype(memory.keys.dtype)
    rows, platform = len(memory.topic), platform_of(memory.mesh)
    partial = memory.mode == 'approx' and platform == 'tpu'
    chunk = rows if partial else min(rows, _chunk_rows(platform, *query.shape))
    kept = min(k, chunk)
    precision = lax.Precision.HIGHEST if memory.keys.dtype == jnp.float32 else None

    def best_of(part, start, first):
        """The best of the rows that `part` takes from `start` on; before `first` they were seen."""
        keys, topic, target = part(memory.keys), part(memory.topic), part(memory.target)
        passages = None if memory.passages is None else part(memory.passages)
        scores = lax.dot_general(
            query, keys, (((1,), (1,)), ((), ())), precision, preferred_element_type=jnp.float32
        )
        allowed = jax.vmap(
            lambda filter: permitted(filter, topic, target, passages), axis_size=len(query)
        )(filter)
        allowed &= start + jnp.arange(chunk) >= first
        scores = jnp.where(allowed, rankable(scores), -jnp.inf)
        if partial:
            total = rows * row_devices(memory.mesh)
            best, place = lax.approx_max_k(
                scores, kept, recall_target=_RECALL, reduction_input_size_override=total
            )
        else:
            best, place = jax.vmap(functools.partial(top_of, k=kept))(scores)
        return best, start + place

    def step(_, first):
        start = jnp.minimum(first, rows - chunk)  # the last chunk overlaps the one before
        return None, best_of(
            lambda array: lax.dynamic_slice_in_dim(array, start, chunk), start, first
        )

    if chunk == rows:  # a slice would be a copy
        best, row = best_of(lambda array: array, 0, 0)
    else:
        _, found = lax.scan(step, None, jnp.arange(0, rows, chunk, dtype=jnp.int32))
        best, row = (jnp.moveaxis(x, 0, 1).reshape(len(query), -1) for x in found)
    best, row = _best(best, row + lax.axis_index(ROW_AXES) * rows, k)
    best, row = _best(layout.exchange(best), layout.exchange(row), k)
    row = jnp.where(best == -jnp.inf, -1, row)
    return jnp.pad(row, ((0, 0), (0, k - row.shape[1])), constant_values=-1)


def _best(scores, rows, k):
    """The k best of scores [B, n], and their rows, which a TPU is slow to look up by places."""
    scores, rows = lax.sort((-scores, rows), num_keys=2, is_stable=False)
    return -scores[:, :k], rows[:, :k]
