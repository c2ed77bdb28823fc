"""Memories and queries for search_test.py; run in a process with 8 virtual devices, leaves in
OUTPUT (.npz) what each mesh found, and in OUTPUT.QUERIES.MESH.hlo the compiled gradient.
"""

import dataclasses
import pathlib
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.memory import search, search_factored, search_keys
from opql_jax.memory.follow import Queries
from opql_jax.memory.search import retrieve
from opql_jax.memory.search_keys import with_keys
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import shard_memory
from opql_jax.parallel import collectives, entity_table
from opql_jax.parallel.mesh import make_mesh

from eight_devices import MESHES

# Sizes that no other dimension has, so that a shape in compiled text tells what it is of.
D_E, D_R, NUM_ENTITIES, ROWS = 17, 19, 11, 301
K = {'ties': 6, 'filtered': 6, 'few rows': 40, 'many queries': 6, 'excluded': 6, 'passages': 6}
CASES = tuple(K)
# Those that are searched in each mode on several devices.
ON_DEVICES = [(name, 'exact') for name in CASES]
ON_DEVICES += [(name, 'approx') for name in ('few rows', 'many queries', 'passages')]
# Queries that 2, 4 and 8 devices cannot share equally, and some that they can.
FEW, MANY = 3, 16
GRADIENT_K, RECALL_K = 7, 8
GRADIENTS = ('w_k', 'query_e', 'query_r', 'relations', 'table')


class Case(NamedTuple):
    """Arguments of a search: whole numbers, so that float32 is exact and ties are frequent."""

    query_e: np.ndarray
    query_r: np.ndarray
    topic: np.ndarray
    target: np.ndarray
    relations: np.ndarray
    table: np.ndarray
    filter: SearchFilter = SearchFilter()
    passages: np.ndarray | None = None

    @property
    def queries(self):
        return Queries(self.query_e, self.query_r)

    @property
    def columns(self):
        return self.topic, self.target, self.relations


def make(case, draw=None, queries=None):
    """A case by name; rows are sorted by topic and, but for noise, equal within one."""
    rng = np.random.default_rng(CASES.index(case))
    draw = draw or (lambda *shape: rng.integers(-2, 3, shape).astype(np.float32))
    rows = 13 if case == 'few rows' else ROWS
    queries = queries or (MANY if case == 'many queries' else FEW)
    topic = np.sort(rng.integers(0, NUM_ENTITIES, rows)).astype(np.int32)
    relations = draw(NUM_ENTITIES, D_R)[topic]
    relations[:, 0] += rng.integers(-1, 2, rows)
    query_e, query_r = draw(queries, D_E), draw(queries, D_R)
    target, table = rng.integers(0, NUM_ENTITIES, rows).astype(np.int32), draw(NUM_ENTITIES, D_E)
    topics = targets = passage = passages = None
    numbers = np.arange(queries, dtype=np.int32)
    if case in ('filtered', 'few rows', 'many queries'):
        # Entities that are no topic of any entry are among them, and unused slots.
        topics = ids(rng.random((queries, NUM_ENTITIES + 2)) < 0.4)
    elif case == 'excluded':
        # The first query excludes nothing, the others targets that many entries have.
        targets = np.stack([numbers, 2 * numbers], axis=1) - 1
    elif case == 'passages':
        # The first query may find all, the others no entry that was read, too, in a passage.
        passage, passages = numbers - 1, rng.integers(-1, 5, (rows, 2)).astype(np.int32)
    allowed = SearchFilter(topics, targets, passage)
    return Case(query_e, query_r, topic, target, relations, table, allowed, passages)


def ids(member):
    """Sets of entities [B, n] bool as their ids [B, n], -1 in unused slots."""
    return np.where(member, np.arange(member.shape[1], dtype=np.int32), -1)


def recall_case(rows=8_000, clusters=40):
    """A memory whose good entries are of one cluster, or near their topic's centre if None."""
    rng = np.random.default_rng(7)
    topic = np.sort(rng.integers(0, 200, rows)).astype(np.int32)
    group = topic if clusters is None else rng.integers(0, clusters, rows)
    relations = rng.normal(size=(clusters or 200, D_R))[group] + 0.5 * rng.normal(size=(rows, D_R))
    sizes = (64, D_E), (200, D_E), (64, D_R)
    query_e, table, query_r = (rng.normal(size=size).astype(np.float32) for size in sizes)
    return Case(query_e, query_r, topic, topic, relations.astype(np.float32), table)


