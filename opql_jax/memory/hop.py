"""The arithmetic of a hop over memory entries, shared by all code that hops.

A hop takes topics of weights alpha to the targets of their entries:

    logit_i   = score_i + log alpha(topic_i)
    beta      = softmax over the entries that are kept
    weight(y) = sum of beta_i over entries with target y

Trained models score by products with queries, among the entries of known topics (`follow`) or in
the whole memory (`search`). Plain text is scored by `models.question_map`: on the host to answer
questions and to evaluate sets, on devices where a map or a set is trained.
"""

import numpy as np

# Smallest topic weight told apart from zero. Its logarithm is finite, so that a topic whose weight
# underflows keeps a place in X and no gradient becomes infinite.
MIN_WEIGHT = 1e-30


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


def by_target(
    targets: np.ndarray, masses: np.ndarray, combine: np.ufunc = np.add
) -> tuple[np.ndarray, np.ndarray]:
    """`follow.aggregate` of one query on the host: distinct targets, and weights float32.

    `combine` makes the weight of a target of the masses [k] of its entries: np.add or np.maximum.
    """
    entities, which = np.unique(targets, return_inverse=True)
    weights = np.zeros(len(entities))
    combine.at(weights, which, masses)
    weights = weights.astype(np.float32)
    order = np.lexsort((entities, -weights))
    return entities[order], weights[order]
