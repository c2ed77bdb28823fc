"""Exact relation following over the memory, restricted to the entries of known topics.

One hop takes a weighted set of topics X, scores the memory entries whose topic is in X, keeps the
best k, and returns the weighted set of their targets (see `hop`), which is the X of the next hop:

    score_i = query_e . E[topic_i] + query_r . r_i + log alpha(topic_i)

The memory is sorted by topic, so no other row is read. The search runs without gradient; the k
entries it kept are then scored again with gradient. Ties go to the lowest row. Everything is a pure
function of arrays with static shapes, to be called inside `jax.jit`.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from opql_jax.core.errors import InputError
from opql_jax.memory.hop import masked_softmax

# Queries searched together, which wait for the one with the most entries.
GROUP = 8

# Rows that a query scores per step of the search.
BLOCK = 512

# Pairs of targets that are compared at a time, a byte each.
MAX_PAIRS = 1 << 30

# Exact search: the default on TPU would round the products to bfloat16.
_PRECISION = lax.Precision.HIGHEST


class MemoryArrays(NamedTuple):
    """A memory of N entries over n entities, sorted by topic; `Memory.ids` has the ids of rows."""

    topic: jax.Array  # [N] int32
    target: jax.Array  # [N] int32
    relations: jax.Array  # [N, d_r] float32 or float16
    offsets: jax.Array  # [n + 1] int32; topic x has the rows offsets[x] .. offsets[x + 1] - 1


class Queries(NamedTuple):
    """The queries q of a hop, with W_k folded in: compared with E[topic] and entries' relations."""

    entity: jax.Array  # [B, d_e] float32
    relation: jax.Array  # [B, d_r] float32


class TopicSet(NamedTuple):
    """The weighted sets X that queries start from."""

    entities: jax.Array  # [B, K] int32, distinct within a query, in any order; -1 if unused
    log_weights: jax.Array  # [B, K] float32, finite (see `hop.log_weights`); ignored if unused
    # [B] int32, a target that each query must not find, -1 for none; None excludes nothing.
    excluded_target: jax.Array | None = None


class Followed(NamedTuple):
    """The result of one hop; a query's weights sum to 1, or are 0 without entries, or NaN."""

    # [B, k] int32, distinct targets by falling weight, equal weights by rising id; -1 if unused.
    entities: jax.Array
    weights: jax.Array  # [B, k] float32, 0 in unused slots
    # [B, k] int32, the evidence: rows of the kept entries by falling score, equal scores by rising
    # row; -1 if unused.
    entry_rows: jax.Array
    beta: jax.Array  # [B, k] float32, the weight of each kept entry; 0 in unused slots


def rankable(scores):
    """Scores for `top_k`: -inf where not finite, and 0.0 for -0.0, which would rank below it."""
    return jnp.where(jnp.isfinite(scores), jnp.where(scores == 0, 0.0, scores), -jnp.inf)


def set_embedding(topics, weights, entity_table):
    """Centroids sum_x alpha_x E[x] of weighted topics [B, K] (-1 if unused): [B, d_e] float32."""
    alpha = jnp.where(topics >= 0, weights, 0.0)
    rows = entity_table[jnp.maximum(topics, 0)].astype(jnp.float32)
    return jnp.einsum('bx,bxd->bd', alpha, rows, precision=_PRECISION)


def _topic_scores(query_e, topics, entity_table, log_weights):
    """The score that all entries of a topic share: query_e . E[x] + log alpha_x, [B, K] float32."""
    rows = entity_table[jnp.maximum(topics, 0)].astype(jnp.float32)
    return jnp.einsum('bd,bxd->bx', query_e, rows, precision=_PRECISION) + log_weights


def _relation_scores(query_r, rows, relations):
    """query_r . r_i for the entries `rows` [B, n] of each query, [B, n] float32."""
    return jnp.einsum(
        'bd,bnd->bn', query_r, relations[rows].astype(jnp.float32), precision=_PRECISION
    )


