"""Search of the whole memory against a float64 reference, on one device and on up to 8."""

import dataclasses
import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tpu_compiler

from opql_jax.memory import search, search_factored, search_keys, sharding
from opql_jax.memory.follow import Queries
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import Factors, ShardedMemory, shard_memory
from opql_jax.parallel.mesh import make_mesh

import eight_devices
import search_cases

QUERIES = (search_cases.FEW, search_cases.MANY)
COLLECTIVES = 'all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute'


@pytest.fixture(scope='module')
def on_devices(binaries, tmp_path_factory):
    """(what each mesh found, the compiled text of the gradient by number of queries and mesh)."""
    output = tmp_path_factory.mktemp('search') / 'found.npz'
    eight_devices.run(binaries, 'search_cases.py', output)
    text_of = lambda *name: pathlib.Path('.'.join(map(str, (output, *name, 'hlo')))).read_text()
    meshes = eight_devices.MESHES
    return np.load(output), {(n, mesh): text_of(n, mesh) for n in QUERIES for mesh in meshes}


top_k = jax.jit(search.top_k, static_argnames='k')


@pytest.fixture
def patched(monkeypatch):
    """Searches as on another device, or with other constants; what was compiled is dropped."""

    def patch(platform=None, **values):
        if platform:
            values['platform_of'] = lambda mesh: platform
        for name, value in values.items():
            for module in (search, search_factored, search_keys, sharding):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, value)
        top_k.clear_cache()

    yield patch
    top_k.clear_cache()


def run(case, k, mode='exact'):
    memory = shard_memory(*case.columns, make_mesh(1), mode, case.passages)
    return top_k(memory, case.table, case.queries, k, case.filter)


def recall(ids, expected):
    return np.mean([np.isin(want, got).mean() for got, want in zip(np.asarray(ids), expected)])


@pytest.mark.parametrize('devices', eight_devices.MESHES)
@pytest.mark.parametrize('name', search_cases.CASES)
def test_devices_find_what_the_reference_finds(on_devices, name, devices):
    scores, ids, _ = search_cases.reference(search_cases.make(name), search_cases.K[name])
    np.testing.assert_array_equal(on_devices[0][f'{name}-exact-{devices}-ids'], ids)
    np.testing.assert_array_equal(on_devices[0][f'{name}-exact-{devices}-scores'], scores)


@pytest.mark.parametrize('devices', eight_devices.MESHES)
@pytest.mark.parametrize(
    'name', [name for name, mode in search_cases.ON_DEVICES if mode == 'approx']
)
def test_approx_returns_true_scores_and_no_row_that_is_filtered_out(on_devices, name, devices):
    case = search_cases.make(name)
    expected, _, dense = search_cases.reference(case, search_cases.K[name])
    ids, scores = (on_devices[0][f'{name}-approx-{devices}-{part}'] for part in ('ids', 'scores'))
    np.testing.assert_array_equal(np.isfinite(scores), np.isfinite(expected))
    np.testing.assert_array_equal(ids >= 0, np.isfinite(expected))
    true = np.take_along_axis(dense, np.maximum(ids, 0), axis=1)
    np.testing.assert_array_equal(scores[ids >= 0], true[ids >= 0])


@pytest.mark.parametrize(
    ('name', 'constants'),
    [
        *((name, {'_chunk_rows': lambda *_: 7}) for name in search_cases.CASES),
        *(('ties', {'_chunk_rows': lambda *_, chunk=chunk: chunk}) for chunk in (1, 1000)),
        ('ties', {}),
        # Of the queries one at a time, or two beside padding.
        *((name, {'MAX_SCORE_BYTES': most}) for name in search_cases.CASES for most in (1, 2_700)),
    ],
)
def test_neither_chunks_nor_few_queries_at_a_time_change_the_result(patched, name, constants):
    if 'MAX_SCORE_BYTES' in constants:
        constants = {'_chunk_rows': lambda *_: 64} | constants
    patched(**constants)
    case, k = search_cases.make(name), search_cases.K[name]
    expected, kept, _ = search_cases.reference(case, k)
    scores, ids = run(case, k)
    np.testing.assert_array_equal(ids, kept)
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize('devices', eight_devices.MESHES)
@pytest.mark.parametrize('queries', QUERIES)
def test_gradients_equal_those_of_the_dense_computation(on_devices, queries, devices):
    case = search_cases.gradient_case(queries)
    query_e, query_r = search_cases.projected(search_cases.w_k(), *case[:2])
    projected = case._replace(query_e=query_e, query_r=query_r)
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
        exact = [np.asarray(x, np.float64) for x in arguments]
        wanted = jax.grad(dense, argnums=tuple(range(5)))(*exact)
    for name, want in zip(search_cases.GRADIENTS, wanted):
        assert np.abs(want).max() > 1e-3
        # Without padding.
        found = on_devices[0][f'gradient-{queries}-{devices}-{name}'][: len(want)]
        np.testing.assert_allclose(found, want, atol=1e-5, err_msg=name)


