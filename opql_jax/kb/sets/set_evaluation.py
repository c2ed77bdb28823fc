"""Evaluates queries: weighted entities (see `entity_set`), and paths of facts to each."""

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
from opql_jax.kb.text.question_plans import Step
from opql_jax.kb.text.text_answerer import Entries, TextAnswerer
from opql_jax.kb.text.wanted import wanted_by
from opql_jax.memory.hop import by_target, log_weights, masked_softmax
from opql_jax.models.mention_kinds import THING

# The members that a hop starts from, and entries that it keeps, at most.
TOPICS, KEPT = 64, 256
# A hop leaves out what weighs less than this share of the best that it finds.
LEAST = 1e-3
# Queries of which the results are kept, and names.
_CACHED = 256


class Evaluated(NamedTuple):
    """What a query found: entity ids [n], best first, and weights [n] float32 in 0 .. 1.

    Equal weights by rising id. Of a hop also the entries [m] that it kept, of the topics that its
    start has in this order, and the weight `masses` [m] float32 that each gives.
    """

    entities: np.ndarray
    weights: np.ndarray
    entries: Entries | None = None
    masses: np.ndarray = np.zeros(0, np.float32)


class SetEvaluator(Closeable):
    """Evaluates queries over a knowledge base of plain text, and keeps results; threads may share.

    `evaluate` gives what a query found, `entity` the id of a key or name, with the errors of
    `EntitySet`.
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
            known = ', '.join(sorted(kinds))
            raise InputError(f'unknown kind {short_repr(kind)}: there are {known}')

    def paths(self, query: tree.Query, entity: int, most: int) -> list[Path]:
        """The best paths by which a query finds an entity, see `WeightedEntities.paths`."""
        if entity not in self.evaluate(query).entities:
            return []
        if isinstance(query, tree.Entity):
            return [()]
        if isinstance(query, tree.Follow):
            return self._paths_of_hop(query, entity, most)
        if isinstance(query, tree.Combined):
            sides = query.parts[:1] if query.operator == '-' else query.parts
            found = (path for side in sides for path in self.paths(side, entity, most))
            return sorted(found, key=lambda path: -path[-1].weight if path else -1.0)
        (members,) = query.parts
        return self.paths(members, entity, most)

    def _paths_of_hop(self, query: tree.Follow, entity: int, most: int) -> list[Path]:
        found = self.evaluate(query)
        assert found.entries is not None  # it found something
        chosen = np.flatnonzero(found.entries.ends == entity)[:most]
        ids = self.memory.ids[found.entries.rows[chosen]]
        said = facts(self.store, ids, found.masses[chosen], query.relation, query.inverse)
        starts = self.evaluate(query.start).entities[found.entries.topic[chosen]]
        return [
            (*before, fact)
            for start, fact in zip(starts, said)
            for before in self.paths(query.start, int(start), 1)
        ]

    def _evaluate(self, query: tree.Query) -> Evaluated:
        found = self._find(query)
        for array in found[:2]:
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
            kinds = [self.store.vocab.kinds[entity] for entity in found.entities.tolist()]
            keep = np.array([kind == query.value for kind in kinds], bool)
        return Evaluated(found.entities[keep], found.weights[keep])

    def _follow(self, query: tree.Follow) -> Evaluated:
        time_limit.check()  # a part of a set would be another set
        start, answerer = self.evaluate(query.start), self.answerer
        alpha = start.weights[:TOPICS]
        entries = answerer.entries_from(
            _step(query.relation),
            self.relation(query.relation),
            start.entities[:TOPICS],
            log_weights(alpha),
            # Else each film would lead to 'film', by most relations.
            lambda ends: (
                self._is_named[ends] | (CONCEPT in wanted_by(f'what {query.relation}').kinds)
            ),
            inverse=query.inverse,
            kept=KEPT,
        )
        if entries is None:
            return Evaluated(np.zeros(0, np.int64), np.zeros(0, np.float32))
        beta = masked_softmax(entries.logits(answerer.map))
        kept = beta >= LEAST * beta[0]
        entries, masses = entries.take(kept), (beta[kept] * (alpha[0] / beta[0])).astype(np.float32)
        return Evaluated(*by_target(entries.ends, masses, np.maximum), entries, masses)

    def relation(self, words: str) -> np.ndarray:
        """The relation [d_r] float32 that words name, as it is followed."""
        return self.answerer.map(self.answerer.relations([_step(words)]))[0]

    @functools.cached_property
    def _is_named(self) -> np.ndarray:
        """Whether entities have names, unlike concepts."""
        return np.array([kind != CONCEPT for kind in self.store.vocab.kinds], bool)


def _step(relation: str) -> Step:
    """A step of words; its topic is masked where it is encoded, so that any does."""
    return Step(f'it {relation}', (0, 2))


def _entity_named(store: FactStore, name: str) -> int:
    means = store.linker.named(name)
    if len(means) > 1:
        listed = candidates(store, means, tree.quoted)
        raise InputError(f'{short_repr(name)} may be {len(means)} entities; write one of\n{listed}')
    return means[0]


def _combine(operator: str, left: Evaluated, right: Evaluated) -> Evaluated:
    entities = np.union1d(left.entities, right.entities)
    a, b = np.zeros((2, len(entities)), np.float32)  # 0 of those that were not found
    for side, found in ((a, left), (b, right)):
        side[np.searchsorted(entities, found.entities)] = found.weights
    weights = {'&': np.minimum(a, b), '|': np.maximum(a, b), '-': a - b}[operator]
    keep = weights > 0
    return Evaluated(*by_target(entities[keep], weights[keep]))
