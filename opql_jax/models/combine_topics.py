"""Combines what several topics of one text retrieved into one distribution (paper, appendix on conjunction questions).

The paper adds the embeddings that the topics retrieved, each with its own weight. Here the topics' distributions are multiplied,
so that an answer to "films by Nolan with Caine" is one that both topics lead to.
"""

import math

import jax
import jax.numpy as jnp

from opql_jax.models.losses import MASKED

# Mass that a topic gives to a target that it did not retrieve, since only the best entries are seen.
_UNSEEN = 1e-3


def combine_topics(log_probs, targets, used):
    """The distribution over null and the entries of all topics, given one distribution per topic.

    Each topic draws an entry or null from its own softmax, on the condition that those who draw entries draw the same target y:

        P(y) ~ prod_t (p_t(y) + lambda_t) - prod_t lambda_t,        P(null) ~ prod_t lambda_t,

    where p_t(y) is the mass of topic t's entries with target y; with several topics, lambda_t + _UNSEEN stands for lambda_t in P(y).
    So a topic that retrieved nothing restricts nothing, and the distribution of a single topic is unchanged. The entries of a
    target share P(y) in proportion to their own masses.

    Args:
        log_probs: [n, T, 1 + K] float32, of null and of the entries of each topic; very negative in unused slots.
        targets: [n, T, K] int32, of the entries; -1 in unused slots.
        used: [n, T] bool, which slots hold a topic; without any, null has all the mass.

    Returns:
        log_probs [n, 1 + K T] and targets [n, K T]: null, the first entries of all topics, their second entries, and so on; the
        targets of slots without a topic are -1.
    """
    n, num_topics, k = targets.shape
    targets = jnp.where(used[:, :, None], targets, -1)
    null = jnp.where(used, log_probs[:, :, 0], 0.0)
    entries = jnp.where(used[:, :, None], log_probs[:, :, 1:], MASKED)
    flat = lambda x: x.transpose(0, 2, 1).reshape(n, k * num_topics)
    target = flat(targets)
    same_target = (targets[:, None] == target[:, :, None, None]) & (targets >= 0)[:, None]
    p = jax.nn.logsumexp(jnp.where(same_target, entries[:, None], MASKED), axis=3)  # log p_t(y), [n, K T, T]
    several = used.sum(axis=1, keepdims=True) > 1
    free = jnp.where(several & used, jnp.logaddexp(null, math.log(_UNSEEN)), null)  # log lambda_t of P(y)
    # prod (p + l) - prod l, term by term: the difference of the two products would lose small masses.
    difference, product = jnp.full(target.shape, MASKED), jnp.zeros((n, 1))
    for topic in range(num_topics):
        p_t, free_t = p[:, :, topic], free[:, topic, None]
        difference = jnp.logaddexp(difference + jnp.logaddexp(p_t, free_t), product + p_t)
        product = product + free_t
    share = flat(entries) - jax.nn.logsumexp(p, axis=2)
    combined = jnp.where(target >= 0, difference + share, MASKED)
    return jax.nn.log_softmax(jnp.concatenate([null.sum(axis=1, keepdims=True), combined], axis=1)), target
