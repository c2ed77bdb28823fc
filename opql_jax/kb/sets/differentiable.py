"""Queries as functions with gradients: a set's weights by the relations that it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.kb.sets import query as tree
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.memory.hop import log_weights, masked_softmax

Params = dict[str, jax.Array]

_OPERATORS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    '&': jnp.minimum,
    '|': jnp.maximum,
    '-': lambda a, b: jax.nn.relu(a - b),
}


class DifferentiableSet(NamedTuple):
    """A set as a pure function of the followed relations, `params`, [d_r] float32, by wording.

    It gives the weights [n] float32 of `entities`, rising ids of all that the query met. As in
    training (paper §3), what a hop keeps was chosen without gradient, by `params` as they are here.
    """

    function: Callable[[Params], jax.Array]
    params: Params
    entities: np.ndarray


def differentiable(sets: SetEvaluator, query: tree.Query) -> DifferentiableSet:
    """The function that a query is; at its `params` the weights are those of the set."""
    met = np.unique(np.concatenate([sets.evaluate(part).entities for part in _all(query)]))
    followed = (part.relation for part in _all(query) if isinstance(part, tree.Follow))
    params = {words: jnp.asarray(sets.relation(words)) for words in dict.fromkeys(followed)}
    return DifferentiableSet(jax.jit(_function(sets, query, met)), params, met)


def _all(query: tree.Query) -> list[tree.Query]:
    return [query, *(inner for part in query.parts for inner in _all(part))]


def _function(sets: SetEvaluator, query: tree.Query, met: np.ndarray):
    """The weights [n] of the entities that were met, as a function of parameters."""
    found = sets.evaluate(query)
    if isinstance(query, tree.Entity):
        weights = jnp.asarray(met == found.entities[0], jnp.float32)
        return lambda params: weights
    parts = [_function(sets, part, met) for part in query.parts]
    if isinstance(query, tree.Combined):
        combine, (left, right) = _OPERATORS[query.operator], parts
        return lambda params: combine(left(params), right(params))
    (start,) = parts
    if not isinstance(query, tree.Follow):
        kept = jnp.asarray(np.isin(met, found.entities), jnp.float32)  # where and top choose
        return lambda params: start(params) * kept
    if (entries := found.entries) is None:
        return lambda params: jnp.zeros(len(met))
    question_map, relations = sets.answerer.map, sets.answerer.entry_relations(entries.rows)
    first = np.searchsorted(met, sets.evaluate(query.start).entities)[entries.topic]
    last = np.searchsorted(met, entries.ends)

    def follow(params: Params) -> jax.Array:
        weights = start(params)
        cosines, prior = relations @ params[query.relation], log_weights(weights)[first]
        logits = question_map.logits(cosines, entries.added, prior)
        best = jnp.zeros(len(met)).at[last].max(masked_softmax(logits))
        return best / jnp.maximum(best.max(), 1e-30) * weights.max()

    return follow
