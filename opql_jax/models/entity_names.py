"""Where linking begins: rows of E made of names as the encoder reads them, and maps to them.

An entity has to be seen many times until its row of E is learnt. A pretrained encoder tells names
apart before that: its states at a name, whitened and projected to d_e numbers, are a row to which
another reading of the name, in another question, leads.
"""

from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np

from opql_jax.data.tokenizer import SpecialIds
from opql_jax.models.bulk_encoding import BatchedEncoder, token_rows
from opql_jax.models.encoder import RelationEncoder

# Added to each direction's variance, as a share of the mean one, so that directions in which states
# hardly differ are not blown up.
_SHRINKAGE = 0.01
# The penalty of the least squares, as a share of the mean square of a state's numbers.
_RIDGE = 1e-3
# States summed at a time.
_ROWS = 1 << 16
# Length of what a map gives: the softmax over E is of its products with rows of length 1.
SHARPNESS = 20.0


def read_names(
    encoder: RelationEncoder,
    params,
    tokens: Sequence[np.ndarray],
    start: np.ndarray,
    num_lower: int,
    length: int,
    special: SpecialIds,
) -> tuple[np.ndarray, np.ndarray]:
    """States at `start` [n] of texts, after `num_lower` layers and after all: [n, hidden_size]."""

    def read(encoder, params, tokens, position):
        bound = encoder.bind({'params': params})
        h = bound.lower_layers(tokens, num_lower)
        inside = jnp.take_along_axis(h, position[:, :, None], axis=1)
        top = bound.upper_layers(h, tokens, num_lower, positions=position)
        return jnp.concatenate([inside, top], axis=2)[:, 0].astype(jnp.float32)

    batched = BatchedEncoder(read, encoder, params, (length,))
    rows = token_rows(tokens, special, start[:, None])
    states = batched.all(*rows, 2 * encoder.hidden_size, 'names read')
    inside, top = np.split(states, 2, axis=1)
    return inside, top


def rows_of_states(
    states: np.ndarray, entity: np.ndarray, num_entities: int, dim: int
) -> np.ndarray:
    """Rows of E [num_entities, dim] of length 1: mean states, whitened and projected at random.

    Whitened by the symmetric root of the covariance, which, unlike its principal directions, has no
    choice of signs or order that two machines could make in different ways. Of `states` [n,
    hidden_size], `entity` [n] is whose name was read; every one at least once.
    """
    mean = states.mean(axis=0, dtype=np.float64)
    covariance = sum((part - mean).T @ (part - mean) for part in _parts(states)) / len(states)
    variances, directions = np.linalg.eigh(covariance)
    floor = max(_SHRINKAGE * variances.mean(), np.finfo(np.float64).tiny)
    whiten = (directions / np.sqrt(np.maximum(variances, 0) + floor)) @ directions.T
    project = whiten @ np.random.default_rng(0).standard_normal((states.shape[1], dim))
    rows = np.zeros((num_entities, dim))
    for part, entities in zip(_parts(states), _parts(entity)):
        np.add.at(rows, entities, (part - mean) @ project)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    # Of names that are read as the mean of all, which has no direction, the rows are random.
    without = np.flatnonzero(lengths[:, 0] <= 1e-6 * lengths.max())
    rows[without] = np.random.default_rng(1).standard_normal((len(without), dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def linear_reader(states: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The least-squares map [hidden_size, d_e] of states to rows [n, d_e] of length `SHARPNESS`."""
    hidden, dim = states.shape[1], rows.shape[1]
    products, wanted = np.zeros((hidden, hidden)), np.zeros((hidden, dim))
    for part, rows_of_part in zip(_parts(states), _parts(rows)):
        part = part.astype(np.float64)
        products += part.T @ part
        wanted += part.T @ rows_of_part
    penalty = max(_RIDGE * np.trace(products) / hidden, np.finfo(np.float64).tiny)
    return (SHARPNESS * np.linalg.solve(products + penalty * np.eye(hidden), wanted)).astype(
        np.float32
    )


def _parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of an array, so many at a time: only these take the memory of float64."""
    return (array[start : start + _ROWS] for start in range(0, len(array), _ROWS))
