"""What topics that ask the memory side by side agree on (paper section 3.3, conjunctions)."""

import math

import jax
import jax.numpy as jnp

from opql_jax.models.losses import MASKED

# The mass that a topic gives to a target it did not find, since only the best entries are seen.
_UNSEEN = 1e-3


def agree(log_probs, targets, used):
    """The answer of topics that each asked for it, as one distribution over null and the entries of all.

    Each topic draws an entry or null from its own softmax; given is that those that drew entries drew the same target y:

        P(y) ~ prod_t (p_t(y) + lambda_t) - prod_t lambda_t,        P(null) ~ prod_t lambda_t,

    where p_t(y) is the mass of topic t's entries with that target; of several topics lambda_t + _UNSEEN stands for lambda_t in
    P(y). So a topic that found nothing restricts nothing, and the distribution of a topic alone stays as it is. The entries of a target share P(y) in proportion to their own masses.

    Args:
        log_probs: [n, T, 1 + K] float32, of null and of the entries of each topic; very negative in unused slots.
        targets: [n, T, K] int32, of the entries; -1 in unused slots.
        used: [n, T] bool, topics there are; without any, null has all the mass.

    Returns:
        (log_probs [n, 1 + K T], targets [n, K T]): null, the first entries of all topics, the second ones, and so on; the targets
        of topics that are not there are -1.
    """
    n, places, count = targets.shape
    targets = jnp.where(used[:, :, None], targets, -1)
    null = jnp.where(used, log_probs[:, :, 0], 0.0)
    own = jnp.where(used[:, :, None], log_probs[:, :, 1:], MASKED)
    flat = lambda x: x.transpose(0, 2, 1).reshape(n, count * places)
    target = flat(targets)
    same = (targets[:, None] == target[:, :, None, None]) & (targets >= 0)[:, None]
    mass = jax.nn.logsumexp(jnp.where(same, own[:, None], MASKED), axis=3)  # [n, K T, T]
    several = used.sum(axis=1, keepdims=True) > 1
    free = jnp.where(several & used, jnp.logaddexp(null, math.log(_UNSEEN)), null)
    # prod (p + l) - prod l, term by term: the difference of the products would lose small masses.
    some, none = jnp.full(target.shape, MASKED), jnp.zeros((n, 1))
    for topic in range(places):
        here, other = mass[:, :, topic], free[:, topic, None]
        some = jnp.logaddexp(some + jnp.logaddexp(here, other), none + here)
        none = none + other
    share = flat(own) - jax.nn.logsumexp(mass, axis=2)
    entries = jnp.where(target >= 0, some + share, MASKED)
    return jax.nn.log_softmax(jnp.concatenate([null.sum(axis=1, keepdims=True), entries], axis=1)), target
