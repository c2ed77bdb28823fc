"""Memories and queries for indexes."""

import importlib.util

import numpy as np
import pytest

from opql_jax.corpus.entities import EntityVocab
from opql_jax.memory.build import BuildOptions, build

from tiny_memories import table_of

D_E, D_R, ENTITIES, K = 12, 20, 600, 32
VOCAB = EntityVocab.from_names([f'entity {i}' for i in range(ENTITIES + 1)])
OLD = EntityVocab(*(column[:ENTITIES] for column in (VOCAB.keys, VOCAB.names, VOCAB.aliases)))
HASHES = {'encoder': 'e' * 64, 'entity_table': 't' * 64, 'vocabulary': OLD.hash()}
with_scann = pytest.mark.skipif(not importlib.util.find_spec('scann'), reason='needs ScaNN')


def make_memory(directory, rows, seed=0):
    """A memory whose relations lie in 50 clusters, with every fifth entry twice."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((50, D_R))
    relations = centres[rng.integers(0, 50, rows)] + 0.3 * rng.standard_normal((rows, D_R))
    topics = rng.integers(0, ENTITIES, rows)
    topics[1::5], relations[1::5] = topics[::5], relations[::5]
    entries = table_of(topics, rng.integers(0, ENTITIES, len(topics)))
    encode = lambda rows: relations[rows].astype(np.float32)
    return build(directory, entries, encode, BuildOptions(ENTITIES, D_R, HASHES))


TABLE = np.random.default_rng(1).standard_normal((ENTITIES, D_E)).astype(np.float32)


def keys_of(memory, table=TABLE):
    return np.concatenate([table[memory.topic], memory.relations()], axis=1).astype(np.float64)


def queries_near(memory, count, seed=2):
    rng = np.random.default_rng(seed)
    keys = keys_of(memory)[rng.integers(0, len(memory), count)]
    noise = rng.standard_normal(keys.shape) / keys.shape[1] ** 0.5
    keys += 0.5 * noise * np.linalg.norm(keys, axis=1, keepdims=True)
    return keys[:, :D_E].astype(np.float32), keys[:, D_E:].astype(np.float32)
