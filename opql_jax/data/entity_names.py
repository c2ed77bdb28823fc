"""Entity embeddings that begin with what the entities are called."""

from collections.abc import Sequence

import numpy as np


def table_of_names(tokenizer, names: Sequence[str], dim: int, seed: int = 0) -> np.ndarray:
    """A row for each name: the sum of a random vector for each of its word pieces, rare ones counting more, at length 1.

    To be recognised, an entity with a row of its own has to be seen again and again. These rows are one function of all names, which
    an encoder that reads a name learns from any of them.

    Args:
        tokenizer: of the encoder.
        names: of the entities.
        dim: of the rows.
        seed: of the vectors of the word pieces.

    Returns:
        [names, dim] float32. Names of the same pieces have the same row.
    """
    ids = [encoding.ids for encoding in tokenizer.encode_batch(list(names), add_special_tokens=False)]
    owner, piece = (
        np.repeat(np.arange(len(ids)), [len(row) for row in ids]),
        np.concatenate([*map(np.asarray, ids), []]).astype(int),
    )
    size = tokenizer.get_vocab_size()
    used = np.unique(owner * size + piece) % size
    weight = np.log1p(len(ids) / np.maximum(np.bincount(used, minlength=size), 1))
    vectors = weight[:, None] * np.random.default_rng(seed).standard_normal((size, dim))
    rows = np.zeros((len(ids), dim))
    np.add.at(rows, owner, vectors[piece])
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)
