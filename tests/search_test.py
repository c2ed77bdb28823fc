"""Search of the whole memory against a float64 reference, on one device here and on up to 8 in another process."""

import functools
import math
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import search_cases

from opql_jax.corpus.errors import InputError
from opql_jax.memory import search
from opql_jax.parallel.mesh import make_mesh

TESTS = pathlib.Path(__file__).parent
QUERIES = (search_cases.FEW, search_cases.MANY)
COLLECTIVES = 'all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute'


@pytest.fixture(scope='module')
def on_devices(tmp_path_factory):
    """(what 1, 2, 4 and 8 devices found, the compiled text of the gradient on 8 by number of queries)."""
    output = tmp_path_factory.mktemp('search') / 'found.npz'
    env = {
        **os.environ,
        'XLA_FLAGS': '--xla_force_host_platform_device_count=8',
        'JAX_PLATFORMS': 'cpu',
        'PYTHONPATH': str(TESTS.parent),
    }
    command = [sys.executable, str(TESTS / 'search_on_devices.py'), str(output)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    compiled = {queries: pathlib.Path(f'{output}.{queries}.hlo').read_text() for queries in QUERIES}
    return np.load(output), compiled


@functools.partial(jax.jit, static_argnames=('mesh', 'k', 'chunk', 'mode', 'dtype'))
def jit_topk(query_e, query_r, memory, table, mesh, k, chunk=None, mode='exact', dtype=jnp.float32, member=None):
    return search.topk(query_e, query_r, memory, table, mesh, k, chunk, mode, dtype, member)


def run(case, k, **options):
    mesh = make_mesh(1)
    memory = search.shard_memory(case.topic, case.target, case.relations, mesh, case.alive, int8=True)
    return jit_topk(case.query_e, case.query_r, memory, case.table, mesh, k, member=case.member, **options)


@pytest.mark.parametrize('devices', [1, 2, 4, 8])
@pytest.mark.parametrize('name', search_cases.CASES)
def test_devices_find_what_the_reference_finds(on_devices, name, devices):
    scores, ids, _ = search_cases.reference(search_cases.make(name), search_cases.K[name])
    np.testing.assert_array_equal(on_devices[0][f'{name}-exact-{devices}-ids'], ids)
    np.testing.assert_array_equal(on_devices[0][f'{name}-exact-{devices}-scores'], scores)


@pytest.mark.parametrize('devices', [1, 2, 4, 8])
@pytest.mark.parametrize('mode', ['approx', 'int8'])
@pytest.mark.parametrize('name', search_cases.CASES)
def test_other_modes_return_no_masked_row_and_true_scores(on_devices, name, mode, devices):
    case = search_cases.make(name)
    expected, _, dense = search_cases.reference(case, search_cases.K[name])
    ids, scores = (on_devices[0][f'{name}-{mode}-{devices}-{part}'] for part in ('ids', 'scores'))
    np.testing.assert_array_equal(np.isfinite(scores), np.isfinite(expected))
    np.testing.assert_array_equal(ids >= 0, np.isfinite(expected))
    true = np.take_along_axis(dense, np.maximum(ids, 0), axis=1)
    np.testing.assert_array_equal(scores[ids >= 0], true[ids >= 0])


@pytest.mark.parametrize('chunk', [1, 7, 64, 101, 1000, None])
@pytest.mark.parametrize('name', search_cases.CASES)
def test_chunk_does_not_change_the_result(name, chunk):
    case, k = search_cases.make(name), search_cases.K[name]
    expected, kept, _ = search_cases.reference(case, k)
    scores, ids = run(case, k, chunk=chunk)
    np.testing.assert_array_equal(ids, kept)
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize('devices', [1, 2, 4, 8])
@pytest.mark.parametrize('queries', QUERIES)
def test_gradients_equal_those_of_the_dense_computation(on_devices, queries, devices):
    case = search_cases.gradient_case(queries)
    projected = case._replace(**dict(zip(('query_e', 'query_r'), search_cases.projected(search_cases.w_k(), *case[:2]))))
    _, ids, _ = search_cases.reference(jax.tree.map(np.asarray, projected), search_cases.GRADIENT_K)
    kept = np.zeros((queries, search_cases.ROWS), bool)
    np.put_along_axis(kept, ids, True, axis=1)

    def dense(w_k, query_e, query_r, relations, table):
        keys = jnp.concatenate([table[case.topic], relations], axis=1) @ w_k
        scores = jnp.concatenate([query_e, query_r], axis=1) @ keys.T
        beta = jax.nn.softmax(jnp.where(kept, scores, -1e9), axis=-1) * kept
        weights = beta @ jax.nn.one_hot(case.target, search_cases.NUM_ENTITIES)
        return search_cases.loss_of(weights, beta @ table[case.target])

    arguments = search_cases.w_k(), case.query_e, case.query_r, case.relations, case.table
    with jax.enable_x64(True):
        wanted = jax.grad(dense, argnums=tuple(range(5)))(*(np.asarray(x, np.float64) for x in arguments))
    for name, want in zip(search_cases.GRADIENTS, wanted):
        assert np.abs(want).max() > 1e-3
        np.testing.assert_allclose(on_devices[0][f'gradient-{queries}-{devices}-{name}'], want, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('queries', QUERIES)
def test_no_collective_carries_the_kept_keys(on_devices, queries):
    lines = [line for line in on_devices[1][queries].splitlines() if re.search(rf'= .*\b({COLLECTIVES})(-start)?\(', line)]
    assert lines
    kept = queries * search_cases.GRADIENT_K
    shapes = [tuple(map(int, dims.split(','))) for line in lines for dims in re.findall(r'\w+\[([\d,]+)\]', line)]
    for shape in shapes:
        # All keys of all queries, in whatever shape, are at least this many numbers.
        assert math.prod(shape) < kept * min(search_cases.D_E, search_cases.D_R), shape


@pytest.mark.parametrize('options', [{'mode': 'approx'}, {'mode': 'int8'}, {'dtype': jnp.bfloat16}], ids=str)
def test_recall_on_clustered_rows(options):
    rng = np.random.default_rng(0)
    rows, topics, dim, k = 40_000, 200, 32, 32
    topic = np.sort(rng.integers(0, topics, rows)).astype(np.int32)
    relations = (rng.normal(size=(topics, dim))[topic] + 0.5 * rng.normal(size=(rows, dim))).astype(np.float32)
    query_e, query_r, table = (rng.normal(size=(n, dim)).astype(np.float32) for n in (16, 16, topics))
    case = search_cases.Case(query_e, query_r, topic, topic, relations, table, None, None)
    _, expected, _ = search_cases.reference(case, k)
    _, ids = run(case, k, **options)
    recall = np.mean([len(np.intersect1d(got, want)) / k for got, want in zip(np.asarray(ids), expected)])
    assert recall >= 0.98


def test_an_empty_memory_gives_nothing_and_no_nan():
    case, mesh = search_cases.make('few rows'), make_mesh(1)
    memory = search.shard_memory(case.topic, case.target, case.relations, mesh, np.zeros(len(case.topic), bool))

    def loss(query_e):
        found = search.retrieve(query_e, case.query_r, memory, jnp.asarray(case.table), mesh, 4)
        return jnp.sum(found.embedding) + jnp.sum(found.followed.beta), found

    (value, found), gradient = jax.value_and_grad(loss, has_aux=True)(case.query_e)
    assert value == 0 and (gradient == 0).all()
    assert (found.followed.entry_ids == -1).all() and (found.followed.entities == -1).all() and (found.targets == -1).all()


def test_bad_arguments_are_named():
    case, mesh = search_cases.make('ties'), make_mesh(1)
    memory = search.shard_memory(case.topic, case.target, case.relations, mesh)
    arguments = case.query_e, case.query_r, memory, case.table, mesh
    with pytest.raises(InputError, match="not 'best'"):
        search.topk(*arguments, 4, mode='best')
    with pytest.raises(InputError, match='k=0'):
        search.topk(*arguments, 0)
    with pytest.raises(InputError, match='int8=True'):
        search.topk(*arguments, 4, mode='int8')
    with pytest.raises(InputError, match='one length'):
        search.shard_memory(case.topic[1:], case.target, case.relations, mesh)
