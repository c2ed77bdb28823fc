"""Relation following against a float64 reference that scores every row and masks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.memory import follow as follow_lib
from opql_jax.memory import hop as hop_lib
from opql_jax.memory.follow import MemoryArrays, Queries, TopicSet

NUM_ENTITIES, DIM_E, DIM_R = 9, 3, 4
B, K, TOP = 3, 4, 5
# One group of queries, exactly one, and several, the last of them not full.
BATCHES = [B, follow_lib.GROUP, 3 * follow_lib.GROUP - 3]


def make_memory(rng, num_rows, *, whole_numbers=False, dtype=np.float32):
    """A random memory, in which some entities have no entries, and its entity table."""
    topic = np.sort(rng.choice([0, 2, 3, 6, 8], size=num_rows)).astype(np.int32)
    target = rng.integers(0, NUM_ENTITIES, num_rows).astype(np.int32)
    draw = (lambda *s: rng.integers(-1, 2, s)) if whole_numbers else (lambda *s: rng.normal(size=s))
    offsets = np.searchsorted(topic, np.arange(NUM_ENTITIES + 1)).astype(np.int32)
    relations = draw(num_rows, DIM_R).astype(np.float32).astype(dtype)
    table = draw(NUM_ENTITIES, DIM_E).astype(np.float32)
    return MemoryArrays(topic, target, relations, offsets), table


def make_queries(rng, *, whole_numbers=False, batch=B):
    """Random queries and topic sets with unused slots anywhere; weights are not normalised."""
    draw = (lambda *s: rng.integers(-2, 3, s)) if whole_numbers else (lambda *s: rng.normal(size=s))
    topics = np.stack([rng.choice(NUM_ENTITIES, K, replace=False) for _ in range(batch)])
    topics = np.where(rng.random((batch, K)) < 0.3, -1, topics).astype(np.int32)
    log_weights = -rng.integers(0, 3, (batch, K)) if whole_numbers else rng.normal(size=(batch, K))
    query_e, query_r = draw(batch, DIM_E).astype(np.float32), draw(batch, DIM_R).astype(np.float32)
    return query_e, query_r, topics, log_weights.astype(np.float32)


def reference_scores(query_e, query_r, topics, log_weights, memory, table):
    """[B, N] float64 scores of all rows; -inf where the topic is not in X."""
    scores = np.full((len(topics), len(memory.topic)), -np.inf)
    for b, x in enumerate(topics):
        for i, topic in enumerate(memory.topic):
            if topic in x:
                alpha = float(log_weights[b, list(x).index(topic)])
                relation = np.asarray(memory.relations[i], np.float64)
                of_topic = query_e[b].astype(float) @ table[topic].astype(float)
                scores[b, i] = of_topic + query_r[b] @ relation + alpha
    return scores


@functools.partial(jax.jit, static_argnames=('k', 'block'))
def jit_topk(query_e, query_r, topics, log_weights, memory, table, k=TOP, block=4, exclude=None):
    return follow_lib.top_k(
        memory, table, Queries(query_e, query_r), TopicSet(topics, log_weights, exclude), k, block
    )


@functools.partial(jax.jit, static_argnames=('k', 'block'))
def jit_follow(query_e, query_r, topics, log_weights, memory, table, k=TOP, block=4):
    asked, start = Queries(query_e, query_r), TopicSet(topics, log_weights)
    return follow_lib.follow(memory, table, asked, start, k, block)


def padded(values, fill):
    return np.concatenate([np.asarray(values), np.full(TOP - len(values), fill)])


@given(
    seed=st.integers(0, 2**32 - 1),
    num_rows=st.sampled_from([1, 4, 30]),
    batch=st.sampled_from(BATCHES),
    excludes=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float16]),
)
def test_search_equals_the_dense_reference(seed, num_rows, batch, excludes, dtype):
    rng = np.random.default_rng(seed)
    # Whole numbers: ties are frequent and exact.
    memory, table = make_memory(rng, num_rows, whole_numbers=True, dtype=dtype)
    queries = make_queries(rng, whole_numbers=True, batch=batch)
    exclude = rng.integers(-1, NUM_ENTITIES, batch).astype(np.int32) if excludes else None
    scores, ids = jit_topk(*queries, memory, table, exclude=exclude)
    expected = reference_scores(*queries, memory, table)
    if excludes:
        expected[memory.target[None] == exclude[:, None]] = -np.inf
    for b, row in enumerate(expected):
        kept = np.argsort(-row, kind='stable')[: min(TOP, np.isfinite(row).sum())]
        np.testing.assert_array_equal(ids[b], padded(kept, -1))
        np.testing.assert_array_equal(scores[b], padded(expected[b, kept], -np.inf))


# Products with inf are NaN with a sign, where queries have both.
@pytest.mark.parametrize('value', [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize('rows', ['one', 'all'])
def test_a_row_that_is_not_finite_is_never_found(value, rows):
    rng = np.random.default_rng(2)
    memory, table = make_memory(rng, 30)
    query_e, query_r, _, _ = make_queries(rng)
    relations = np.array(memory.relations)
    bad = np.flatnonzero(memory.topic == 3)[-1]
    relations[bad if rows == 'one' else slice(None)] = value
    from_topic = np.full((B, 1), 3, np.int32), np.zeros((B, 1), np.float32)
    hop = jit_follow(query_e, query_r, *from_topic, memory._replace(relations=relations), table)
    assert not np.isin(hop.entry_rows, bad if rows == 'one' else np.arange(len(relations))).any()
    np.testing.assert_allclose(np.sum(hop.weights, axis=1), 1 if rows == 'one' else 0, rtol=1e-6)


@pytest.mark.parametrize('value', [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize('part', [0, 1])
def test_a_query_that_is_not_finite_shows_in_its_weights(part, value):
    rng = np.random.default_rng(2)
    memory, table = make_memory(rng, 30)
    queries = [np.array(query) for query in make_queries(rng)[:2]]
    queries[part][1, 0] = value
    from_topic = np.full((B, 1), 3, np.int32), np.zeros((B, 1), np.float32)
    hop = jit_follow(*queries, *from_topic, memory, table)
    for weights in (hop.weights, hop.beta):
        np.testing.assert_array_equal(np.isnan(weights).all(axis=1), np.arange(B) == 1)
        np.testing.assert_array_equal(np.isnan(weights).any(axis=1), np.arange(B) == 1)


@pytest.mark.parametrize('dtype', [np.float16, np.float32])
def test_no_copy_of_all_relations_is_made(dtype):
    rows = 100_000
    stored = jax.ShapeDtypeStruct((rows, DIM_R), dtype)
    ids = jax.ShapeDtypeStruct((rows,), np.int32)
    offsets = jax.ShapeDtypeStruct((NUM_ENTITIES + 1,), np.int32)
    table = jax.ShapeDtypeStruct((NUM_ENTITIES, DIM_E), np.float32)
    queries = make_queries(np.random.default_rng(0))
    compiled = jit_topk.lower(*queries, MemoryArrays(ids, ids, stored, offsets), table).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < rows


@pytest.mark.parametrize(
    'topics', [[[-1, -1]], [[1, 4]], [[-1, 7]]], ids=['unused', 'no entries', 'both']
)
def test_empty_set_gives_nothing_and_no_nan(topics):
    rng = np.random.default_rng(4)
    memory, table = make_memory(rng, 30)
    topics = np.array(topics, np.int32)

    def loss(query_e, query_r, log_weights):
        hop = jit_follow(query_e, query_r, topics, log_weights, memory, table)
        return jnp.sum(hop.weights**2) + jnp.sum(jnp.log(hop.beta + 1)), hop

    ones = [np.ones((1, size), np.float32) for size in (DIM_E, DIM_R)]
    ones.append(np.zeros((1, 2), np.float32))
    graded = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))
    (value, hop), gradients = graded(*ones)
    assert value == 0
    assert (hop.entities == -1).all() and (hop.entry_rows == -1).all()
    assert (hop.weights == 0).all() and (hop.beta == 0).all()
    for gradient in gradients:
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))


TARGETS = st.lists(st.integers(-1, 3), min_size=6, max_size=6)


@given(targets=TARGETS, seed=st.integers(0, 100))
def test_equal_targets_are_added_up_on_devices_as_on_the_host(targets, seed):
    beta = np.random.default_rng(seed).integers(1, 4, 6) / 8  # exact sums, hence exact ties
    targets = np.array(targets, np.int32)
    sums = {t: beta[targets == t].sum() for t in targets.tolist() if t >= 0}
    expected = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    used = targets >= 0
    entities, weights = hop_lib.by_target(targets[used], beta[used])
    assert list(zip(entities.tolist(), weights.tolist())) == expected
    entities, weights = jax.jit(follow_lib.aggregate)(targets[None], beta[None].astype(np.float32))
    expected += [(-1, 0.0)] * (6 - len(expected))
    assert list(zip(entities[0].tolist(), weights[0].tolist())) == expected


def test_underflown_weight_keeps_a_finite_logarithm_and_gradient():
    weights = np.array([0.0, 1e-38, 0.5], np.float32)
    total = lambda weights: hop_lib.log_weights(weights).sum()
    value, gradient = jax.value_and_grad(total)(jnp.asarray(weights))
    np.testing.assert_allclose(value, total(weights), rtol=1e-6)
    assert np.isfinite(value)
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 2.0])
