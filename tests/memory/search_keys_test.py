"""The search by keys: what it costs at the size of the paper, and how old keys may be."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from opql_jax.memory import search, search_keys, sharding
from opql_jax.memory.follow import Queries
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import ShardedMemory, shard_memory
from opql_jax.parallel.mesh import make_mesh

import search_cases


@pytest.fixture
def on_tpu(monkeypatch):
    for module in (sharding, search, search_keys):
        monkeypatch.setattr(module, 'platform_of', lambda mesh: 'tpu')


@pytest.mark.parametrize('mode', sharding.MODES)
def test_nothing_has_a_dimension_of_queries_and_one_of_entities(on_tpu, mode):
    entities, rows, queries, dim, k = 1_000_000, 400_000, 48, 128, 32
    shape = jax.ShapeDtypeStruct
    column = shape((rows,), np.int32)
    memory = ShardedMemory(
        make_mesh(1),
        mode,
        topic=column,
        target=column,
        relations=shape((rows, 1, dim), np.float32),
        keys=shape((rows, 2 * dim), jnp.bfloat16 if mode == 'approx' else np.float32),
        passages=shape((rows, 2), np.int32),
    )
    query, topics = shape((queries, dim), np.float32), shape((queries, k), np.int32)
    one = shape((queries,), np.int32)
    arguments = memory, shape((entities, dim), np.float32), Queries(query, query)
    retrieve = jax.jit(search.retrieve, static_argnames='k')
    lowered = retrieve.lower(*arguments, k=k, filter=SearchFilter(topics, topics, one))
    written = re.findall(r'tensor<((?:\d+x)+)', lowered.as_text())
    shapes = {tuple(map(int, re.findall(r'\d+', dims))) for dims in written}
    assert (entities, dim) in shapes and (queries, k) in shapes
    assert not [found for found in shapes if queries in found and entities in found]


@pytest.mark.parametrize('mode', sharding.MODES)
def test_what_is_chosen_by_old_keys_is_scored_by_the_table_as_it_is(on_tpu, mode):
    case, k = search_cases.make('ties'), 6
    memory = shard_memory(*case.columns, make_mesh(1), mode)
    memory = jax.jit(search_keys.with_keys)(memory, case.table)
    now = case.table + np.random.default_rng(0).integers(0, 2, case.table.shape).astype(np.float32)
    found = jax.jit(lambda memory, table: search.top_k(memory, table, case.queries, k))
    scores, rows = found(memory, now)
    _, chosen, _ = search_cases.reference(case, k)
    _, _, dense = search_cases.reference(case._replace(table=now), k)
    rows = np.asarray(rows)
    if mode == 'exact':  # `approx_max_k` does not say which of equals it returns
        np.testing.assert_array_equal(np.sort(rows, axis=1), np.sort(chosen, axis=1))
    np.testing.assert_array_equal(scores, np.take_along_axis(dense, rows, axis=1))
    assert (np.diff(scores, axis=1) <= 0).all()
