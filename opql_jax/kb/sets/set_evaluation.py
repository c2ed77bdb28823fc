"""Evaluates queries: the weighted entities of a set, and the paths of facts that lead to each.

See `entity_set` for what weights mean.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, NamedTuple

import numpy as np

from opql_jax.core import time_limit
from opql_jax.core.errors import InputError
from opql_jax.corpus.concepts import CONCEPT
from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.recognition import KINDS
from opql_jax.kb.ambiguous_names import candidates
from opql_jax.kb.fact_store import Closeable, FactStore
from opql_jax.kb.paths import Path, facts
from opql_jax.kb.sets import query as tree
from opql_jax.kb.text.question_plans import Step, wanted
from opql_jax.kb.text.text_answerer import SCALE, TextAnswerer
from opql_jax.models.mention_kinds import THING

# The members that a hop starts from, entries of each that are scored, and entries that it keeps, at
# most.
TOPICS, ENTRIES, KEPT = 64, 20_000, 256
# A hop leaves out what weighs less than this share of the best that it finds.
LEAST = 1e-3
# Queries of which the results are kept, and names.
_CACHED = 256


class Evaluated(NamedTuple):
    """What a query found: entity ids [n], best first, and weights [n] float32 in 0 .. 1.

    Equal weights by rising id.

    Of a hop also `rows` [m], those of the memory that it kept, best first, the entities that these
    lead to, and the weight that each gives.
    """

    entities: np.ndarray
    weights: np.ndarray
    rows: np.ndarray = np.zeros(0, np.int64)
    ends: np.ndarray = np.zeros(0, np.int64)
    masses: np.ndarray = np.zeros(0, np.float32)


class SetEvaluator(Closeable):
    """Evaluates queries over a knowledge base of plain text, and keeps what it found.

    Threads may share it.

    Attributes:
        store, memory: of the knowledge base.
        answerer: whose relations are followed.
        evaluate: of a query what it found, as `Evaluated`.
        entity: of a key or name the id of the entity; see `EntitySet` for errors.
    """

    def __init__(self, store: FactStore, answerer: TextAnswerer):
        assert store.memory is not None  # plain text has one
        self.store, self.memory, self.answerer = store, store.memory, answerer
        # Were the method itself kept, the cache and this object would keep each other.
        evaluate: Any = weakref.WeakMethod(self._evaluate)
        self.evaluate = functools.lru_cache(_CACHED)(lambda query: evaluate()(query))
        self.entity = functools.lru_cache(_CACHED)(functools.partial(_entity_named, store))

    def check_kind(self, kind: str) -> None:
        """Raises InputError unless entities may be of a kind."""
        kinds = {*KINDS.values(), UNKNOWN_KIND, THING, *self.store.vocab.kinds}
        if kind not in kinds:
            raise InputError(
                f'unknown kind {short_repr(kind)}: there are {", ".join(sorted(kinds))}'
            )

    def paths(self, query: tree.Query, entity: int, most: int) -> list[Path]:
        """The best paths by which a query finds an entity, see `WeightedEntities.paths`."""
        if entity not in self.evaluate(query).entities:
            return []
        if isinstance(query, tree.Entity):
            return [()]
        if isinstance(query, tree.Follow):
            return self._paths_of_hop(query, entity, most)
        if isinstance(query, tree.Combined):
            left = self.paths(query.left, entity, most)
            both = (
                left if query.operator == '-' else [*left, *self.paths(query.right, entity, most)]
            )
            return sorted(both, key=lambda path: -path[-1].weight if path else -1.0)
        (members,) = query.parts
        return self.paths(members, entity, most)

    def _paths_of_hop(self, query: tree.Follow, entity: int, most: int) -> list[Path]:
        found = self.evaluate(query)
        chosen = np.flatnonzero(found.ends == entity)[:most]
        rows, memory = found.rows[chosen], self.memory
        said = facts(
            self.store, memory.ids[rows], found.masses[chosen], query.relation, query.inverse
        )
        starts = (memory.target if query.inverse else memory.topic)[rows]
        return [
            (*before, fact)
            for start, fact in zip(starts, said)
            for before in self.paths(query.start, int(start), 1)
        ]

    def _evaluate(self, query: tree.Query) -> Evaluated:
        found = self._find(query)
        for array in found:
            array.flags.writeable = False  # it is kept, and given to whoever asks
        return found

    def _find(self, query: tree.Query) -> Evaluated:
        if isinstance(query, tree.Entity):
            return Evaluated(np.array([self.entity(query.name)]), np.ones(1, np.float32))
        if isinstance(query, tree.Follow):
            return self._follow(query)
        if isinstance(query, tree.Combined):
            return _combine(query.operator, self.evaluate(query.left), self.evaluate(query.right))
        if isinstance(query, tree.Top):
            found = self.evaluate(query.members)
            return Evaluated(found.entities[: query.k], found.weights[: query.k])
        assert isinstance(query, tree.Where)
        found = self.evaluate(query.members)
        if query.field == 'entity':
            keep = found.entities == self.entity(query.value)
        else:
            kinds = self.store.vocab.kinds
            keep = np.array(
                [kinds[entity] == query.value for entity in found.entities.tolist()], bool
            )
        return Evaluated(found.entities[keep], found.weights[keep])

    def _follow(self, query: tree.Follow) -> Evaluated:
        time_limit.check()  # a part of a set would be another set
        start, memory = self.evaluate(query.start), self.memory
        positive = start.weights > 0
        topics, weights = start.entities[positive][:TOPICS], start.weights[positive][:TOPICS]
        spans = [
            self._rows_to(topic) if query.inverse else self._rows_of(topic) for topic in topics
        ]
        rows = np.concatenate([np.zeros(0, np.int64), *spans])
        prior = (
            np.repeat(
                np.log(weights / weights[0]) if len(weights) else weights,
                [len(span) for span in spans],
            )
            / SCALE
        )
        # Else each film would lead to 'film', by most relations.
        if CONCEPT not in wanted(f'what {query.relation}').kinds:
            named = self._is_named[(memory.topic if query.inverse else memory.target)[rows]]
            rows, prior = rows[named], prior[named]
        if not len(rows):
            return Evaluated(np.zeros(0, np.int64), np.zeros(0, np.float32))
        # The topic is masked where a relation is encoded, so that one encoding serves for all.
        step = Step(f'it {query.relation}', (0, 2))
        rows, scores = self.answerer.best_entries(step, rows, prior, KEPT)
        masses = np.exp(SCALE * (scores - scores[0]))
        rows, masses = (
            rows[masses >= LEAST],
            (weights[0] * masses[masses >= LEAST]).astype(np.float32),
        )
        ends = np.asarray((memory.topic if query.inverse else memory.target)[rows], np.int64)
        # Of each the first, which is the heaviest.
        entities, best = np.unique(ends, return_index=True)
        return Evaluated(*_sorted(entities, masses[best]), rows, ends, masses)

    @functools.cached_property
    def _is_named(self) -> np.ndarray:
        """Whether entities have names, unlike concepts."""
        return np.array([kind != CONCEPT for kind in self.store.vocab.kinds], bool)

    def _rows_of(self, topic: int) -> np.ndarray:
        first, end = self.memory.offsets[topic : topic + 2]
        return np.arange(first, min(end, first + ENTRIES))

    def _rows_to(self, target: int) -> np.ndarray:
        by_target, offsets = self._by_target
        first, end = offsets[target : target + 2]
        return by_target[first : min(end, first + ENTRIES)]

    @functools.cached_property
    def _by_target(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the memory by target, and where those of each begin."""
        target, count = self.memory.target, len(self.store.vocab)
        counts = np.bincount(target, minlength=count)
        return np.argsort(target, kind='stable'), np.concatenate([[0], np.cumsum(counts)])


def _entity_named(store: FactStore, name: str) -> int:
    means = store.linker.named(name)
    if len(means) > 1:
        listed = candidates(store, means, tree.quoted)
        raise InputError(f'{short_repr(name)} may be {len(means)} entities; write one of\n{listed}')
    return means[0]


def _combine(operator: str, left: Evaluated, right: Evaluated) -> Evaluated:
    entities = np.union1d(left.entities, right.entities)
    a, b = (_weights_of(entities, found) for found in (left, right))
    weights = {'&': np.minimum(a, b), '|': np.maximum(a, b), '-': a - b}[operator]
    keep = weights > 0
    return Evaluated(*_sorted(entities[keep], weights[keep]))


def _weights_of(entities: np.ndarray, found: Evaluated) -> np.ndarray:
    """The weights of some entities, 0 of those that were not found."""
    weights = np.zeros(len(entities), np.float32)
    weights[np.searchsorted(entities, found.entities)] = found.weights
    return weights


def _sorted(entities: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort((entities, -weights))
    return entities[order], weights[order]
