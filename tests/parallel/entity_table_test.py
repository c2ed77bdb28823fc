"""Softmax over a row-sharded entity table against float64, on one device and up to 8."""

import math
import pathlib
import re

import jax
import numpy as np
import pytest

from opql_jax.parallel import entity_table
from opql_jax.parallel.mesh import make_mesh

import eight_devices
import entity_table_cases as cases


@pytest.fixture(scope='module')
def on_devices(binaries, tmp_path_factory):
    """(what each mesh computed, the shapes of all arrays of the train step by mesh)."""
    output = tmp_path_factory.mktemp('entity_table') / 'found.npz'
    eight_devices.run(binaries, 'entity_table_cases.py', output)
    compiled = {mesh: pathlib.Path(f'{output}.{mesh}.hlo').read_text() for mesh in cases.COMPILED}
    return np.load(output), {mesh: shapes_in(text) for mesh, text in compiled.items()}


def shapes_in(text):
    found = re.findall(r'\b(?:pred|[a-z]+\d+)\[([\d,]+)\]', text)
    return {tuple(map(int, dims.split(','))) for dims in found}


def layout_of(case):
    return entity_table.Layout(make_mesh(1), len(case.table))


def reference(case):
    """(loss [M], correct [M], gradients to vectors and table) from all scores in float64."""
    vectors, table = case.vectors.astype(np.float64), case.table.astype(np.float64)
    scores, linked = vectors @ table.T, case.labels >= 0
    lse = np.logaddexp.reduce(scores, axis=1, keepdims=True)
    right = np.eye(len(table))[case.labels] * linked[:, None]
    loss = ((lse - scores) * right).sum(axis=1)
    change = (np.exp(scores - lse) - right) * (case.weights * linked)[:, None]
    return loss, scores.argmax(axis=1) == case.labels, change @ table, change.T @ vectors


def assert_is_the_reference(found, case):
    loss, correct, to_vectors, to_table = reference(case)
    assert 3 <= correct.sum() < (case.labels >= 0).sum()
    np.testing.assert_allclose(found[0], loss, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[1], correct)
    np.testing.assert_allclose(found[2], to_vectors, atol=1e-5)
    np.testing.assert_allclose(found[3][: len(to_table)], to_table, atol=1e-5)
    assert not found[3][len(to_table) :].any()  # the padding


@pytest.mark.parametrize('devices', eight_devices.MESHES)
@pytest.mark.parametrize(
    ('way', 'name'), [(way, name) for way in ('full', 'attended') for name in cases.COMPUTED[way]]
)
def test_loss_and_gradients_are_the_reference_on_any_devices(on_devices, way, name, devices):
    found = [on_devices[0][f'{way}-{name}-{devices}-{part}'] for part in cases.PARTS]
    row_devices = eight_devices.row_devices(devices)
    assert len(found[3]) == math.ceil(cases.NUM_ENTITIES[name] / row_devices) * row_devices
    assert_is_the_reference(found, cases.make(name))