def top_k(
    memory: MemoryArrays,
    entity_table,
    queries: Queries,
    topics: TopicSet,
    k: int,
    block: int = BLOCK,
):
    """Finds the k best entries among those whose topic is in X: exact, without gradient.

    The entries of a query are numbered 0, 1, ... across the ranges of its topics ("slots") and
    scored `block` slots at a time, merged into a running top-k. The cost grows with these entries,
    not with the memory. Queries of a large batch are searched in groups of similar numbers of
    entries, so that few wait for one with a hundred times as many.

    The memory lies whole on each device, E is [n, d_e], and `k` and `block` are static. Returns
    scores [B, k] float32, falling, -inf in unused slots, and rows [B, k] int32, -1 there.
    """
    if k < 1 or block < 1:
        raise InputError(f'k and block must be at least 1, not k={k}, block={block}')
    memory, entity_table, queries, topics = lax.stop_gradient(
        (memory, entity_table, queries, topics)
    )
    entities, log_weights, exclude = topics
    num_queries = len(entities)
    # With the topics in rising order (unused ones last), slot order is row order. `lax.top_k`
    # prefers the earlier of equals, and what it kept so far stands before the new block, so ties go
    # to the lowest row.
    key = jnp.where(entities >= 0, entities, jnp.iinfo(jnp.int32).max)
    key, entities, log_weights = lax.sort((key, entities, log_weights), num_keys=1)

    shared = _topic_scores(queries.entity, entities, entity_table, log_weights)
    first = memory.offsets[jnp.maximum(entities, 0)]
    count = jnp.where(entities >= 0, memory.offsets[entities + 1] - first, 0)
    end = jnp.cumsum(count, axis=1)  # slots of topic number j: end[j - 1] .. end[j] - 1
    shift = first - (end - count)  # row = slot + shift
    exclude = jnp.full(num_queries, -1, jnp.int32) if exclude is None else exclude
    search = functools.partial(_best_slots, memory=memory, k=k, block=block)
    parts = queries.relation, shared, end, shift, exclude
    members = max(GROUP, jax.device_count())
    if num_queries <= members:
        return search(parts)

    # Queries of a group wait for the one with the most slots. Each part of the batch gives every
    # group one query, by rank of its number of slots, so that those of a group are alike; no query
    # leaves its part, and with it its device.
    padding = -num_queries % members
    split = lambda x: jnp.pad(x, ((0, padding), *[(0, 0)] * (x.ndim - 1))).reshape(
        members, -1, *x.shape[1:]
    )
    parts = jax.tree.map(split, parts)
    order = jnp.argsort(parts[2][:, :, -1], axis=1)
    ranked = lambda x, order: jnp.take_along_axis(
        x, order.reshape(order.shape + (1,) * (x.ndim - 2)), axis=1
    )
    results = lax.map(search, jax.tree.map(lambda x: ranked(x, order).swapaxes(0, 1), parts))
    back = jnp.argsort(order, axis=1)
    return jax.tree.map(
        lambda x: ranked(x.swapaxes(0, 1), back).reshape(-1, k)[:num_queries], results
    )


def _best_slots(queries, memory, k, block):
    """`top_k` for queries that wait for one another, in its parts: scores and rows [B, k]."""
    query_r, shared, end, shift, exclude = queries
    total, last = end[:, -1:], end.shape[1] - 1

    def step(state):
        start, best, ids = state
        slot = start + jnp.arange(block, dtype=jnp.int32)
        number = jnp.minimum(jnp.sum(end[:, None, :] <= slot[:, None], axis=-1), last)
        used = slot < total
        rows = jnp.where(used, slot + jnp.take_along_axis(shift, number, axis=1), 0)
        used &= memory.target[rows] != exclude[:, None]
        score = _relation_scores(query_r, rows, memory.relations)
        score = score + jnp.take_along_axis(shared, number, axis=1)
        score = jnp.where(used, rankable(score), -jnp.inf)
        best, place = lax.top_k(jnp.concatenate([best, score], axis=1), k)
        ids = jnp.take_along_axis(
            jnp.concatenate([ids, jnp.where(score > -jnp.inf, rows, -1)], axis=1), place, axis=1
        )
        return start + block, best, ids

    empty = (
        jnp.full((len(total), k), -jnp.inf, jnp.float32),
        jnp.full((len(total), k), -1, jnp.int32),
    )
    _, scores, ids = lax.while_loop(
        lambda state: state[0] < jnp.max(total), step, (jnp.int32(0), *empty)
    )
    return scores, ids


