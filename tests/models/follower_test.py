"""The follower against a search that scores every entry in every hop, and the loss."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.memory.follow import MemoryArrays
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.follower import Follower, follow_loss
from opql_jax.parallel.mesh import make_mesh

D_E, D_R, ENTITIES, ROWS, K = 5, 7, 12, 90, 6
RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.normal(size=shape).astype(np.float32)


TOPIC = np.sort(RNG.integers(0, ENTITIES, ROWS)).astype(np.int32)
TARGET = RNG.integers(0, ENTITIES, ROWS).astype(np.int32)
RELATIONS, TABLE = draw(ROWS, D_R), draw(ENTITIES, D_E)
ASKED, STARTS = draw(3, D_R), np.array([2, 7, 5], np.int32)
SIZES = ('w_q', D_E + D_R, ()), ('w_k', D_E + D_R, ()), ('w_t', D_R, (3,))
near = lambda size, *more: np.eye(size, dtype=np.float32) + 0.2 * draw(*more, size, size)
PARAMS = {name: near(size, *more) for name, size, more in SIZES}


def memory(filter):
    """The entries; without filter as a memory of which every hop searches all rows."""
    if not filter:
        return shard_memory(TOPIC, TARGET, RELATIONS, make_mesh(1))
    offsets = np.searchsorted(TOPIC, np.arange(ENTITIES + 1)).astype(np.int32)
    return jax.tree.map(jnp.asarray, MemoryArrays(TOPIC, TARGET, RELATIONS, offsets))


@functools.partial(jax.jit, static_argnames=('hops', 'exclude_topic', 'weigh_topics'))
def follow(params, asked, table, starts, memory, hops, exclude_topic, weigh_topics=True):
    follower = Follower(D_R, D_E, weigh_topics=weigh_topics)
    given = dict(hops=hops, memory=memory, entity_table=table, k=K, exclude_topic=exclude_topic)
    return follower.apply({'params': params}, asked, starts, **given)


def reference(params, relation, table, start, hops, filter, exclude_topic, weigh_topics):
    """Per hop the K best of all entries, and the weights [ENTITIES] of their targets."""
    x, found = jax.nn.one_hot(start, ENTITIES), []
    keys = jnp.concatenate([table[TOPIC], RELATIONS], axis=1) @ params['w_k']
    for hop in range(hops):
        query = jnp.concatenate([x @ table, relation @ params['w_t'][hop]]) @ params['w_q']
        scores, alpha = keys @ query, x[TOPIC]
        if filter:
            weighed = scores + jnp.log(jnp.where(alpha > 0, alpha, 1.0)) * weigh_topics
            scores = jnp.where(alpha > 0, weighed, -jnp.inf)
        if exclude_topic:
            scores = jnp.where(TARGET == start, -jnp.inf, scores)
        best = jnp.argsort(-scores, stable=True)[:K]
        x = jnp.zeros(ENTITIES).at[jnp.asarray(TARGET)[best]].add(jax.nn.softmax(scores[best]))
        found.append((best, x))
    return found


@pytest.mark.parametrize(
    ('filter', 'exclude_topic', 'weigh_topics'),
    [(True, True, True), (True, False, False), (False, True, True), (False, False, True)],
)
def test_hops_and_gradients_are_those_of_a_full_search(filter, exclude_topic, weigh_topics):
    """A loss at the last hop trains all of the follower, the question's relation and E."""
    ways = dict(exclude_topic=exclude_topic, weigh_topics=weigh_topics)
    slow = jax.jit(
        lambda params, asked, table: [
            reference(params, relation, table, start, hops=3, filter=filter, **ways)
            for relation, start in zip(asked, STARTS)
        ]
    )
    entries = memory(filter)
    hops = follow(PARAMS, ASKED, TABLE, STARTS, entries, hops=3, **ways)
    expected, elsewhere, returned = slow(PARAMS, ASKED, TABLE), 0, 0
    for i, (start, of_question) in enumerate(zip(STARTS.tolist(), expected)):
        topics = {start}
        for hop, (best, x) in zip(hops, of_question, strict=True):
            kept = hop.entry_rows[i][hop.entry_rows[i] >= 0]
            assert kept.tolist() == best[: len(kept)].tolist()
            got = {int(e): float(w) for e, w in zip(hop.entities[i], hop.weights[i]) if e >= 0}
            weights = {entity: float(x[entity]) for entity in np.flatnonzero(x).tolist()}
            assert got == pytest.approx(weights, rel=1e-3, abs=1e-6)
            elsewhere += not topics >= set(TOPIC[kept].tolist())
            returned += start in got
            topics = set(got)
    assert (elsewhere == 0) == filter and (returned == 0) == exclude_topic
    # Second best.
    answers = np.array([[int(jnp.argsort(of_question[-1][1])[-2])] for of_question in expected])

    def loss(params, asked, table):
        last = follow(params, asked, table, STARTS, entries, hops=3, **ways)[-1]
        return follow_loss(last.entities, last.weights, answers)[0]

    def slow_loss(*given):
        last = [of_question[-1][1] for of_question in slow(*given)]
        return -jnp.log(jnp.stack([x[answer] for x, (answer,) in zip(last, answers)])).mean()

    graded = lambda of: jax.jit(jax.value_and_grad(of, argnums=(0, 1, 2)))(PARAMS, ASKED, TABLE)
    got, want = graded(loss), graded(slow_loss)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5), got, want)
    assert all(np.abs(hop).max() > 1e-3 for hop in got[1][0]['w_t'])


def test_loss_is_minus_log_of_the_mass_on_the_answers():
    entities = jnp.array([[3, 5, -1], [4, 1, 2], [-1, -1, -1], [2, -1, -1]])
    weights = jnp.array([[0.75, 0.25, 0], [0.5, 0.3, 0.2], [0, 0, 0], [1.0, 0, 0]])
    # The first two are reached, the third is not, the fourth is padding.
    answers = jnp.array([[5, -1], [2, 4], [1, -1], [-1, -1]])
    loss, metrics = follow_loss(entities, weights, answers)
    np.testing.assert_allclose(loss, -(np.log(0.25) + np.log(0.7)) / 2, rtol=1e-6)
    np.testing.assert_allclose(metrics['reachable'], 2 / 3, rtol=1e-6)


def test_without_reachable_answers_the_loss_is_zero_and_a_weight_that_is_nan_shows():
    loss = lambda weights: follow_loss(jnp.array([[3, -1]]), weights, jnp.array([[4, -1]]))[0]
    value, gradient = jax.value_and_grad(loss)(jnp.array([[1.0, 0.0]]))
    assert value == 0 and not gradient.any()
    loss, _ = follow_loss(jnp.array([[3]]), jnp.array([[jnp.nan]]), jnp.array([[3]]))
    assert np.isnan(loss)
