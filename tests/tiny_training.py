"""What the training tests share: a prepared folder of short passages, an encoder of a few hundred weights, short runs."""

import functools
import pathlib

import jax
import numpy as np

import tiny_prepared
from opql_jax.models.encoder import RelationEncoder
from opql_jax.training import stages
from opql_jax.training.build import build_memory
from opql_jax.training.checkpoints import Checkpoints
from opql_jax.training.run import train

encoder = functools.partial(
    RelationEncoder, hidden_size=16, num_layers=1, num_heads=2, mlp_size=32, max_length=144, relation_dim=8, entity_dim=8
)


def write_prepared(directory: pathlib.Path, seed: int = 0) -> pathlib.Path:
    """A prepared folder whose passages fit the two shortest buckets."""
    return tiny_prepared.write(directory, seed=seed, longest=12)


def run(prepared, workdir, stage=None, **options) -> dict:
    """Trains a stage (a small entity stage if None) for a few steps."""
    settings = dict(num_steps=3, warmup_steps=1, encoder=encoder, log_every=1)
    return train(
        prepared_dir=str(prepared), workdir=str(workdir), stage=stage or stages.EntityStage(rows=16), **(settings | options)
    )


def write_memory(prepared, model, memory, **options) -> pathlib.Path:
    build_memory(prepared_dir=str(prepared), model_dir=str(model), memory_dir=str(memory), **options)
    return memory


def params_of(workdir, step=None) -> dict[str, np.ndarray]:
    """The parameters of a checkpoint by name, 'encoder/w_r/kernel' and so on."""
    store = Checkpoints(workdir, read_only=True)
    leaves = jax.tree_util.tree_flatten_with_path(store.params(step))[0]
    store.close()
    return {jax.tree_util.keystr(path, simple=True, separator='/'): np.asarray(leaf) for path, leaf in leaves}
