"""Finds the best k entries of a memory whose rows and entities are split over a mesh.

    score_i = query_e . E[topic_i] + query_r . r_i

How entries are chosen depends on the platform: one CPU device adds the two parts of a score
(`search_factored`); anywhere else it is one product with keys `[E[topic]; r]` (`search_keys`). Ties
go to the lowest row. Choosing has no gradient. What is chosen is scored in float32, from the
relations and from E as it is, by `rescore`, with gradient: the relation part of a score comes from
the device that owns the entry, the entity part from the one that owns the row of E, and devices
exchange scores [B, k] and embeddings [B, d_e], never keys [B, k, d] or rows of E.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from opql_jax.core.errors import InputError
from opql_jax.memory import search_factored, search_keys
from opql_jax.memory.follow import Followed, Queries, weigh
from opql_jax.memory.selection import EVERYTHING, SearchFilter, permitted
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.parallel import entity_table as entity_table_lib
from opql_jax.parallel.collectives import QueryLayout, of_all, of_owned, owned
from opql_jax.parallel.mesh import ROW_AXES, ROWS, platform_of

_PRECISION = lax.Precision.HIGHEST
# With a filter an index is asked for so many times k.
_ASKED_FILTERED = 2


def choose(
    memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter = EVERYTHING
):
    """The rows [B, k] int32 of the best entries for each query, best first; -1 in unused slots.

    As `top_k`, but in the order of the scores by which they were chosen: keys give these rounded.
    """
    if not len(queries.entity):
        raise InputError('a search needs at least one query')
    if k < 1:
        raise InputError(f'k must be at least 1, not {k}')
    if filter.excluded_passage is not None and memory.passages is None:
        raise InputError(
            'to exclude a passage a search needs a memory made by shard_memory(..., passages=...)'
        )
    memory, entity_table, queries = lax.stop_gradient((memory, entity_table, queries))
    if memory.propose is not None:
        return _proposed(memory, entity_table, queries, k, filter)
    if memory.factors is not None:
        return search_factored.top_rows(memory, entity_table, queries, k, filter)
    if memory.keys is None:
        memory = search_keys.with_keys(memory, entity_table)
    return search_keys.top_rows(memory, queries, k, filter)


def _proposed(memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter):
    """`choose` by an index on the host; exactly if the filter bars too much of what it proposes."""
    assert memory.propose is not None
    is_filtered = any(part is not None for part in filter)
    asked = k * (_ASKED_FILTERED if is_filtered else 1)
    shape = jax.ShapeDtypeStruct((len(queries.entity), asked), jnp.int32)
    rows = jax.pure_callback(functools.partial(memory.propose, k=asked), shape, *queries)
    if not is_filtered:
        return rows
    found = (
        None if column is None else column[rows]
        for column in (memory.topic, memory.target, memory.passages)
    )
    kept = (rows >= 0) & jax.vmap(permitted)(filter, *found)

    def best_kept():
        order = jnp.argsort(~kept, axis=1, stable=True)[:, :k]
        return jnp.take_along_axis(rows, order, axis=1)

    whole = dataclasses.replace(memory, propose=None)
    return lax.cond(
        (kept.sum(axis=1) >= k).all(),
        best_kept,
        lambda: choose(whole, entity_table, queries, k, filter),
    )


def top_k(
    memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter = EVERYTHING
):
    """Finds the best k entries of the memory for each of B queries, without gradient.

    Call it inside `jax.jit`, with a static k. Rows of `entity_table` [n, d_e] are split over all
    devices of the memory's mesh; an n they do not divide is padded, a copy. Keys that the memory
    lacks and needs are computed, which moves all of E. Where scores are equal up to rounding, the
    result may depend on the number of devices.

    Returns scores [B, k] float32, falling, -inf in unused slots, and rows [B, k] int32, -1 there.
    InputError: no query, k below 1, or a filter by passages of a memory placed without them.
    """
    rows = choose(memory, entity_table, queries, k, filter)
    scores, _, _ = rescore(memory, *lax.stop_gradient((entity_table, queries)), rows)
    return _best_first(scores, rows)


def _best_first(scores, rows, *others):
    """Scores [B, k], -inf in unused slots, falling, and what belongs to them in that order."""
    order = -jnp.where(rows >= 0, lax.stop_gradient(scores), -jnp.inf)
    _, scores, rows, *others = lax.sort((order, scores, rows, *others), num_keys=1)
    return jnp.where(rows >= 0, scores, -jnp.inf), rows, *others


@jax.custom_vjp
def rescore(memory: ShardedMemory, entity_table, queries: Queries, entry_rows):
    """Scores of chosen entries, with gradient to queries, relations and the entity table.

    Of `entry_rows` [B, k] int32, -1 in unused slots: scores [B, k] float32, 0 there; topics and
    targets, both [B, k] int32, -1 there. All else as in `top_k`.
    """
    return _rescore(memory, entity_table, queries, entry_rows, has_gradient=False)


def _rescore(memory, entity_table, queries, entry_rows, has_gradient):
    layout = QueryLayout.of(len(entry_rows), memory.mesh)
    on_tpu = platform_of(memory.mesh) == 'tpu'
    take = _take_on_tpu if on_tpu else jnp.take
    of_own = of_owned if on_tpu and not has_gradient else of_all

    def score(columns, relations, table, queries, entry_rows):
        (query_e, query_r), entry_rows = layout.gather((queries, entry_rows))
        row, own = owned(entry_rows, len(relations))
        scores, *ends = of_own(
            lambda query, row: (
                _products(query, relations[row]),
                *(take(column, row) + 1 for column in columns),
            ),
            query_r,
            row,
            own,
        )
        # 0 where an entry is of another device, so that the sum is the entity's number, and 1 more
        # than it, or 0.
        topics, targets = (lax.psum(end, ROW_AXES) - 1 for end in ends)
        row, own = owned(topics, len(table))
        scores += of_own(lambda query, row: _products(query, table[row]), query_e, row, own)
        return layout.sum(scores), topics, targets

    specs = (ROWS, ROWS, ROWS, layout.spec, layout.spec)
    out_specs = (layout.spec, layout.spec_of_slice, layout.spec_of_slice)
    # The check does not know what of a loop's start differs from device to device.
    run = jax.shard_map(
        score, mesh=memory.mesh, in_specs=specs, out_specs=out_specs, check_vma=has_gradient
    )
    table = entity_table_lib.pad_rows(entity_table, memory.mesh)
    return run((memory.topic, memory.target), memory.relations, table, queries, entry_rows)


rescore.defvjp(
    lambda *given: jax.vjp(functools.partial(_rescore, has_gradient=True), *given),
    lambda gradient, changes: gradient(changes),
)


def _products(vectors, rows):
    """Of vectors [B, d] and rows [B, k, ...] of d numbers: [B, k] float32."""
    rows = rows.astype(jnp.float32).reshape(*rows.shape[:2], -1)
    return jnp.einsum('bd,bkd->bk', vectors, rows, precision=_PRECISION)


def _take_on_tpu(column, row):
    """`column[row]` by rows of 128 numbers: single ones cost a TPU three times as much."""
    parts = jnp.pad(column, (0, -len(column) % 128)).reshape(-1, 128)
    here = np.arange(128) == (row % 128)[..., None]
    return jnp.where(here, parts[row // 128], 0).sum(axis=-1)


def retrieve(
    memory: ShardedMemory, entity_table, queries: Queries, k: int, filter: SearchFilter = EVERYTHING
) -> Followed:
    """Searches (`top_k`) and weights the targets, with gradient to queries, relations and E."""
    entry_rows = choose(memory, entity_table, queries, k, filter)
    scores, _, targets = rescore(memory, entity_table, queries, entry_rows)
    return weigh(queries, *_best_first(scores, entry_rows, targets))
