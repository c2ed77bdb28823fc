"""`model.json` and `tokenizer.json` of a run: what it takes to use its checkpoints."""

import dataclasses
from typing import Annotated, Any, Literal

import jax
import msgspec

from opql_jax.core import files, locks, manifest
from opql_jax.core.errors import InputError
from opql_jax.data.prepared import Prepared
from opql_jax.models.bag_of_words import BagOfWords
from opql_jax.models.encoder import RelationEncoder, check_computes, init_params, shape_differences
from opql_jax.models.modern_bert import ModernEncoder
from opql_jax.training.checkpoints import CheckpointError, Checkpoints

MAX_LAYERS = 1000  # more are taken for damage, as laying them out would take long
# Parameters that an objective adds to those of the encoder and the entities.
OWN_PARAMETERS = ('follower', 'lm', 'reader')
ENCODERS: dict[str, Any] = {e.__name__: e for e in (RelationEncoder, ModernEncoder, BagOfWords)}


class ModelConfig(manifest.Header, kw_only=True, forbid_unknown_fields=True):
    """What `model.json` states."""

    encoder_class: str  # a name in ENCODERS
    encoder: dict[str, Any]  # the fields of the encoder
    # How memories encode pairs, see `models.bulk_encoding`.
    pair_encoding: Literal['marked_pair', 'span_pair', 'mention']
    # Of the vocabulary it was trained with.
    num_entities: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    vocabulary_hash: str  # likewise


FORMAT = manifest.FolderFormat('opql-model', 1, 'a model', 'train', ModelConfig, 'model.json')


def _fields(kind) -> list[dataclasses.Field]:
    """The fields of an encoder's class that say what it computes, not how it is trained."""
    others = ('parent', 'name', 'accumulate_steps', 'remat')
    return [field for field in dataclasses.fields(kind) if field.name not in others]


def _check_fields(kind, fields: dict) -> None:
    """Raises msgspec.ValidationError unless `fields` are an encoder's, of their types."""
    size = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    layers = Annotated[int, msgspec.Meta(ge=1, le=MAX_LAYERS)]
    types = {field.name: size if field.type is int else field.type for field in _fields(kind)}
    limits = {
        'num_layers': layers,
        'relative_buckets': Annotated[int, msgspec.Meta(ge=0, lt=2**31)],
    }
    types |= {name: limit for name, limit in limits.items() if name in types}
    msgspec.convert(
        fields,
        msgspec.defstruct(kind.__name__, types.items(), forbid_unknown_fields=True, kw_only=True),
    )


def check_free(workdir) -> None:
    """Raises InputError if a folder to train into holds files, and no model."""
    workdir = files.path(workdir)
    if (workdir / FORMAT.file).exists():
        read(workdir)
        return
    partial = f'.{FORMAT.file}.'  # of a run that was killed while it wrote the first file
    if others := sorted(
        path
        for path in workdir.rglob('*')
        if path.is_file() and not (path.name.startswith(partial) or locks.is_lock(path))
    ):
        raise InputError(
            f'{workdir} holds other files ({others[0].name}) and no model: '
            'give a new or empty folder'
        )


def write(
    workdir, encoder: RelationEncoder, prepared: Prepared, pair_encoding: str = 'marked_pair'
) -> None:
    """Writes both files; each appears whole or not at all. `pair_encoding`: see `ModelConfig`."""
    fields = {
        'encoder_class': type(encoder).__name__,
        'encoder': {field.name: getattr(encoder, field.name) for field in _fields(type(encoder))},
        'pair_encoding': pair_encoding,
        'num_entities': len(prepared.vocab),
        'vocabulary_hash': prepared.vocab.hash(),
    }
    manifest.write_manifest(workdir, FORMAT, fields)  # first, as it shows whose folder this is
    tokenizer = prepared.tokenizer_path.read_bytes()
    files.write_bytes(files.path(workdir) / 'tokenizer.json', tokenizer)


def read(model_dir) -> ModelConfig:
    """The `model.json` of a training run's folder; ManifestError if missing or damaged."""
    config = manifest.read_manifest(model_dir, FORMAT)
    path = files.path(model_dir) / FORMAT.file
    if config.encoder_class not in ENCODERS:
        raise manifest.ManifestError(
            f'{path}: encoder_class {config.encoder_class!r} is not one of {", ".join(ENCODERS)}'
        )
    try:
        _check_fields(ENCODERS[config.encoder_class], config.encoder)
    except msgspec.ValidationError as error:
        problem = f'not what this program writes: encoder: {error}'
        raise FORMAT.damaged(path, problem) from error
    return config


def load(model_dir, step: int | None = None):
    """Opens a run's folder: module, parameters, `ModelConfig`, and the checkpoint's meta data.

    ManifestError: see `read`. CheckpointError: no whole checkpoint, or one that does not fit
    `model.json`.
    """
    config = read(model_dir)
    encoder = ENCODERS[config.encoder_class](**config.encoder)
    with Checkpoints(model_dir, read_only=True) as checkpoints:
        params, meta = checkpoints.load(step)
    path = files.path(model_dir) / FORMAT.file
    found = {name: value for name, value in params.items() if name not in OWN_PARAMETERS}
    try:
        expected = jax.eval_shape(lambda: init_params(encoder, config.num_entities, 0))
    except InputError as error:
        raise CheckpointError(
            f'{path} is damaged ({error}): copy it again from where the model was trained'
        ) from error
    if differences := shape_differences(expected, found):
        raise CheckpointError(
            f'{path} is of another model than the checkpoint: {differences}. Copy the folder again '
            'from where it was trained'
        )
    return encoder, params, config, meta


def is_model(folder) -> bool:
    """Whether a folder is that of a training run."""
    return manifest.is_folder_of(folder, FORMAT)


def check_start(
    config: ModelConfig, encoder, prepared: Prepared, model_dir, other_entities: bool = False
) -> None:
    """InputError unless a model has this text's tokenizer and entities, and computes alike."""
    if other_entities:
        check_tokenizer(prepared, model_dir)
    else:
        check_vocabulary(config, prepared, model_dir)
    check_computes(encoder, ENCODERS[config.encoder_class], config.encoder, model_dir)


def check_vocabulary(
    config: ModelConfig, prepared: Prepared, model_dir, grown: bool = False
) -> None:
    """Raises CheckpointError if the model was trained with other entities or another tokenizer.

    A `grown` vocabulary may have more entities, for callers that have embeddings for them.
    """
    count = config.num_entities
    if config.vocabulary_hash != prepared.vocab.hash(count) or (
        len(prepared.vocab) > count and not grown
    ):
        raise CheckpointError(
            f'{model_dir} was trained with an entity vocabulary of {config.num_entities} entities, '
            f'hash {config.vocabulary_hash[:12]}, but {prepared.directory} has '
            f'{len(prepared.vocab)}, hash {prepared.vocab.hash()[:12]}: use the prepared folder it '
            'was trained on'
        )
    check_tokenizer(prepared, model_dir)


def check_tokenizer(prepared: Prepared, model_dir) -> None:
    """Raises CheckpointError if the model was trained with another tokenizer."""
    tokenizer = files.below(model_dir, 'tokenizer.json')
    if not tokenizer.exists() or tokenizer.read_bytes() != prepared.tokenizer_path.read_bytes():
        raise CheckpointError(
            f'{tokenizer} is not the tokenizer of {prepared.directory}, so the model would read '
            'other words than were written: use the prepared folder it was trained on, or prepare '
            'with that file as `tokenizer`'
        )
