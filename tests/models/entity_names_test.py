"""Rows of E from how names are read, and the maps to them, against formulas in float64."""

import numpy as np
import pytest
import scipy.linalg

from opql_jax.data.tokenizer import SpecialIds
from opql_jax.models import entity_names
from opql_jax.models.encoder import init_params

import tiny_training

ENTITIES, HIDDEN = 60, 24


def readings(rng, noise=0.2):
    """States [2 ENTITIES, HIDDEN] of two readings of each name: what is common to all is much
    larger than what tells names apart.
    """
    scale, entity = np.geomspace(3, 0.1, HIDDEN), np.tile(np.arange(ENTITIES), 2)
    names = np.random.default_rng(0).standard_normal((ENTITIES, HIDDEN))
    read = names[entity] + noise * rng.standard_normal((len(entity), HIDDEN))
    return (scale * read + 20).astype(np.float32), entity


@pytest.mark.parametrize('dim', [8, 16, 40])  # fewer numbers than a state has, and more
def test_a_row_is_the_mean_of_whitened_states(dim, monkeypatch):
    states, entity = readings(np.random.default_rng(1))
    covariance = np.cov(states.astype(np.float64).T, bias=True)
    covariance += 0.01 * np.trace(covariance) / HIDDEN * np.eye(HIDDEN)
    whiten = np.linalg.inv(scipy.linalg.sqrtm(covariance))
    white = (states - states.astype(np.float64).mean(axis=0)) @ whiten
    project = np.random.default_rng(0).standard_normal((HIDDEN, dim))
    expected = white.reshape(2, ENTITIES, HIDDEN).mean(axis=0) @ project
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    rows = entity_names.rows_of_states(states, entity, ENTITIES, dim)
    assert rows.dtype == np.float32 and rows.shape == (ENTITIES, dim)
    np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(entity_names, '_ROWS', 7)
    again = entity_names.rows_of_states(states, entity, ENTITIES, dim)
    np.testing.assert_allclose(again, rows, rtol=1e-4, atol=1e-5)
    # Whatever unit a state has, and in whatever order the readings come.
    order = np.random.default_rng(2).permutation(len(entity))
    again = entity_names.rows_of_states(1000 * states[order], entity[order], ENTITIES, dim)
    np.testing.assert_allclose(again, rows, rtol=1e-3, atol=1e-4)


def test_the_map_is_the_least_squares_solution(monkeypatch):
    monkeypatch.setattr(entity_names, '_ROWS', 50)
    states, entity = readings(np.random.default_rng(1))
    rows = np.random.default_rng(3).standard_normal((ENTITIES, 8)).astype(np.float32)[entity]
    penalty = 1e-3 * np.square(states.astype(np.float64)).sum() / HIDDEN
    padded = np.vstack([states.astype(np.float64), np.sqrt(penalty) * np.eye(HIDDEN)])
    expected = np.linalg.lstsq(padded, np.vstack([rows, np.zeros((HIDDEN, 8))]), rcond=None)[0]
    found = entity_names.linear_reader(states, rows) / entity_names.SHARPNESS
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize('num_lower', [0, 1])
def test_states_are_those_of_a_text_by_itself(num_lower):
    encoder = tiny_training.encoder(vocab_size=50, num_layers=2)
    params = init_params(encoder, 3, 0)['encoder']
    rng = np.random.default_rng(0)
    tokens = [rng.integers(10, 50, size=n).astype(np.int32) for n in (5, 16, 9, 1)]
    start = np.array([3, 15, 0, 0])
    special = SpecialIds(*range(len(SpecialIds._fields)))
    inside, top = entity_names.read_names(encoder, params, tokens, start, num_lower, 16, special)
    assert inside.dtype == top.dtype == np.float32
    for row, at, found_inside, found_top in zip(tokens, start, inside, top):
        whole = encoder.apply({'params': params}, row[None], method=encoder.hidden)
        lower = encoder.apply({'params': params}, row[None], num_lower, method=encoder.lower_layers)
        np.testing.assert_allclose(found_top, whole[0, at], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found_inside, lower[0, at], rtol=1e-4, atol=1e-5)
