"""Queries as differentiable functions: a set's weights by the relations that it follows.

These can be trained by gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.kb.sets import query as tree
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.text.question_plans import Step
from opql_jax.kb.text.text_answerer import SCALE

Params = dict[str, jax.Array]

_OPERATORS: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    '&': jnp.minimum,
    '|': jnp.maximum,
    '-': lambda a, b: jax.nn.relu(a - b),
}


class DifferentiableSet(NamedTuple):
    """A set as a pure function of the followed relations, `params`, [d_r] float32, by wording.

    It gives the weights [n] float32 of `entities`, rising ids of all that the query met. It may be
    jitted, and has gradients. As in training (paper §3), what a hop keeps was chosen without
    gradient, by `params` as they are here, and is scored again.
    """

    function: Callable[[Params], jax.Array]
    params: Params
    entities: np.ndarray


def differentiable(sets: SetEvaluator, query: tree.Query) -> DifferentiableSet:
    """The function that a query is; at its `params` the weights are those of the set."""
    met = np.unique(np.concatenate([sets.evaluate(part).entities for part in _all(query)]))
    wordings = list(
        dict.fromkeys(part.relation for part in _all(query) if isinstance(part, tree.Follow))
    )
    answerer = sets.answerer
    relations = (
        answerer.map(answerer.relations([Step(f'it {wording}', (0, 2)) for wording in wordings]))
        if wordings
        else []
    )
    params = {
        wording: np.asarray(relation, np.float32) for wording, relation in zip(wordings, relations)
    }
    weigh = _function(sets, query, met, params)
    return DifferentiableSet(
        weigh, {wording: jnp.asarray(relation) for wording, relation in params.items()}, met
    )


def _all(query: tree.Query) -> list[tree.Query]:
    return [query, *(inner for part in query.parts for inner in _all(part))]


def _function(
    sets: SetEvaluator, query: tree.Query, met: np.ndarray, params: dict[str, np.ndarray]
):
    """The weights [n] of the entities that were met, as a function of parameters."""
    found = sets.evaluate(query)
    if isinstance(query, tree.Entity):
        weights = jnp.asarray(met == found.entities[0], jnp.float32)
        return lambda params: weights
    parts = [_function(sets, part, met, params) for part in query.parts]
    if isinstance(query, tree.Combined):
        combine, (left, right) = _OPERATORS[query.operator], parts
        return lambda params: combine(left(params), right(params))
    (start,) = parts
    if not isinstance(query, tree.Follow):
        kept = jnp.asarray(np.isin(met, found.entities), jnp.float32)  # where and top choose
        return lambda params: start(params) * kept
    if not len(found.rows):
        return lambda params: jnp.zeros(len(met))
    memory, wording = sets.memory, query.relation
    cosine_weight = sets.answerer.map.cosine_weight
    begins = (memory.target if query.inverse else memory.topic)[found.rows]
    first, last = np.searchsorted(met, begins), np.searchsorted(met, found.ends)
    entries = memory.relations(found.rows).astype(np.float32)
    # What is in the score besides the cosine: words of the relation.
    weight_of = dict(zip(*(column.tolist() for column in sets.evaluate(query.start)[:2])))
    prior = np.log([weight_of[begin] for begin in begins.tolist()])
    rest = (np.log(found.masses) - prior) / SCALE - cosine_weight * (entries @ params[wording])

    def follow(params: Params) -> jax.Array:
        weights = start(params)
        scores = rest + cosine_weight * (entries @ params[wording])
        masses = weights[first] * jnp.exp(SCALE * (scores - jax.lax.stop_gradient(scores.max())))
        best = jnp.zeros(len(met)).at[last].max(masses)
        return best / jnp.maximum(best.max(), 1e-30) * weights.max()

    return follow
