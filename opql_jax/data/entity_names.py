"""Entity embeddings that begin with what the entities are called."""

from collections.abc import Sequence

import numpy as np

_BLOCK = 65_536  # names that are tokenised at once


def table_of_names(tokenizer, names: Sequence[str], dim: int) -> np.ndarray:
    """A row for each name: the sum of a random vector for each of its word pieces, rare ones counting more, at length 1.

    To be recognised, an entity with a row of its own has to be seen again and again. These rows are one function of all names, which
    an encoder that reads a name learns from any of them.

    Args:
        tokenizer: of the encoder.
        names: of the entities.
        dim: of the rows.

    Returns:
        [names, dim] float32, the same for every seed of training. Names of the same pieces, in whatever order, have the same row until
        training tells them apart.
    """
    unknown = [tokenizer.token_to_id('[UNK]')]  # of a name that is nothing but marks, such as a zero-width space

    def pieces():
        for start in range(0, len(names), _BLOCK):
            encodings = tokenizer.encode_batch(list(names[start : start + _BLOCK]), add_special_tokens=False)
            yield start, [encoding.ids or unknown for encoding in encodings]

    size = tokenizer.get_vocab_size()
    named = np.zeros(size)  # names that have a piece
    for _, ids in pieces():
        for row in ids:
            named[np.unique(row)] += 1
    weight = np.log1p(len(names) / np.maximum(named, 1))
    vectors = (weight[:, None] * np.random.default_rng(0).standard_normal((size, dim))).astype(np.float32)
    table = np.zeros((len(names), dim), np.float32)
    for start, ids in pieces():
        for at, row in enumerate(ids, start):
            table[at] = vectors[row].sum(axis=0)
    return table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
