"""`model.json` and `tokenizer.json` of a training run: with a checkpoint, all that is needed to use the model elsewhere."""

import dataclasses
import json

from opql_jax.core import files
from opql_jax.core.files import atomic_path
from opql_jax.data.prepared import Prepared
from opql_jax.models.bag_of_words import BagOfWords
from opql_jax.models.encoder import RelationEncoder
from opql_jax.training.checkpoints import CheckpointError, Checkpoints

FORMAT, VERSION = 'opql-model', 1
FIELDS = {'encoder_class', 'encoder', 'pair_encoding', 'num_entities', 'vocabulary_hash'}
ENCODERS = {kind.__name__: kind for kind in (RelationEncoder, BagOfWords)}


def write(workdir, encoder: RelationEncoder, prepared: Prepared, pair_encoding: str = 'marked_pair') -> None:
    """Writes both files; each appears whole or not at all. `pair_encoding`: how memories encode pairs, see `models.bulk_encoding`."""
    workdir = files.path(workdir)
    fields = {f.name: getattr(encoder, f.name) for f in dataclasses.fields(encoder) if f.name not in ('parent', 'name')}
    config = {
        'format': FORMAT,
        'version': VERSION,
        'encoder_class': type(encoder).__name__,
        'encoder': fields,
        'pair_encoding': pair_encoding,
        'num_entities': len(prepared.vocab),
        'vocabulary_hash': prepared.vocab.hash(),
    }
    with atomic_path(workdir / 'tokenizer.json') as path:
        path.write_bytes(prepared.tokenizer_path.read_bytes())
    with atomic_path(workdir / 'model.json') as path:
        path.write_text(json.dumps(config, indent=2))


def read(model_dir) -> dict:
    """The `model.json` of a training run's folder.

    Raises:
        CheckpointError: it is no such folder, or of another version.
    """
    path = files.path(model_dir) / 'model.json'
    if not path.exists():
        raise CheckpointError(f'{path} does not exist: {model_dir} is not the workdir of a training run')
    try:
        config = json.loads(path.read_text(encoding='utf-8'))
        found = config.get('format'), config.get('version')
        complete = found != (FORMAT, VERSION) or config.keys() >= FIELDS
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f'{path} is damaged ({error}): copy it again from where the model was trained') from error
    if not complete:
        raise CheckpointError(f'{path} is damaged (fields are missing): copy it again from where the model was trained')
    if found != (FORMAT, VERSION):
        raise CheckpointError(f'{path}: format {found[0]!r} version {found[1]!r}, this program reads {FORMAT!r} {VERSION}')
    if config['encoder_class'] not in ENCODERS:
        raise CheckpointError(f'{path}: encoder_class {config["encoder_class"]!r} is not one of {", ".join(ENCODERS)}')
    return config


def load(model_dir, step: int | None = None):
    """Opens a training run's folder.

    Returns:
        (encoder, params, config, meta): the module, the parameters, `model.json`, and the checkpoint's meta data.

    Raises:
        CheckpointError: it is no such folder, of another version, or holds no whole checkpoint.
    """
    config = read(model_dir)
    with Checkpoints(model_dir, read_only=True) as checkpoints:
        params, meta = checkpoints.params(step), checkpoints.meta(step)
    return ENCODERS[config['encoder_class']](**config['encoder']), params, config, meta


def check_vocabulary(config: dict, prepared: Prepared, model_dir, grown: bool = False) -> None:
    """Raises CheckpointError if the model was trained with another entity vocabulary or tokenizer.

    A `grown` vocabulary may go on after the model's entities, for whoever has embeddings for the others.
    """
    count = config['num_entities']
    if config['vocabulary_hash'] != prepared.vocab.hash(count) or (len(prepared.vocab) > count and not grown):
        raise CheckpointError(
            f'{model_dir} was trained with an entity vocabulary of {config["num_entities"]} entities, hash {config["vocabulary_hash"][:12]}, but'
            f' {prepared.directory} has {len(prepared.vocab)}, hash {prepared.vocab.hash()[:12]}: use the prepared folder it was trained on'
        )
    tokenizer = files.path(model_dir) / 'tokenizer.json'
    if not tokenizer.exists() or tokenizer.read_bytes() != prepared.tokenizer_path.read_bytes():
        raise CheckpointError(
            f'{tokenizer} is not the tokenizer of {prepared.directory}, so the model would read other words than were written: use the'
            ' prepared folder it was trained on, or prepare with that file as `tokenizer`'
        )
