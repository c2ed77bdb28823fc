"""Hashes that identify parameters: of an encoder, an entity table, a checkpoint."""

import hashlib

import jax
import numpy as np


def params_hash(tree) -> str:
    """Hex SHA-256 of a tree of arrays: path, dtype, shape and bytes of every leaf, by path."""
    digest = hashlib.sha256()
    leaves = [
        (jax.tree_util.keystr(path, simple=True, separator='/'), leaf)
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]
    for path, leaf in sorted(leaves, key=lambda item: item[0]):
        leaf = np.asarray(leaf)
        digest.update(f'{path}\0{leaf.dtype}\0{leaf.shape}\0'.encode())
        digest.update(leaf.reshape(-1).view(np.uint8).data)  # which copies nothing
    return digest.hexdigest()