def rescore(memory: MemoryArrays, entity_table, queries: Queries, topics: TopicSet, entry_rows):
    """Scores, with gradients, of the entries `entry_rows` [B, k] (-1 unused) of queries' topics."""
    rows = jnp.maximum(entry_rows, 0)
    number = jnp.argmax(topics.entities[:, None, :] == memory.topic[rows][:, :, None], axis=-1)
    shared = _topic_scores(queries.entity, topics.entities, entity_table, topics.log_weights)
    return _relation_scores(queries.relation, rows, memory.relations) + jnp.take_along_axis(
        shared, number, axis=1
    )


def weigh(queries: Queries, scores, entry_rows, targets) -> Followed:
    """The weights of kept entries and their targets, all [B, k]; NaN if a query is not finite."""
    beta = masked_softmax(scores, entry_rows >= 0)
    entities, weights = aggregate(targets, beta)
    finite = jnp.isfinite(queries.entity).all(axis=1, keepdims=True) & jnp.isfinite(
        queries.relation
    ).all(axis=1, keepdims=True)
    bad = jnp.where(finite, 0.0, jnp.nan)
    return Followed(entities, weights + bad, entry_rows, beta + bad)


def follow(
    memory: MemoryArrays,
    entity_table,
    queries: Queries,
    topics: TopicSet,
    k: int,
    block: int = BLOCK,
) -> Followed:
    """One hop from weighted topics to weighted targets; see `top_k`, with gradient by `rescore`."""
    _, entry_rows = top_k(memory, entity_table, queries, topics, k, block)
    scores = rescore(memory, entity_table, queries, topics, entry_rows)
    targets = jnp.where(entry_rows >= 0, memory.target[jnp.maximum(entry_rows, 0)], -1)
    return weigh(queries, scores, entry_rows, targets)


def aggregate(targets, beta):
    """Adds up the weights `beta` of equal targets, both [B, k], -1 in unused slots, on devices.

    Returns entities [B, k] int32 and weights [B, k] float32, sorted as in `Followed`, with gradient
    to beta. InputError: k is too large for the number of queries.
    """
    count, k = targets.shape
    if count * k * k > MAX_PAIRS:
        most = math.isqrt(MAX_PAIRS // count)
        raise InputError(
            f'k={k} for {count} queries would take {count * k * k >> 30} GiB: k can be {most}, or '
            'ask fewer at a time'
        )
    # All pairs of slots: k is small, and on an accelerator k^2 comparisons cost less than a sort
    # and a scatter.
    same = (targets[:, :, None] == targets[:, None, :]) & (targets >= 0)[:, None, :]
    weights = jnp.sum(jnp.where(same, beta[:, None, :], 0.0), axis=-1)
    earlier = jnp.tril(jnp.ones((targets.shape[1],) * 2, bool), -1)
    keep = (targets >= 0) & ~jnp.any(same & earlier, axis=-1)

    entities = jnp.where(keep, targets, -1)
    weights = jnp.where(keep, weights, 0.0)
    falling = jnp.where(keep, -lax.stop_gradient(weights), jnp.inf)
    places = jnp.broadcast_to(jnp.arange(targets.shape[1], dtype=jnp.int32), targets.shape)
    _, entities, places = lax.sort((falling, entities, places), num_keys=2)
    return entities, jnp.take_along_axis(weights, places, axis=1)
