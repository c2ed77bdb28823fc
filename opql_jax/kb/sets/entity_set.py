"""Weighted sets of entities, made by following relations and combined like sets.

    films = kb.entity('Ingrid Solberg').follow('directed')
    films.follow('starring') - kb.entity('Anna Weiss')

A weight in 0 .. 1 says how well an entity belongs to a set, compared with the best entity of that
set:

    kb.entity(x)      x has weight 1
    X.follow(r)       an entry of the memory has the mass X(topic) * exp(20 * score), where its
                      score is the cosine of the relation that r names and its own, with something
                      added for words of r in its sentence. y weighs the mass of the heaviest entry
                      that leads to it, divided by that of the heaviest entry of all and multiplied
                      by the heaviest weight in X
    A & B             the smaller of A(y) and B(y)
    A | B             the larger
    A - B             A(y) - B(y), if that is above 0

The masses are those of the paper (§3), whose follow adds up the entries that lead to y. Here the
heaviest counts alone: in sets, an entity that is mentioned often but says something else should not
outweigh one fact. Weights are relative to the best rather than shares of 1, of which each member of
a large set would have next to nothing, and the operators do not scale anew: what hardly belongs to
A & B weighs little, also after a further hop. With these operators the usual laws of sets hold: A &
A is A, A - A is empty, & and | distribute over one another. `docs/experiments/plain_text.md`
compares them with sums and products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import check_count, check_string
from opql_jax.kb.paths import Path
from opql_jax.kb.sets import query as tree
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.weighted_entities import WeightedEntities

if TYPE_CHECKING:
    from opql_jax.kb.sets.differentiable import DifferentiableSet

# Members that a `repr` shows.
_SHOWN = 10


class EntitySet(WeightedEntities):
    """A weighted set, evaluated when somebody looks into it; threads may share it.

    `kb.query(str(query))` is the same set. `entities` [n] are ids, best first, equal weights by
    rising id, and `weights` [n] float32 in 0 .. 1.
    """

    def __init__(self, sets: SetEvaluator, query: tree.Query):
        """InputError: an unknown entity or kind, or an ambiguous name, see `VirtualKB.entity`."""
        for field, name, column in query.names():
            try:
                sets.entity(name) if field == 'entity' else sets.check_kind(name)
            except InputError as error:
                place = '' if column is None else f'query, column {column}: '
                raise type(error)(f'{place}{error}') from None
        self._sets, self.store, self.query = sets, sets.store, query

    # ---- Sets made of sets ----

    def follow(self, relation: str, inverse: bool = False) -> EntitySet:
        """The entities that members have a relation to, in words: 'directed', 'was born in'.

        `film.follow('directed', inverse=True)` are its directors, before whom the words stand.
        """
        check_string('relation', relation)
        return EntitySet(self._sets, tree.Follow(self.query, relation, bool(inverse)))

    def where(self, *, kind: str | None = None, entity: str | None = None) -> EntitySet:
        """The members of a kind (see `Member.kind`), or the one that is an entity."""
        query = self.query
        for field, value in {'kind': kind, 'entity': entity}.items():
            if value is not None:
                check_string(field, value)
                query = tree.Where(query, field, value)
        return EntitySet(self._sets, query)

    def top(self, k: int) -> EntitySet:
        """The k best members."""
        return EntitySet(self._sets, tree.Top(self.query, check_count('k', k)))

    def __and__(self, other: EntitySet) -> EntitySet:
        return self._combined('&', other)

    def __or__(self, other: EntitySet) -> EntitySet:
        return self._combined('|', other)

    def __sub__(self, other: EntitySet) -> EntitySet:
        return self._combined('-', other)

    def _combined(self, operator, other) -> EntitySet:
        if not isinstance(other, EntitySet):
            return NotImplemented
        if other._sets is not self._sets:
            raise InputError(f'{operator}: the two sets are of different knowledge bases')
        return EntitySet(self._sets, tree.Combined(operator, self.query, other.query))

    # ---- What is in it ----

    def differentiable(self) -> DifferentiableSet:
        """The set as a pure function of the relations it follows, and these: for JAX to train."""
        from opql_jax.kb.sets.differentiable import differentiable  # which imports JAX

        return differentiable(self._sets, self.query)

    @property
    def asked(self) -> str:
        return str(self.query)

    @property
    def entities(self) -> np.ndarray:  # type: ignore[override]
        return self._sets.evaluate(self.query).entities

    @property
    def weights(self) -> np.ndarray:  # type: ignore[override]
        return self._sets.evaluate(self.query).weights

    def paths(self, entity: str | int, most: int = 3) -> list[Path]:
        entity = self._sets.entity(entity) if isinstance(entity, str) else entity
        return self._sets.paths(self.query, entity, most)

    def to_text(self, top: int = 5) -> str:
        return self.explain(top=top) or 'no entity belongs to this set'

    def __eq__(self, other) -> bool:
        if not isinstance(other, EntitySet):
            return False
        return self._sets is other._sets and self.query == other.query

    def __hash__(self) -> int:
        return hash((id(self._sets), self.query))

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        lines = [f'{member.weight:.3f}  {member.name}' for member, _ in zip(self, range(_SHOWN))]
        more = [f'… and {len(self) - _SHOWN} more'] if len(self) > _SHOWN else []
        return '\n'.join([f'<{self.query}>: {len(self)} entities', *lines, *more])
