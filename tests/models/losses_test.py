"""The losses of pretraining and alignment against slow float64 references, row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from opql_jax.models import losses
from opql_jax.parallel.entity_table import Layout
from opql_jax.parallel.mesh import make_mesh

relation_loss, label_loss = jax.jit(losses.relation_loss), jax.jit(losses.label_loss)
alignment_loss = jax.jit(losses.alignment_loss, static_argnums=6)
MESH = make_mesh(1)


@jax.jit
def entity_loss(mentions, entities, table):
    return losses.entity_loss(mentions, entities, table, Layout(MESH, len(table)))


def slow_relation_loss(relations, topic, target, anchor):
    """(loss, accuracy): each anchor looks for the other mentions of its pair among all."""
    relations, losses, right = np.asarray(relations, np.float64), [], []
    rows = [i for i in range(len(topic)) if topic[i] >= 0]
    for i in rows:
        others = [j for j in rows if j != i]
        same = [topic[j] == topic[i] and target[j] == target[i] for j in others]
        if anchor[i] and any(same):
            log_probs = log_softmax(relations[others] @ relations[i])
            losses.append(-np.mean(log_probs[same]))
            right.append(same[int(np.argmax(log_probs))])
    return np.mean(losses or [0]), np.mean(right or [0])


def slow_choice(queries, keys, allowed, positive):
    """(loss, accuracy): each query [n, d] looks for a positive key among those allowed [n, m]."""
    asked = (allowed & positive).any(axis=1)
    scores = np.where(allowed, np.float64(queries) @ np.float64(keys).T, -np.inf)[asked]
    mass = np.where(positive[asked], softmax(scores, axis=1), 0).sum(axis=1)
    right = positive[asked, scores.argmax(axis=1)]
    return (-np.log(mass).mean(), right.mean()) if asked.any() else (0.0, 0.0)


def slow_alignment_loss(questions, question_topic, answers, relations, topic, target, facts=0.0):
    """Each question looks for an answer among the mentions of its topic, if not all answer it."""
    own = (topic == question_topic[:, None]) & (topic >= 0)
    right = (target[None, :, None] == answers[:, None]).any(axis=-1) & (target >= 0)
    contested = (own & right).any(axis=1) & (own & ~right).any(axis=1)
    loss, accuracy = slow_choice(questions, relations, own & contested[:, None], right)
    scores, above, below = np.float64(questions) @ np.float64(relations).T, [], []
    for q in np.flatnonzero((own & right).any(axis=1)):
        above.append(np.log1p(np.exp(4 - scores[q, own[q] & right[q]])).mean())
        if contested[q]:
            below.append(np.log1p(np.exp(scores[q, own[q] & ~right[q]] - 4)).mean())
    return loss + facts * (np.mean(above or [0]) + np.mean(below or [0])), accuracy


def slow_label_loss(questions, question_label, relations, label):
    """Each question looks for a pair of its label among all pairs."""
    wanted = (label == question_label[:, None]) & (label >= 0)
    return slow_choice(questions, relations, (label > -2) & np.ones_like(wanted), wanted)


def slow_entity_loss(mentions, entities, table):
    """Each mention looks for its entity among all."""
    right = entities.reshape(-1, 1) == np.arange(len(table))
    return slow_choice(mentions.reshape(len(right), -1), table, np.ones_like(right), right)


def batch_of_pairs(rng, n=24, entities=3):
    """Few entities, so that pairs repeat; the last rows are padding with anything in them."""
    relations = rng.normal(size=(n, 6)).astype(np.float32)
    topic, target = rng.integers(0, entities, (2, n)).astype(np.int32)
    anchor = rng.random(n) < 0.6
    topic[-5:] = target[-5:] = -1
    return relations, topic, target, anchor


def batch_of_questions(rng, facts):
    relations, topic, target, _ = batch_of_pairs(rng, entities=5)
    questions = rng.normal(size=(12, 6)).astype(np.float32)
    question_topic = rng.integers(-1, 5, 12).astype(np.int32)
    answers = rng.integers(-1, 5, (12, 3)).astype(np.int32)
    return questions, question_topic, answers, relations, topic, target, facts


def batch_of_labels(rng):
    """Some questions and pairs have no label, some labels no pair; pairs of -2 are padding."""
    questions, relations = (rng.normal(size=(n, 6)).astype(np.float32) for n in (9, 14))
    draw = lambda low, n: rng.integers(low, 5, n).astype(np.int32)
    question_label, label = draw(-1, 9), draw(-2, 14)
    return questions, question_label, relations, label


def batch_of_mentions(rng):
    mentions, table = (rng.normal(size=size).astype(np.float32) for size in ((7, 4, 5), (9, 5)))
    return mentions, rng.integers(-1, 9, (7, 4)).astype(np.int32), table


@pytest.mark.parametrize('seed', range(5))
@pytest.mark.parametrize(
    ('loss', 'slow', 'draw', 'given'),
    [
        (relation_loss, slow_relation_loss, batch_of_pairs, ()),
        *((alignment_loss, slow_alignment_loss, batch_of_questions, (x,)) for x in (0.0, 2.5)),
        (label_loss, slow_label_loss, batch_of_labels, ()),
        (entity_loss, slow_entity_loss, batch_of_mentions, ()),
    ],
)
def test_a_loss_and_its_accuracy_are_the_reference(loss, slow, draw, given, seed):
    batch = draw(np.random.default_rng(seed), *given)
    np.testing.assert_allclose(loss(*batch), slow(*batch), rtol=1e-5)


@pytest.mark.parametrize('loss', [
    lambda r: relation_loss(r, jnp.arange(4), jnp.arange(4), jnp.ones(4, bool)),  # no pair twice
    # Nothing but padding.
    lambda r: relation_loss(r, jnp.full(4, -1), jnp.full(4, -1), jnp.ones(4, bool)),
    lambda r: alignment_loss(r, jnp.arange(4), jnp.full((4, 2), 9), r, jnp.arange(4),
        jnp.arange(4)),
    lambda r: alignment_loss(r, jnp.full(4, -1), jnp.full((4, 2), -1), r, jnp.full(4, -1),
        jnp.full(4, -1)),
    lambda r: alignment_loss(r, jnp.arange(4), jnp.full((4, 2), 9), r, jnp.arange(4), jnp.arange(4),
        1.0),
    lambda r: label_loss(r, jnp.array([-1, 7, 7, -1]), r, jnp.arange(4)),
    lambda r: entity_loss(r, jnp.full(4, -1), jnp.ones((5, 3))),
])  # fmt: skip
def test_without_positives_the_loss_is_zero_with_zero_gradient(loss):
    relations = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3)), jnp.float32)
    value, gradient = jax.value_and_grad(lambda r: loss(r)[0])(relations)
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros((4, 3)))


def test_bfloat16_relations_are_compared_in_float32():
    relations, topic, target, anchor = batch_of_pairs(np.random.default_rng(3))
    low = jnp.asarray(relations, jnp.bfloat16)
    loss, _ = relation_loss(low, topic, target, anchor)
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(
        loss, slow_relation_loss(low.astype(np.float32), topic, target, anchor)[0], rtol=1e-5
    )