def reference(case, k):
    """Scores [B, k] and ids [B, k] from float64, and all scores [B, N]."""
    scores = case.query_e.astype(np.float64) @ case.table.T.astype(np.float64)[:, case.topic]
    scores += case.query_r.astype(np.float64) @ case.relations.T.astype(np.float64)
    topics, targets, passage = case.filter
    if topics is not None:
        scores[~(case.topic == topics[:, :, None]).any(axis=1)] = -np.inf
    if targets is not None:
        scores[(case.target[:, None] == targets[:, None]).any(axis=-1)] = -np.inf
    if passage is not None:
        same = (case.passages == passage[:, None, None]) & (passage >= 0)[:, None, None]
        scores[same.any(axis=-1)] = -np.inf
    padded = np.pad(scores, ((0, 0), (0, k)), constant_values=-np.inf)
    ids = np.argsort(-padded, axis=1, kind='stable')[:, :k]
    best = np.take_along_axis(padded, ids, axis=1)
    return best, np.where(np.isfinite(best), ids, -1), scores


def gradient_case(queries):
    rng = np.random.default_rng(5)
    draw = lambda *shape: 0.3 * rng.normal(size=shape).astype(np.float32)
    case = make('ties', draw, queries)
    # Entries that were all alike would leave no gradient.
    return case._replace(relations=case.relations + draw(*case.relations.shape))


def loss_of(weights, embedding):
    """A number that depends on the weight of each entity [B, n] and on e_Y [B, d_e]."""
    probe = jnp.cos(jnp.arange(weights.size, dtype=jnp.float32)).reshape(weights.shape)
    return jnp.sum(weights * probe) + jnp.sum(jnp.sin(embedding))


def projected(w_k, query_e, query_r):
    query = jnp.concatenate([query_e, query_r], axis=1) @ w_k.T
    return query[:, :D_E], query[:, D_E:]


def w_k():
    noise = np.random.default_rng(6).normal(size=(D_E + D_R,) * 2)
    return (np.eye(D_E + D_R) + 0.1 * noise).astype(np.float32)


def gradient_arguments(mesh, queries):
    case = gradient_case(queries)
    table = entity_table.place(case.table, entity_table.Layout(mesh, NUM_ENTITIES))
    memory = jax.jit(with_keys)(shard_memory(*case.columns, mesh), table)
    return w_k(), case.query_e, case.query_r, memory.relations, table, memory


def gradient():
    """The jitted gradient of a loss over what was retrieved to what GRADIENTS names."""

    def loss(w_k, query_e, query_r, relations, table, memory):
        memory = dataclasses.replace(memory, relations=relations)
        found = retrieve(memory, table, Queries(*projected(w_k, query_e, query_r)), GRADIENT_K)
        onehot = jax.nn.one_hot(found.entities, NUM_ENTITIES)  # -1 gives a row of zeros
        embedding = entity_table.weighted_sum(table, found.entities, found.weights, memory.mesh)
        return loss_of(jnp.einsum('bk,bkn->bn', found.weights, onehot), embedding)

    return jax.jit(jax.grad(loss, argnums=tuple(range(len(GRADIENTS)))))


def main(output):
    assert jax.device_count() == 8, jax.devices()
    # Many chunks, the last of which overlaps the one before.
    search_factored._chunk_rows = search_keys._chunk_rows = lambda *_: 5
    # 'approx' scores what it has chosen as on a TPU, in several passes.
    search.platform_of = lambda mesh: 'tpu' if approx else 'cpu'
    collectives._FEW = 8
    top_k = jax.jit(search.top_k, static_argnames='k')
    found = {}
    for devices, shape in MESHES.items():
        mesh = make_mesh(**shape)
        for case, mode in ON_DEVICES:
            data, approx = make(case), mode == 'approx'
            memory = shard_memory(*data.columns, mesh, mode, data.passages)
            scores, ids = top_k(memory, data.table, data.queries, K[case], data.filter)
            found[f'{case}-{mode}-{devices}-scores'] = scores
            found[f'{case}-{mode}-{devices}-ids'] = ids
        data, approx = recall_case(), True
        memory = shard_memory(*data.columns, mesh, 'approx')
        found[f'recall-{devices}'] = top_k(memory, data.table, data.queries, RECALL_K)[1]
        approx = False
        for queries in (FEW, MANY):
            arguments = gradient_arguments(mesh, queries)
            compiled = gradient().lower(*arguments).compile()
            for name, value in zip(GRADIENTS, compiled(*arguments)):
                found[f'gradient-{queries}-{devices}-{name}'] = np.asarray(value)
            pathlib.Path(f'{output}.{queries}.{devices}.hlo').write_text(compiled.as_text())
    np.savez(output, **found)


if __name__ == '__main__':
    main(sys.argv[1])
