"""While E is trained, a memory is searched by keys of up to `REFRESH_EVERY` steps ago: what that costs."""

import jax
import numpy as np
import optax

from opql_jax.memory import search, search_keys, sharding
from opql_jax.memory.follow import Queries
from opql_jax.memory.sharding import shard_memory
from opql_jax.parallel.mesh import make_mesh
from opql_jax.training import trainer
from opql_jax.training.optimizer import make_optimizer

ENTITIES, DIM, ENTRIES, K, QUERIES = 2000, 128, 20_000, 32, 64


def normalized(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def tables(steps):
    """Rows of unit length of E before each step at the highest default learning rate, where a step meets a tenth of the entities."""
    rng, optimizer = np.random.default_rng(0), make_optimizer(1000, warmup_steps=1)
    params = {'entity_table': 0.1 * rng.normal(size=(ENTITIES, DIM)).astype(np.float32)}
    state = optimizer.init(params)
    for _ in range(steps):
        yield normalized(np.asarray(params['entity_table']))
        gradient = np.zeros((ENTITIES, DIM), np.float32)
        gradient[rng.integers(0, ENTITIES, ENTITIES // 10)] = rng.normal(size=(ENTITIES // 10, DIM))
        updates, state = optimizer.update({'entity_table': gradient}, state, params)
        params = optax.apply_updates(params, updates)


def test_old_keys_choose_99_of_100_entries_that_those_of_now_do(monkeypatch):
    for module in (sharding, search_keys):
        monkeypatch.setattr(module, 'platform_of', lambda mesh: 'gpu')
    rng = np.random.default_rng(1)
    topic = np.sort(rng.integers(0, ENTITIES, ENTRIES))
    relations = rng.normal(size=(200, DIM))[rng.integers(0, 200, ENTRIES)] + 0.7 * rng.normal(size=(ENTRIES, DIM))
    relations = normalized(relations)
    history = list(tables(30 + trainer.REFRESH_EVERY))
    then, now = history[-1 - trainer.REFRESH_EVERY], history[-1]
    asked = rng.integers(0, ENTRIES, QUERIES)
    noise = 0.05 * rng.normal(size=(2, QUERIES, DIM)).astype(np.float32)
    queries = Queries(now[topic[asked]] + noise[0], relations[asked] + noise[1])
    memory = shard_memory(topic, topic, relations, make_mesh(1))
    choose = jax.jit(search.choose, static_argnames='k')
    old, fresh = (np.asarray(choose(search_keys.with_keys(memory, table), now, queries, K)) for table in (then, now))
    assert (then != now).any()
    assert np.mean([np.isin(a, b).mean() for a, b in zip(fresh, old)]) >= 0.99
