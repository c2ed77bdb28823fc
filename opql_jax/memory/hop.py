"""The arithmetic of a hop over memory entries, shared by all code that hops.

A hop takes topics of weights alpha to the targets of their entries:

    logit_i   = score_i + log alpha(topic_i)
    beta      = softmax over the entries that are kept
    weight(y) = sum of beta_i over entries with target y

Hops differ in what a score is and in how the best entries are found. Trained models score by
products with queries, among the entries of known topics (`follow`) or in the whole memory
(`search`), on devices. Plain text is scored by `models.question_map`: on the host to answer
questions and to evaluate sets, on devices where a map or a set is trained.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

from opql_jax.core.errors import InputError

# Smallest topic weight told apart from zero. Its logarithm is finite, so that a topic whose weight
# underflows keeps a place in X and no gradient becomes infinite.
MIN_WEIGHT = 1e-30

# Pairs of targets that are compared at a time, a byte each.
MAX_PAIRS = 1 << 30


def log_weights(weights):
    """Logarithm of weights (NumPy's or JAX's), it and its gradient finite where they are 0."""
    xp = weights.__array_namespace__()
    return xp.log(xp.maximum(weights, MIN_WEIGHT))


def masked_softmax(logits, valid=True):
    """Softmax over valid places of the last axis, 0 elsewhere and (with gradient 0) if none is."""
    xp = logits.__array_namespace__()
    peak = xp.max(xp.where(valid, logits, -xp.inf), axis=-1, keepdims=True)
    peak = xp.where(xp.isfinite(peak), peak, 0.0)
    mass = xp.where(valid, xp.exp(xp.where(valid, logits - peak, 0.0)), 0.0)
    total = xp.sum(mass, axis=-1, keepdims=True)
    return mass / xp.where(total > 0, total, 1.0)


def aggregate(targets, beta):
    """Adds up the weights `beta` of equal targets, both [B, k], -1 in unused slots, on devices.

    Returns entities [B, k] int32 and weights [B, k] float32, sorted as in `follow.Followed`, with
    gradient to beta. InputError: k is too large for the number of queries.
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


def by_target(
    targets: np.ndarray, masses: np.ndarray, combine: np.ufunc = np.add
) -> tuple[np.ndarray, np.ndarray]:
    """`aggregate` of one query on the host: distinct targets, and weights float32.

    `combine` makes the weight of a target of the masses [k] of its entries: their sum, or, with
    np.maximum, the largest.
    """
    entities, which = np.unique(targets, return_inverse=True)
    weights = np.zeros(len(entities))
    combine.at(weights, which, masses)
    weights = weights.astype(np.float32)
    order = np.lexsort((entities, -weights))
    return entities[order], weights[order]
