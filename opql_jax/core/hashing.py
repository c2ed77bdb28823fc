"""Names of the arrays in a tree, and the hash that identifies it: an encoder, E, a checkpoint."""

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np


def leaf_name(path) -> str:
    """'encoder/w_r/kernel' for the path of a leaf."""
    import jax

    return jax.tree_util.keystr(path, simple=True, separator='/')


def params_hash(tree) -> str:
    """Hex SHA-256 of a tree of arrays: path, dtype, shape and bytes of every leaf, by path."""
    digest = hashlib.sha256()
    for name, leaf in sorted(_leaves(tree)):
        digest.update(f'{name}\0{leaf.dtype}\0{leaf.shape}\0'.encode())
        digest.update(leaf.reshape(-1).view(np.uint8).data)  # which copies nothing
    return digest.hexdigest()


def _leaves(tree) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a tree with their names; a tree of dicts needs no JAX."""
    if isinstance(tree, Mapping):
        for key, inner in tree.items():
            yield from ((f'{key}/{name}' if name else key, leaf) for name, leaf in _leaves(inner))
    elif isinstance(tree, np.ndarray):
        yield '', tree
    else:
        import jax

        for path, leaf in jax.tree.leaves_with_path(tree):
            yield leaf_name(path), np.asarray(leaf)
