"""Mixes what topics retrieved with the model's own prediction (paper §4); distributions: ours.

The paper adds the embeddings that several topics retrieved, each with its own weight (appendix on
conjunction questions). Here their distributions are multiplied, so that an answer to "films by
Nolan with Caine" is one that both topics lead to.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from opql_jax.models.losses import MASKED, entity_loss, mean_where
from opql_jax.parallel import entity_table
from opql_jax.parallel.entity_table import Layout

# Entities that a prediction is ranked over.
NUM_ANSWERS = 10
# Mass that a topic gives to targets it did not retrieve, as only its best entries are seen.
_UNSEEN = 1e-3


class Prediction(NamedTuple):
    """Distributions over the entities y of n texts.

    P(y) = exp(log_own) softmax(E vector)_y + sum_i exp(log_weights_i) [targets_i = y].
    """

    vector: jax.Array  # [n, d_e] float32, compared with all of E
    # [n] float32, log of its share; very negative without own predictions, unless nothing was
    # retrieved.
    log_own: jax.Array
    log_weights: jax.Array  # [n, K] float32, of retrieved entries; very negative in unused slots
    targets: jax.Array  # [n, K] int32, of the entries; -1 in unused slots


def without_entries(vector) -> Prediction:
    """The prediction softmax(E vector) alone, without retrieved entries, of vectors [n, d_e]."""
    n = len(vector)
    return Prediction(vector, jnp.zeros(n), jnp.zeros((n, 0)), jnp.zeros((n, 0), jnp.int32))


def combine_topics(log_probs, targets, used):
    """The distribution over null and the entries of all topics, given one distribution per topic.

    Each topic draws an entry or null from its own softmax, on the condition that those who draw
    entries draw the same target y:

        P(y) ~ prod_t (p_t(y) + lambda_t) - prod_t lambda_t,        P(null) ~ prod_t lambda_t,

    where p_t(y) is the mass of topic t's entries with target y; with several topics, lambda_t +
    _UNSEEN stands for lambda_t in P(y). So a topic that retrieved nothing restricts nothing, and
    the distribution of a single topic is unchanged. The entries of a target share P(y) in
    proportion to their own masses.

    Takes `log_probs` [n, T, 1 + K] of null and entries, very negative in unused slots, their
    `targets` [n, T, K], -1 there, and which slots hold a topic, `used` [n, T]; without any, null
    has all the mass. Returns log_probs [n, 1 + K T] and targets [n, K T]: null, the first entries
    of all topics, their second ones and so on.
    """
    n, num_topics, k = targets.shape
    targets = jnp.where(used[:, :, None], targets, -1)
    null = jnp.where(used, log_probs[:, :, 0], 0.0)
    entries = jnp.where(used[:, :, None], log_probs[:, :, 1:], MASKED)
    flat = lambda x: x.transpose(0, 2, 1).reshape(n, k * num_topics)
    target = flat(targets)
    same_target = (targets[:, None] == target[:, :, None, None]) & (targets >= 0)[:, None]
    # Log p_t(y), [n, K T, T].
    p = jax.nn.logsumexp(jnp.where(same_target, entries[:, None], MASKED), axis=3)
    several = used.sum(axis=1, keepdims=True) > 1
    # Log lambda_t of P(y).
    free = jnp.where(several & used, jnp.logaddexp(null, math.log(_UNSEEN)), null)
    # prod (p + l) - prod l, term by term: the difference of the two products would lose small
    # masses.
    difference, product = jnp.full(target.shape, MASKED), jnp.zeros((n, 1))
    for topic in range(num_topics):
        p_t, free_t = p[:, :, topic], free[:, topic, None]
        difference = jnp.logaddexp(difference + jnp.logaddexp(p_t, free_t), product + p_t)
        product = product + free_t
    share = flat(entries) - jax.nn.logsumexp(p, axis=2)
    combined = jnp.where(target >= 0, difference + share, MASKED)
    return jax.nn.log_softmax(
        jnp.concatenate([null.sum(axis=1, keepdims=True), combined], axis=1)
    ), target


def _mixed(prediction: Prediction, entities, log_probs):
    """log P of entities [n, C], where `log_probs` [n, C] are log softmax(E vector)."""
    _, log_own, log_weights, targets = prediction
    same = (targets[:, None, :] == entities[:, :, None]) & (targets >= 0)[:, None, :]
    log_found = jax.nn.logsumexp(jnp.where(same, log_weights[:, None, :], MASKED), axis=2)
    return jnp.logaddexp(log_own[:, None] + log_probs, log_found)


def prediction_loss(prediction: Prediction, labels, answers, table, layout: Layout):
    """L_mel: the mean of -log P(all answers together); of -log P(label) if nothing was retrieved.

    A text none of whose answers has any mass is left out. Of n texts `labels` [n] int32 is one of
    the answers, -1 for none, `answers` [n, A] int32 are all, -1 in unused slots. E is placed.
    Returns the loss and the accuracy, the share of texts whose most probable entity is an answer,
    or is the label; float32 scalars over the texts with a label.
    """
    if not prediction.targets.shape[1]:
        return entity_loss(prediction.vector, labels, table, layout)
    known = labels >= 0
    best = best_entities(prediction, table, layout, 1)[0]
    accuracy = mean_where((best == labels[:, None]).any(1) | (best == answers).any(1), known)
    label_loss, _ = entity_table.softmax_cross_entropy(prediction.vector, labels, table, layout)
    right = jnp.concatenate(
        [labels[:, None], jnp.where(answers == labels[:, None], -1, answers)], axis=1
    )
    scores = entity_table.row_scores(prediction.vector, right, table, layout.mesh)
    # Log softmax(E vector) of each.
    log_right = jnp.where(right >= 0, scores - scores[:, :1] - label_loss[:, None], MASKED)
    log_prob = jax.nn.logsumexp(_mixed(prediction, right, log_right), axis=1)
    return mean_where(-log_prob, known & ~(log_prob < MASKED / 2)), accuracy  # NaN is counted


def best_entities(prediction: Prediction, table, layout: Layout, k: int = NUM_ANSWERS):
    """The most probable entities and probabilities, best first: [n, min(k, n_entities)]."""
    prediction, table = jax.lax.stop_gradient((prediction, table))
    vector, targets = prediction.vector, prediction.targets
    k = min(k, layout.num_entities)
    log_probs, entities = entity_table.best(vector, table, layout, k)
    if targets.shape[1]:
        # An entity can only be among the k best if it is so for the vector, or was retrieved.
        scores = entity_table.row_scores(
            vector, jnp.concatenate([entities[:, :1], targets], axis=1), table, layout.mesh
        )
        of_targets = scores[:, 1:] - scores[:, :1] + log_probs[:, :1]
        candidates = jnp.concatenate([entities, targets], axis=1)
        total = _mixed(prediction, candidates, jnp.concatenate([log_probs, of_targets], axis=1))
        earlier = jnp.tril(jnp.ones((candidates.shape[1],) * 2, bool), -1)
        repeated = ((candidates[:, :, None] == candidates[:, None, :]) & earlier).any(axis=2)
        total = jnp.where(repeated | (candidates < 0), -jnp.inf, total)
        log_probs, place = jax.lax.top_k(total, k)
        entities = jnp.take_along_axis(candidates, place, axis=1)
    return entities, jnp.exp(log_probs)
