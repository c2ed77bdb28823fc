"""Where linking begins: rows of E made of how the encoder reads the names of entities, and the maps that lead from what it reads to them.

To be recognised, an entity with a row of its own has to be seen again and again. An encoder that was pretrained tells names apart before
that: its states at a name, whitened and projected to d_e numbers, are a row that another reading of the name, in another question, leads
back to.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from opql_jax.data import batching
from opql_jax.data.tokenizer import SpecialIds
from opql_jax.models.bulk_encoding import BatchedEncoder, Batching
from opql_jax.models.encoder import RelationEncoder

# Of the mean variance of a state's numbers, added to each: directions in which states hardly differ are not blown up.
_SHRINKAGE = 0.01
# The penalty of the least squares, of the mean square of a state's numbers.
_RIDGE = 1e-3
# How long what is read is: the softmax over E compares products with rows of length 1.
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
    """What the transformer holds at one position of each text.

    Args:
        encoder: the module.
        params: its parameters.
        tokens: of n texts, [at most `length`] each.
        start: [n], the positions.
        num_lower: layers after which the first states are taken, fewer than all.
        length: that all texts are padded to.
        special: marker ids.

    Returns:
        The states after `num_lower` layers and after all, [n, hidden_size] float32 each.
    """

    def read(params, tokens, position):
        bound = encoder.bind({'params': params})
        h = bound.lower_layers(tokens, num_lower)
        inside = jnp.take_along_axis(h, position[:, :, None], axis=1)
        return jnp.concatenate([inside, bound.upper_layers(h, tokens, num_lower, positions=position)], axis=1).astype(
            jnp.float32
        )

    def make_batch(chosen, size, length):
        position = np.zeros((size, 1), np.int32)
        position[: len(chosen), 0] = start[chosen]
        return batching.pad_tokens([tokens[i] for i in chosen], size, length, special), position

    states = np.empty((len(tokens), 2, encoder.hidden_size), np.float32)
    lengths = np.array([len(row) for row in tokens], np.int64)
    for chosen, found in BatchedEncoder(read, params, Batching((length,)))(lengths, make_batch):
        states[chosen] = found
    return states[:, 0], states[:, 1]


def rows_of_states(states: np.ndarray, entity: np.ndarray, num_entities: int, dim: int) -> np.ndarray:
    """A row of length 1 for each entity: its mean state, whitened and projected at random.

    Whitened by the symmetric root of the covariance, which, unlike its principal directions, has no choice of signs or order that two
    machines could make in different ways.

    Args:
        states: [n, hidden_size], of all entities.
        entity: [n], whose name was read; every entity at least once.
        num_entities: rows.
        dim: of a row.

    Returns:
        [num_entities, dim] float32, the same for the same states.
    """
    states = states.astype(np.float64)
    centred = states - states.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(states))
    floor = max(_SHRINKAGE * variances.mean(), np.finfo(np.float64).tiny)
    whiten = (directions / np.sqrt(np.maximum(variances, 0) + floor)) @ directions.T
    projection = np.random.default_rng(0).standard_normal((states.shape[1], dim))
    rows = np.zeros((num_entities, dim))
    np.add.at(rows, entity, centred @ whiten @ projection)
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def linear_reader(states: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The map from states to rows of E, by least squares: [hidden_size, d_e] float32 for states [n, hidden_size] and rows [n, d_e].

    What it gives is `SHARPNESS` long where it is right.
    """
    states = states.astype(np.float64)
    products = states.T @ states
    penalty = _RIDGE * np.trace(products) / len(products) * np.eye(len(products))
    return (SHARPNESS * np.linalg.solve(products + penalty, states.T @ rows)).astype(np.float32)
