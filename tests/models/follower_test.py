"""The follower: hops chained over a hand-made knowledge base, the folded W_k, and the loss."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.memory.follow import MemoryArrays
from opql_jax.models.follower import Follower, follow_loss

NOLAN, INCEPTION, DUNKIRK, HARDY, CAINE, LONDON = range(6)
DIRECTED, STARS, BORN = np.eye(3, dtype=np.float32) * 8
FACTS = [
    (NOLAN, INCEPTION, DIRECTED), (NOLAN, DUNKIRK, DIRECTED), (NOLAN, LONDON, BORN),
    (INCEPTION, HARDY, STARS), (INCEPTION, CAINE, STARS), (INCEPTION, NOLAN, DIRECTED),
    (DUNKIRK, HARDY, STARS), (DUNKIRK, NOLAN, DIRECTED),
    (HARDY, LONDON, BORN), (CAINE, LONDON, BORN), (HARDY, INCEPTION, STARS),
]  # fmt: skip
DIM_E, DIM_R, ENTITIES = 2, 3, 7


@pytest.fixture
def kb():
    facts = sorted(FACTS, key=lambda fact: fact[:2])
    topic = np.array([fact[0] for fact in facts], np.int32)
    target = np.array([fact[1] for fact in facts], np.int32)
    offsets = np.searchsorted(topic, np.arange(ENTITIES + 1)).astype(np.int32)
    arrays = MemoryArrays(topic, target, np.stack([fact[2] for fact in facts]), offsets)
    table = np.random.default_rng(0).normal(size=(ENTITIES, DIM_E)).astype(np.float32) * 0.1
    return jax.tree.map(jnp.asarray, arrays), jnp.asarray(table)


def make(params=None):
    follower = Follower(relation_dim=DIM_R, entity_dim=DIM_E)
    return follower, params or follower_params()


def follower_params(noise=0.0):
    rng = np.random.default_rng(1)
    dim = DIM_E + DIM_R
    shapes = {'w_q': (dim, dim), 'w_k': (dim, dim), 'w_t': (3, DIM_R, DIM_R)}
    return {
        name: jnp.asarray(np.eye(s[-1]) + noise * rng.normal(size=s), jnp.float32)
        for name, s in shapes.items()
    }


@functools.partial(jax.jit, static_argnums=(0, 4, 7, 8))
def _apply(follower, params, relation, topics, hops, memory, table, k, exclude_topic):
    return follower.apply(
        {'params': params},
        relation,
        topics,
        hops=hops,
        memory=memory,
        entity_table=table,
        k=k,
        exclude_topic=exclude_topic,
    )


def run(follower, params, relation, topics, hops, kb, k=8, exclude_topic=False):
    memory, table = kb
    return _apply(follower, params, relation, topics, hops, memory, table, k, exclude_topic)


def test_folded_key_projection_equals_projected_keys(kb):
    follower, params = make(follower_params(0.3))
    memory, table = kb
    relation = np.array([1.0, -0.5, 0.7], np.float32)
    (hop,) = run(follower, params, jnp.asarray(relation)[None], jnp.array([NOLAN]), 1, kb)
    w_q, w_k, w_t = (np.asarray(params[name], np.float64) for name in ('w_q', 'w_k', 'w_t'))
    rows = np.flatnonzero(np.asarray(memory.topic) == NOLAN)
    keys = np.stack([w_k.T @ np.concatenate([table[NOLAN], memory.relations[i]]) for i in rows])
    scores = keys @ (w_q.T @ np.concatenate([table[NOLAN], w_t[0].T @ relation]))
    order = np.argsort(-scores)
    np.testing.assert_array_equal(hop.entry_rows[0, : len(rows)], rows[order])
    np.testing.assert_allclose(
        hop.beta[0, : len(rows)], np.exp(scores[order]) / np.exp(scores).sum(), rtol=1e-4
    )


def dense_answer(params, relation, topic, hops, memory, table, weigh_topics=True):
    """The same model over whole arrays: X is a dense vector of weights over all entities."""
    x = jax.nn.one_hot(topic, ENTITIES)
    for hop in range(hops):
        q = jnp.concatenate([x @ table, relation @ params['w_t'][hop]]) @ params['w_q']
        keys = jnp.concatenate([table[memory.topic], memory.relations], 1) @ params['w_k']
        alpha = x[memory.topic]
        weight = jnp.log(jnp.where(alpha > 0, alpha, 1.0)) if weigh_topics else 0.0
        scores = jnp.where(alpha > 0, keys @ q + weight, -1e9)
        beta = jax.nn.softmax(scores)
        x = jnp.zeros(ENTITIES).at[memory.target].add(jnp.where(alpha > 0, beta, 0.0))
    return x


@pytest.mark.parametrize('weigh_topics', [True, False])
def test_gradients_of_three_hops_equal_the_dense_model(kb, weigh_topics):
    """A loss at the last hop trains W_q, W_k, all W_t and the question's relation through
    every hop.
    """
    memory, table = kb[0], 10 * kb[1]  # so that centroids differ
    follower, params = Follower(DIM_R, DIM_E, weigh_topics=weigh_topics), follower_params(0.1)
    relation = jnp.array([0.2, 0.3, -0.2])

    def sparse_loss(params, relation, table):
        found = run(
            follower, params, relation[None], jnp.array([NOLAN]), 3, (memory, table), k=len(FACTS)
        )
        return follow_loss(found[-1].entities, found[-1].weights, jnp.array([[CAINE, INCEPTION]]))[
            0
        ]

    def dense_loss(params, relation, table):
        x = dense_answer(params, relation, NOLAN, 3, memory, table, weigh_topics)
        return -jnp.log(x[CAINE] + x[INCEPTION])

    got = jax.jit(jax.value_and_grad(sparse_loss, argnums=(0, 1, 2)))(params, relation, table)
    want = jax.jit(jax.value_and_grad(dense_loss, argnums=(0, 1, 2)))(params, relation, table)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-6), got, want)
    assert all(np.abs(hop).max() > 1e-3 for hop in got[1][0]['w_t'])


def test_loss_is_minus_log_of_the_mass_on_the_answers():
    entities = jnp.array([[3, 5, -1], [4, 1, 2], [-1, -1, -1], [2, -1, -1]])
    weights = jnp.array([[0.75, 0.25, 0], [0.5, 0.3, 0.2], [0, 0, 0], [1.0, 0, 0]])
    # The first two are reached, the third is not, the fourth is padding.
    answers = jnp.array([[5, -1], [2, 4], [1, -1], [-1, -1]])
    loss, metrics = follow_loss(entities, weights, answers)
    np.testing.assert_allclose(loss, -(np.log(0.25) + np.log(0.7)) / 2, rtol=1e-6)
    np.testing.assert_allclose(metrics['reachable'], 2 / 3, rtol=1e-6)


def test_loss_without_reachable_answers_is_zero_with_zero_gradient():
    entities, answers = jnp.array([[3, -1]]), jnp.array([[4, -1]])
    value, gradient = jax.value_and_grad(lambda w: follow_loss(entities, w, answers)[0])(
        jnp.array([[1.0, 0.0]])
    )
    assert value == 0
    np.testing.assert_array_equal(gradient, [[0, 0]])


def test_nan_weights_show_in_the_loss():
    loss, _ = follow_loss(jnp.array([[3]]), jnp.array([[jnp.nan]]), jnp.array([[3]]))
    assert np.isnan(loss)


def walk(params, relation, topic, hops, memory, table):
    """Follows entry by entry in float64 and never steps on the topic again: {entity: weight} after
    each hop.
    """
    w_q, w_k, w_t = (np.asarray(params[name], np.float64) for name in ('w_q', 'w_k', 'w_t'))
    table, found, x = np.asarray(table, np.float64), [], {topic: 1.0}
    for hop in range(hops):
        centroid = sum(weight * table[entity] for entity, weight in x.items())
        query = w_q.T @ np.concatenate([centroid, w_t[hop].T @ relation])
        masses = {}
        for entry_topic, target, r in zip(*(np.asarray(a) for a in memory[:3])):
            if (weight := x.get(int(entry_topic), 0)) > 0:
                key = w_k.T @ np.concatenate([table[entry_topic], r])
                masses[int(target)] = masses.get(int(target), 0) + weight * np.exp(key @ query)
        masses.pop(topic, None)
        total = sum(masses.values())
        x = {entity: mass / total for entity, mass in masses.items()}
        found.append(x)
    return found


@pytest.mark.parametrize('topic', [NOLAN, INCEPTION, HARDY])
def test_a_path_that_excludes_its_topic_is_the_walk_that_never_returns(kb, topic):
    memory, table = kb
    follower, params = make(follower_params(0.1))
    relation = np.array([0.2, 0.3, -0.2], np.float32)
    hops = run(
        follower,
        params,
        jnp.asarray(relation)[None],
        jnp.array([topic]),
        3,
        kb,
        k=len(FACTS),
        exclude_topic=True,
    )
    for hop, want in zip(hops, walk(params, relation, topic, 3, memory, table), strict=True):
        got = {int(e): float(w) for e, w in zip(hop.entities[0], hop.weights[0]) if e >= 0}
        assert topic not in got and got.keys() == want.keys()
        np.testing.assert_allclose([got[e] for e in want], list(want.values()), rtol=1e-4)


def test_an_excluded_topic_takes_no_place_among_the_kept(kb):
    """With k=1, what leads back to the topic would push out the only other entry."""
    memory, table = kb
    follower, params = make()
    back, on = (
        np.flatnonzero((memory.topic == HARDY) & (memory.target == end))[0]
        for end in (INCEPTION, LONDON)
    )
    asked = jnp.asarray(memory.relations[back] + 0.5 * memory.relations[on])[None]
    (free,) = run(follower, params, asked, jnp.array([HARDY]), 1, kb, k=1)
    assert free.entry_rows[0, 0] == back
    # A first hop without preference: ties go to the lowest id.
    params = params | {'w_t': params['w_t'].at[0].set(0.0)}
    hops = run(follower, params, asked, jnp.array([INCEPTION]), 2, kb, k=1, exclude_topic=True)
    for hop in hops:
        assert hop.entities[0, 0] not in (-1, INCEPTION) and hop.weights[0, 0] == 1


def test_more_hops_than_there_are_and_sets_without_a_topic_are_refused(kb):
    follower, params = make()
    relation, topics = jnp.ones((1, DIM_R)), jnp.array([NOLAN])
    with pytest.raises(ValueError, match=r'hops=4 is not in 1\.\.3'):
        run(follower, params, relation, topics, 4, kb)
    with pytest.raises(ValueError, match='exclude_topic needs one topic a question'):
        run(follower, params, relation, (topics[None], jnp.ones((1, 1))), 1, kb, exclude_topic=True)