@pytest.mark.parametrize('devices', eight_devices.MESHES)
def test_scores_far_from_the_reference_of_some_slices_are_summed_again(on_devices, devices):
    case = cases.far()
    best = (case.vectors @ case.table.T).max(axis=1)
    few = (case.vectors @ case.table[: cases.CHUNK].T).max(axis=1)
    assert (best - few)[: cases.M // 4].max() > 100 > 60 > (best - few)[cases.M // 2 :].max()
    size = np.abs(case.vectors).max()
    # Scores of some hundreds are rounded at the fifth decimal.
    for part, want in zip(cases.PARTS, reference(case)):
        found = on_devices[0][f'far-{devices}-{part}'][: len(want)]
        np.testing.assert_allclose(
            found, want, rtol=1e-4, atol=1e-4 * (size if part == 'table' else 1), err_msg=part
        )


@pytest.mark.parametrize('chunk', [1, 50, 4096])
def test_the_chunk_changes_nothing(chunk):
    case = cases.make('ties')
    assert_is_the_reference(cases.full(case, layout_of(case), chunk), case)


def test_scores_of_any_size_make_no_nan():
    case = cases.make('uneven')
    case = case._replace(vectors=case.vectors * 1e4)
    loss, correct, *gradients = cases.full(case, layout_of(case))
    np.testing.assert_allclose(loss, reference(case)[0], rtol=1e-5, atol=1e-2)
    assert loss.max() > 1e4 and all(np.isfinite(gradient).all() for gradient in gradients)


def test_bfloat16_rows_are_scored_in_float32_and_get_gradients_of_their_type():
    case = cases.make('uneven')
    table = jax.numpy.asarray(case.table, jax.numpy.bfloat16)
    layout = layout_of(case)
    given = case.vectors, case.labels
    loss_of = lambda table: entity_table.softmax_cross_entropy(*given, table, layout)[0]
    rounded = case._replace(table=np.asarray(table, np.float32))
    np.testing.assert_allclose(jax.jit(loss_of)(table), reference(rounded)[0], rtol=1e-5, atol=1e-6)
    assert jax.eval_shape(jax.grad(lambda table: loss_of(table).sum()), table).dtype == table.dtype


@pytest.mark.parametrize('devices', eight_devices.MESHES)
@pytest.mark.parametrize('name', cases.COMPUTED['best'])
def test_best_entities_and_probabilities_are_those_of_the_softmax(on_devices, name, devices):
    case = cases.make(name)
    scores = case.vectors.astype(np.float64) @ case.table.T.astype(np.float64)
    ids = np.argsort(-scores, axis=1, kind='stable')[:, :5]
    sums = np.logaddexp.reduce(scores, axis=1, keepdims=True)
    log_probs = np.take_along_axis(scores, ids, axis=1) - sums
    found = {part: on_devices[0][f'best-{name}-{devices}-{part}'] for part in ('ids', 'log_probs')}
    np.testing.assert_array_equal(found['ids'], ids)
    np.testing.assert_allclose(found['log_probs'], log_probs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('devices', eight_devices.MESHES)
def test_lookup_gives_the_rows_of_the_ids(on_devices, devices):
    case = cases.make('uneven')
    want = np.where(case.labels[:, None] >= 0, case.table[case.labels], 0)
    np.testing.assert_array_equal(on_devices[0][f'lookup-{devices}'], want)


def test_no_array_of_the_train_step_holds_all_entities(on_devices):
    """Nor all rows of one device for all mentions, in a collective or the optimizer either."""
    shapes = on_devices[1]['8']
    assert (cases.M, cases.DIM) in shapes
    assert (13, cases.DIM) in shapes
    assert (cases.M, cases.CHUNK) in shapes
    assert max(map(math.prod, shapes)) == cases.M * cases.DIM, shapes
    assert cases.M * cases.DIM < min(cases.M * 13, 101 * cases.DIM, cases.M * 101)


def test_each_slice_has_its_share_of_the_mentions(on_devices):
    scored = [rows for rows, *others in on_devices[1]['2x4'] if others == [cases.CHUNK]]
    assert {rows for rows in scored if rows > cases.DIM} == {cases.M // 2}


def test_with_all_entities_sampled_it_is_the_full_softmax():
    case = cases.make('uneven')
    assert_is_the_reference(cases.sampled(case, layout_of(case), len(case.table)), case)


def test_the_estimated_sum_of_the_softmax_has_the_right_mean():
    """Without the correction, or with the label drawn twice, it would be far off."""
    case = cases.make('uneven')
    case = case._replace(vectors=case.vectors / 2)
    layout, table = layout_of(case), jax.numpy.asarray(case.table)
    given = case.vectors, case.labels, table, layout, 30
    loss_of = lambda key: entity_table.sampled_softmax_cross_entropy(*given, key)[0]
    keys = jax.random.split(jax.random.key(0), 2000)
    losses = np.asarray(jax.jit(lambda keys: jax.lax.map(loss_of, keys))(keys), np.float64)
    linked = case.labels >= 0
    # In units of the label's exponential.
    sums, want = np.exp(losses)[:, linked], np.exp(reference(case)[0])[linked]
    error = sums.std(axis=0) / np.sqrt(len(sums))
    assert (error < 0.02 * want).all() and (np.abs(sums.mean(axis=0) - want) < 4 * error).all()


@pytest.mark.parametrize('devices', [mesh for mesh in eight_devices.MESHES if mesh != '1'])
def test_the_draws_do_not_depend_on_the_number_of_devices(on_devices, devices):
    of = lambda d: {part: on_devices[0][f'sampled-{d}-{part}'] for part in cases.PARTS}
    one, many = of(1), of(devices)
    n = cases.NUM_ENTITIES['uneven']
    assert 0 < (np.abs(one['table'][:n]).sum(axis=1) == 0).sum() < n  # not all rows were drawn
    np.testing.assert_array_equal(many['correct'], one['correct'])
    np.testing.assert_allclose(many['loss'], one['loss'], rtol=1e-6)
    np.testing.assert_allclose(many['vectors'], one['vectors'], atol=1e-6)
    np.testing.assert_allclose(many['table'][:n], one['table'], atol=1e-6)
    assert not many['table'][n:].any()


@pytest.mark.parametrize('chunk', [4, 100])
def test_attention_over_entities_and_its_gradients_are_those_of_the_plain_formula(chunk):
    rng, layout = np.random.default_rng(0), entity_table.Layout(make_mesh(1), 37)
    table, vectors, probe, weights = (
        rng.normal(size=size).astype(np.float32) for size in ((37, 5), (7, 5), (7, 5), 7)
    )

    def plain(v, t):
        scores = 3 * v @ t.T
        return jax.nn.softmax(scores) @ t, jax.nn.logsumexp(scores, axis=1), scores.argmax(axis=1)

    chunked = lambda v, t: entity_table.attend(3 * v, t, layout, chunk)[1:]
    for expected, found in zip(plain(vectors, table), jax.jit(chunked)(vectors, table)):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

    def probed(v, t, of):
        found, lse, _ = of(v, t)
        return (found * probe).sum() + (lse * weights).sum()

    gradients = (jax.grad(probed, argnums=(0, 1))(vectors, table, of) for of in (plain, chunked))
    for expected, found in zip(*gradients):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