@pytest.mark.parametrize('queries', QUERIES)
def test_devices_exchange_queries_and_scores_but_no_row_of_e_and_no_key(on_devices, queries):
    found = re.findall(rf'= (.*?) ({COLLECTIVES})(?:-start)?\(', on_devices[1][queries, '8'])
    assert found
    kept = queries * search_cases.GRADIENT_K
    counts = {search_cases.NUM_ENTITIES, search_cases.ROWS}
    whole = counts | {-(-rows // 8) for rows in counts} | {8 * 2, 8 * 64, 64}
    for shapes, kind in found:
        for dims in re.findall(r'\w+\[([\d,]+)\]', shapes):
            shape = [int(n) for n in dims.split(',')]
            assert not whole & set(shape) - {queries, 2}, (kind, dims)
            # The result of a reduce-scatter is one of 8 shares of what it carries; keys of all kept
            # entries are at least so many numbers.
            carried = math.prod(shape) * (8 if kind == 'reduce-scatter' else 1)
            assert carried < kept * min(search_cases.D_E, search_cases.D_R), (kind, dims)


def test_slices_search_by_themselves_and_exchange_sums_of_gradients(on_devices):
    crossing = []
    for line in on_devices[1][search_cases.MANY, '2x4'].splitlines():
        if found := re.search(rf' ({COLLECTIVES})(?:-start)?\(', line):
            groups = re.search(r'replica_groups=\{(\{[\d,{}]+\})\}', line)
            slices = lambda group: {int(i) // 4 for i in group.split(',')}
            if not groups or any(len(slices(g)) > 1 for g in groups[1][1:-1].split('},{')):
                crossing.append((found[1], 'transpose' in line))
    assert crossing and set(crossing) == {('all-reduce', True)}


@pytest.mark.parametrize(
    ('platform', 'clusters', 'rows', 'k'),
    [('gpu', None, 40_000, 32), ('tpu', 50, 40_000, 32), ('gpu', 50, 2_100, 32)]
    + [('tpu', 50, 6_500, 100)],
)
def test_recall_of_approx_on_accelerators(patched, platform, clusters, rows, k):
    patched(platform)
    case = search_cases.recall_case(rows, clusters)
    _, expected, _ = search_cases.reference(case, k)
    assert recall(run(case, k, 'approx')[1], expected) >= 0.98


@pytest.mark.parametrize('devices', eight_devices.MESHES)
def test_recall_of_approx_on_several_devices(on_devices, devices):
    case = search_cases.recall_case()
    _, expected, _ = search_cases.reference(case, search_cases.RECALL_K)
    assert recall(on_devices[0][f'recall-{devices}'], expected) >= 0.98


@pytest.mark.parametrize(
    ('platform', 'mode', 'name'),
    [('tpu', 'exact', name) for name in search_cases.CASES]
    + [('gpu', 'exact', name) for name in ('few rows', 'passages')]
    + [(platform, 'approx', 'passages') for platform in ('gpu', 'tpu')],
)
def test_the_paths_for_accelerators_find_the_same(patched, name, platform, mode):
    case, k = search_cases.make(name), search_cases.K[name]
    patched(platform, _chunk_rows=lambda *_: 64)
    expected, kept, _ = search_cases.reference(case, k)
    scores, ids = run(case, k, mode)
    # Off a TPU `approx_max_k` is exact, but does not say which of equals it returns.
    np.testing.assert_array_equal(scores, expected)
    if mode == 'exact':
        np.testing.assert_array_equal(ids, kept)


@pytest.mark.parametrize('mode', sharding.MODES)
def test_what_is_chosen_by_old_keys_is_scored_by_the_table_as_it_is(patched, mode):
    patched('tpu')
    case, k = search_cases.make('ties'), 6
    memory = shard_memory(*case.columns, make_mesh(1), mode)
    memory = jax.jit(search_keys.with_keys)(memory, case.table)
    now = case.table + np.random.default_rng(0).integers(0, 2, case.table.shape).astype(np.float32)
    scores, rows = top_k(memory, now, case.queries, k)
    _, chosen, _ = search_cases.reference(case, k)
    _, _, dense = search_cases.reference(case._replace(table=now), k)
    rows = np.asarray(rows)
    if mode == 'exact':  # `approx_max_k` does not say which of equals it returns
        np.testing.assert_array_equal(np.sort(rows, axis=1), np.sort(chosen, axis=1))
    np.testing.assert_array_equal(scores, np.take_along_axis(dense, rows, axis=1))
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize(
    ('queries', 'dtype', 'platform'),
    [
        (1024, np.float32, 'cpu'),
        (64, np.float16, 'cpu'),
        (1024, np.float32, 'gpu'),
        (64, np.float16, 'gpu'),
    ],
)
def test_what_is_alive_at_a_time_is_bounded(patched, queries, dtype, platform):
    patched(platform)
    rows, dim, entities = 1_600_000, 256, 50_000
    shape = jax.ShapeDtypeStruct
    column = shape((rows,), np.int32)
    ends = dict(topic=column, target=column)
    memory = ShardedMemory(make_mesh(1), 'exact', **ends, relations=shape((rows, dim), dtype))
    factors = Factors(topics=shape((entities,), np.int32), slot=column)
    keys = shape((rows, 2 * dim), np.float32)
    parts = {'factors': factors} if platform == 'cpu' else {'keys': keys}
    memory = dataclasses.replace(memory, **parts)
    query, table = shape((queries, dim), np.float32), shape((entities, dim), np.float32)
    compiled = top_k.lower(memory, table, Queries(query, query), k=32).compile()
    # On a GPU the scores of a chunk, those that are allowed, and their buckets.
    most = search_factored.MAX_SCORE_BYTES if platform == 'cpu' else 4 * search_keys.GPU_SCORE_BYTES
    assert compiled.memory_analysis().temp_size_in_bytes < most


def test_float16_relations_score_as_their_float32_values():
    case = search_cases.make('ties')
    rounded = np.asarray(case.relations, np.float16)
    of = lambda relations: run(case._replace(relations=relations), 6)
    for found, want in zip(of(rounded), of(rounded.astype(np.float32))):
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize('rows', [300, 20_000])  # XLA takes maxima of large arrays another way
# Products with inf are NaN with a sign, where queries have both.
@pytest.mark.parametrize('bad', [np.nan, -np.nan, np.inf])
def test_what_is_not_finite_is_never_found(rows, bad):
    case = search_cases.recall_case(rows)
    at = lambda place, array: np.arange(len(array))[:, None] == place
    put = lambda place, array: np.where(at(place, array), np.float32(bad), array)
    scores, ids = run(case._replace(relations=put(50, case.relations)), 6)
    assert np.isfinite(scores).all()
    _, expected, _ = search_cases.reference(case, 7)
    np.testing.assert_array_equal(ids, [row[row != 50][:6] for row in expected])
    scores, ids = run(case._replace(query_r=put(3, case.query_r)), 6)
    assert (scores[3] == -np.inf).all() and (ids[3] == -1).all()
    assert np.isfinite(np.delete(scores, 3, axis=0)).all()


def test_a_filter_that_allows_nothing_gives_nothing_and_no_nan():
    case = search_cases.make('few rows')
    memory = shard_memory(*case.columns, make_mesh(1))
    nothing = SearchFilter(topics=np.full((len(case.query_e), 2), -1, np.int32))

    def loss(query_e):
        queries = Queries(query_e, case.query_r)
        found = search.retrieve(memory, jnp.asarray(case.table), queries, 4, nothing)
        return jnp.sum(found.weights) + jnp.sum(found.beta), found

    (value, found), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(case.query_e)
    assert value == 0 and (gradient == 0).all()
    assert (found.entry_rows == -1).all() and (found.entities == -1).all()


@tpu_compiler.needs_tpu_compiler
def test_the_tpu_compiler_reads_the_keys_of_the_paper_once_and_moves_none_of_them():
    """1.6 million entries over a million entities, on eight chips."""
    of_one, of_many = (tpu_compiler.compiled(f'search --queries {n}') for n in (1, 64))
    assert of_one['loops'] == 0
    for found in (of_one, of_many):
        assert found['fits'] and found['temporary_bytes'] < 1 << 20
        # No row of E, and no key: 32 scores and rows of each chip, and a query.
        assert sum(found['received_bytes'].values()) < 10_000 * found['queries']
        assert found['roofline_seconds'] <= 1.3 * found['limit_seconds']
