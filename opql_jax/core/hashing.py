"""Names of the arrays in a tree, and the hash that identifies it: an encoder, E, a checkpoint."""

import hashlib

import jax
import numpy as np


def leaf_name(path) -> str:
    """'encoder/w_r/kernel' for the path of a leaf."""
    return jax.tree_util.keystr(path, simple=True, separator='/')


def params_hash(tree) -> str:
    """Hex SHA-256 of a tree of arrays: path, dtype, shape and bytes of every leaf, by path."""
    digest = hashlib.sha256()
    leaves = {leaf_name(path): np.asarray(leaf) for path, leaf in jax.tree.leaves_with_path(tree)}
    for name, leaf in sorted(leaves.items()):
        digest.update(f'{name}\0{leaf.dtype}\0{leaf.shape}\0'.encode())
        digest.update(leaf.reshape(-1).view(np.uint8).data)  # which copies nothing
    return digest.hexdigest()
