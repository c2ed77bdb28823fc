"""The search of a whole memory on one CPU device, where scores come in two parts.

    score_i = query_e . E[topic_i] + query_r . r_i

The first is computed once per topic and added to the products of relations, chunk by chunk; keys
`[E[topic]; r]` are never assembled, which halves the work. Of the scores only the maxima of small
buckets of rows are kept: the k buckets with the highest maxima contain the best k rows, whose
scores are then computed once more, exactly.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from opql_jax.memory.follow import Queries, rankable
from opql_jax.memory.selection import SearchFilter, permitted, top_of
from opql_jax.memory.sharding import BUCKET, ShardedMemory

MAX_SCORE_BYTES = 1 << 28  # of all scores alive at a time

# These constants were chosen with benchmarks/search.py. Scores of a chunk, which the cache
# should hold, and rows of one. A chunk is a copy of its relations, which few scores are not worth:
# up to _WHOLE of them come from all rows at once, if these need no conversion.
_SCORES, _ROWS, _WHOLE = 1 << 18, (1 << 10, 1 << 12), 1 << 21
# Numbers of relations gathered at a time when rows are scored again; the cache should hold them.
_GATHERED = 1 << 20


class _Choice(NamedTuple):
    """How rows are chosen: buckets kept, rows of one, rows scored at a time (its multiple)."""

    keep: int
    size: int
    chunk: int


def _choice(memory: ShardedMemory, k: int, queries: int) -> _Choice:
    rows, size = len(memory.topic), BUCKET
    # About as many buckets to choose from as rows to score again.
    while size > 1 and rows < size * size * k:
        size //= 2
    chunk = min(_chunk_rows(queries, rows, memory.relations.dtype == jnp.float32), rows)
    return _Choice(k, size, max(1, chunk // size) * size)


def _chunk_rows(queries, rows, plain):
    """Rows to score at a time; `plain` says whether their relations need no conversion."""
    if plain and queries * rows <= _WHOLE:
        return rows
    return min(max(_SCORES // queries, _ROWS[0]), _ROWS[1])


def _at(array, places):
    """`array[places]` for places known to be in it; a look would cost as much again."""
    return array.at[places].get(mode='promise_in_bounds')


def _products(query, keys):
    """[C] float32 products of [d] and [C, d]."""
    return lax.dot_general(
        query, keys.astype(jnp.float32), (((0,), (1,)), ((), ())), lax.Precision.HIGHEST
    )


def _entity_scores(query_e, table, topics, allowed):
    """query_e . E[x]: [T + 1] of the topics and of none; -inf of none and others than `allowed`."""
    if 2 * len(topics) < len(table):
        scores = _products(query_e, table[topics])
    else:  # reading all of E costs less than copying half of it
        scores = _products(query_e, table)[topics]
    scores = jnp.append(scores, -jnp.inf)
    if allowed is None:
        return scores
    slot = jnp.minimum(jnp.searchsorted(topics, allowed), len(topics) - 1)
    slot = jnp.where(topics[slot] == allowed, slot, len(topics))
    return jnp.full_like(scores, -jnp.inf).at[slot].set(scores[slot])


def _sum_of(relation_scores, entity_scores):
    """Scores of entries; -inf, whatever the relation, if no topic of the entry is searched."""
    return jnp.where(entity_scores == -jnp.inf, -jnp.inf, relation_scores + entity_scores)


def _filtered(scores, filter, memory, rows_of):
    """Scores to rank, -inf where the filter forbids an entry; `rows_of` takes part of a column."""
    if any(part is not None for part in filter):
        passages = None if memory.passages is None else rows_of(memory.passages)
        scores = jnp.where(
            permitted(filter, None, rows_of(memory.target), passages), scores, -jnp.inf
        )
    return rankable(scores)


def _choose(query_r, filter, entity_scores, memory, choice):
    """Rows in which the best k are, [m] int32 rising, and which of them count, [m] bool."""
    (keep, size, chunk), rows, factors = choice, len(memory.topic), memory.factors

    def step(_, number):
        first = number * (chunk // size)
        start = jnp.minimum(first, (rows - chunk) // size)  # the last chunk overlaps the one before
        part = lambda array: lax.dynamic_slice_in_dim(array, start * size, chunk)
        scores = _products(query_r, part(memory.relations))
        scores = _filtered(
            _sum_of(scores, _at(entity_scores, part(factors.slot))), filter, memory, part
        )
        bucket = start + jnp.arange(chunk // size, dtype=jnp.int32)
        best = jnp.where(bucket >= first, jnp.max(scores.reshape(-1, size), axis=1), -jnp.inf)
        return None, (best, bucket * size)

    _, (best, row) = lax.scan(step, None, jnp.arange(-(-rows // chunk), dtype=jnp.int32))
    best, row = best.reshape(-1), row.reshape(-1)
    best, place = top_of(best, min(keep, len(best)))
    row, best = lax.sort((row[place], best), num_keys=1)
    return (row[:, None] + jnp.arange(size)).reshape(-1), jnp.repeat(best != -jnp.inf, size)


def _best_of(query_r, filter, entity_scores, memory, row, counts, k, group):
    """Exact scores and rows [k] of the best of some rows [m]; 0 and -inf where there are none."""
    groups = -(-max(k, len(row)) // group)
    row, counts = (
        jnp.pad(x, (0, groups * group - len(x))).reshape(groups, group) for x in (row, counts)
    )

    def score(_, part):
        row, counts = part
        relations = _at(memory.relations, row)
        scores = _sum_of(
            _products(query_r, relations), _at(entity_scores, memory.factors.slot[row])
        )
        return None, jnp.where(
            counts, _filtered(scores, filter, memory, lambda column: _at(column, row)), -jnp.inf
        )

    _, scores = lax.scan(score, None, (row, counts))
    best, place = lax.top_k(scores.reshape(-1), k)
    return best, row.reshape(-1)[place]


def top_rows(memory: ShardedMemory, table, queries: Queries, k: int, filter: SearchFilter):
    """The rows [B, k] int32 of the best entries for each query, best first; -1 in unused slots."""
    assert memory.factors is not None
    topics, rows, count = memory.factors.topics, len(memory.topic), len(queries.entity)
    choice = _choice(memory, k, count)
    # Alive at a time for each query: maxima and their rows, entity scores before and after the
    # choice of topics, scores of a chunk.
    alive = 3 * (rows // choice.size) + len(table) + len(topics) + 1 + choice.chunk
    blocks = -(-count // max(1, MAX_SCORE_BYTES // (4 * alive)))
    block = -(-count // blocks)
    group = max(1, _GATHERED // (block * memory.relations.shape[1]))

    def one(query):
        (query_e, query_r), filter = query
        scores = _entity_scores(query_e, table, topics, filter.topics)
        filter = filter._replace(topics=None)
        row, counts = _choose(query_r, filter, scores, memory, choice)
        return _best_of(query_r, filter, scores, memory, row, counts, k, min(group, len(row)))

    if blocks == 1:
        best, ids = jax.vmap(one)((queries, filter))
    else:  # of one size: a smaller last one would be alive beside the others
        padding = blocks * block - count
        split = lambda x: jnp.pad(x, ((0, padding), *[(0, 0)] * (x.ndim - 1))).reshape(
            blocks, block, *x.shape[1:]
        )
        results = lax.map(jax.vmap(one), jax.tree.map(split, (queries, filter)))
        best, ids = (x.reshape(-1, k)[:count] for x in results)
    return jnp.where(best == -jnp.inf, -1, ids)
