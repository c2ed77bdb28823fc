"""Released encoders and readers: folders in the form of Hugging Face's, complete and small.

    config.json         the format, the fields of the encoder, and the digest of every other file
    model.safetensors   the parameters by their names, matrices as int8 with a float32 scale for
                        each of their outputs
    tokenizer.json      the tokenizer
    kinds.safetensors   what tells the kinds of mentions, see `mention_kinds`; may be missing
    README.md           the model card: data, licence, figures

Parameters are float32 once they are read. Rounding them to 8 bits keeps the cosine of relations
above .999.
"""

import functools
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import safetensors.numpy
from tokenizers import Tokenizer

from opql_jax.core import files, locks
from opql_jax.core import manifest as manifest_lib
from opql_jax.core.arrays import bad_row, read_tensors
from opql_jax.core.checkout import RELEASED_ENCODER
from opql_jax.core.errors import InputError
from opql_jax.core.manifest import FolderFormat, Manifest
from opql_jax.data import tokenizer as tokenizer_lib
from opql_jax.models.encoder_fields import EncoderFields, check_fields
from opql_jax.models.hugging_face_tensors import layout
from opql_jax.models.mention_kinds import MentionKinds

if TYPE_CHECKING:
    from opql_jax.models.encoder import RelationEncoder

WEIGHTS = 'model.safetensors'
TOKENIZER = 'tokenizer.json'
CARD = 'README.md'
KINDS = 'kinds.safetensors'
_SCALE = '.int8_scale'


class ReleaseConfig(Manifest, forbid_unknown_fields=True, kw_only=True):
    """What `config.json` states."""

    encoder: EncoderFields


def _format(kind: str, version: int) -> FolderFormat[ReleaseConfig]:
    nouns = f'opql-{kind}', version, f'a released {kind}', 'release'
    return FolderFormat(*nouns, ReleaseConfig, 'config.json', f'download the {kind} again')


FORMAT, READER_FORMAT = _format('encoder', 1), _format('reader', 2)
# What a reader has besides, by the outputs of each: see `models.reader`.
READER_HEAD = {'kernel': 6, 'begin_kernel': 64, 'end_kernel': 64}


def write(
    folder: str | os.PathLike,
    encoder: 'RelationEncoder | EncoderFields',
    params,
    tokenizer: str,
    card: str,
    format: FolderFormat = FORMAT,
) -> None:
    """Writes a released encoder; `config.json`, without which the folder is none, comes last.

    The folder is new or empty, or that of another release. W_e is left out. `tokenizer` and `card`
    are the content of `tokenizer.json` and of the model card in Markdown; READER_FORMAT is for
    parameters that include a reader's. InputError: the folder holds something else, another process
    writes there, or a parameter is not finite.
    """
    from flax import traverse_util

    folder = files.require_local(folder)
    tensors: dict[str, np.ndarray] = {}
    for name, value in traverse_util.flatten_dict(params, sep='.').items():
        if not name.startswith('w_e.'):
            tensors |= _rounded(name, np.asarray(value, np.float32))
    with locks.writer(folder):
        others = [path for path in folder.iterdir() if not locks.is_lock(path)]
        if others and not manifest_lib.is_folder_of(folder, format):
            raise InputError(f'{folder} holds other files: give a new or empty folder')
        digests = {}
        for name, content in (
            (WEIGHTS, safetensors.numpy.save(tensors)),
            (TOKENIZER, tokenizer.encode()),
            (CARD, card.encode()),
        ):
            files.write_bytes(folder / name, content)
            digests[name] = files.digest(folder / name)
        fields = {name: getattr(encoder, name) for name in EncoderFields.__struct_fields__}
        manifest_lib.write_manifest(folder, format, {'encoder': fields}, digests)
        (folder / KINDS).unlink(missing_ok=True)  # of the encoder before


def add_kinds(folder: str | os.PathLike, kinds: MentionKinds) -> None:
    """Adds or replaces the classifier of mentions; ManifestError if there is no such encoder."""
    folder = files.require_local(folder)
    with locks.writer(folder):
        config = manifest_lib.read_manifest(folder, FORMAT)
        files.write_bytes(folder / KINDS, kinds.to_bytes())
        stated = {'encoder': msgspec.structs.asdict(config.encoder)}
        manifest_lib.write_manifest(
            folder, FORMAT, stated, {**config.files, KINDS: files.digest(folder / KINDS)}
        )


def path_of(folder: str | os.PathLike) -> pathlib.Path:
    """Where a released encoder lies on disk: 'default' is the one that comes with the package."""
    return RELEASED_ENCODER if folder == 'default' else files.require_local(folder)


def is_released(folder: str | os.PathLike) -> bool:
    """Whether a folder, or 'default', is that of a released encoder."""
    return folder == 'default' or manifest_lib.is_folder_of(folder, FORMAT)


def weights_hash(folder: str | os.PathLike, format: FolderFormat = FORMAT) -> str:
    """The SHA-256 of released weights, as `config.json` states it; ManifestError if none."""
    return manifest_lib.read_manifest(path_of(folder), format).files[WEIGHTS].sha256


def parameters_to_train(
    folder: str | os.PathLike,
    encoder: 'RelationEncoder',
    fresh: Mapping[str, Any],
    tokenizer: Tokenizer,
) -> dict[str, Any]:
    """Parameters to train on from a released encoder, with fresh W_e.

    `folder` may be 'default'; `fresh` are parameters of the encoder to train, `tokenizer` that of
    the text. InputError: there is no such encoder, or its shape, tokenizer or computation differs.
    """
    from opql_jax.models.encoder import check_computes, shape_differences

    path = path_of(folder)
    fields, params, own = read(path)
    other = module(fields)
    if own.to_str() != tokenizer.to_str():
        raise InputError(
            f'{path} has another tokenizer: prepare the text with it, TOKENIZER={path}'
        )
    check_computes(encoder, type(other), vars(other), path)
    merged = {**params, 'w_e': fresh['w_e']}
    if shape_differences(fresh, merged):
        fields = ', '.join(f'{n}={getattr(other, n)}' for n in EncoderFields.__struct_fields__)
        raise InputError(
            f'{path} has another shape than the encoder that is trained, it has {fields}: see '
            'gin/models/released.gin'
        )
    return merged


def state(folder: str | os.PathLike) -> tuple:
    """The state of a release's files, which differs once one was written again."""
    paths = [pathlib.Path(folder, name) for name in (WEIGHTS, TOKENIZER, CARD, KINDS, FORMAT.file)]
    stats = [path.stat() if path.exists() else None for path in paths]
    return tuple(s and (s.st_ino, s.st_mtime_ns, s.st_ctime_ns, s.st_size) for s in stats)


def read_kinds(folder: str | os.PathLike) -> MentionKinds | None:
    """The classifier of mentions, None if there is none; ManifestError as of `read`."""
    folder = files.require_local(folder)
    config = manifest_lib.read_manifest(folder, FORMAT)
    if KINDS not in config.files:
        return None
    path = manifest_lib.checked_file(folder, KINDS, config, FORMAT)
    try:
        return MentionKinds.from_bytes(path.read_bytes(), config.encoder.hidden_size)
    except InputError as error:
        raise FORMAT.damaged(path, error) from error


def read(
    folder: str | os.PathLike, format: FolderFormat = FORMAT
) -> tuple[EncoderFields, Any, Tokenizer]:
    """Opens a released encoder: its fields, parameters (NumPy, float32), and tokenizer.

    With READER_FORMAT it opens a reader, whose parameters include the reader's. ManifestError: the
    folder is missing, not a release, or damaged.
    """
    folder = files.require_local(folder)
    config = manifest_lib.read_manifest(folder, format)
    manifest_lib.check_files(folder, config, format)
    manifest_lib.verify_files(folder, config, format)
    encoder = config.encoder
    try:
        shapes = _shapes(encoder)
        if format is READER_FORMAT:
            head = {f'reader.{name}': outputs for name, outputs in READER_HEAD.items()}
            shapes |= {name: (encoder.hidden_size, outputs) for name, outputs in head.items()}
    except InputError as error:
        raise format.damaged(folder / format.file, error) from error
    path = manifest_lib.checked_file(folder, WEIGHTS, config, format)
    try:
        stored = read_tensors(path.read_bytes())
        params = {
            name: _exact(name, stored, shapes)
            for name in sorted(stored)
            if not name.endswith(_SCALE)
        }
    except InputError as error:
        raise format.damaged(path, error) from error
    params['w_e.kernel'] = np.zeros((encoder.hidden_size, 0), np.float32)
    if missing := sorted(shapes.keys() - params.keys()):
        raise format.damaged(path, f'has no {missing[0]}, which {format.file} says')
    file = manifest_lib.checked_file(folder, TOKENIZER, config, format)
    tokenizer = tokenizer_lib.load_tokenizer(file)
    most = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if most >= encoder.vocab_size:
        raise format.damaged(file, f'has token {most} of {encoder.vocab_size}')
    tree: dict[str, Any] = {}
    for name, value in params.items():
        *outer, last = name.split('.')
        functools.reduce(lambda node, part: node.setdefault(part, {}), outer, tree)[last] = value
    return encoder, tree, tokenizer


def module(encoder: 'RelationEncoder | EncoderFields') -> 'RelationEncoder':
    """The module that has the fields of a released encoder; a module is itself."""
    from opql_jax.models.encoder import RelationEncoder

    if isinstance(encoder, RelationEncoder):
        return encoder
    return RelationEncoder(**msgspec.structs.asdict(encoder), entity_dim=0, dropout_rate=0.0)


def _shapes(encoder: EncoderFields) -> dict[str, tuple[int, ...]]:
    """The shapes of an encoder's parameters by name; InputError if there can be no such encoder."""
    check_fields(encoder)
    shapes = {name.replace('/', '.'): stored.shape for name, stored in layout(encoder).items()}
    w_r = 2 * encoder.hidden_size, encoder.relation_dim
    return shapes | {'w_r.kernel': w_r, 'w_e.kernel': (encoder.hidden_size, 0)}


def _rounded(name: str, value: np.ndarray) -> dict[str, np.ndarray]:
    """A parameter as stored: a matrix in 8 bits, a scale for each row of a table or output."""
    if bad_row(value.reshape(1, -1)) is not None:
        raise InputError(
            f'{name} has a number that is not finite, or is huge: release an earlier checkpoint'
        )
    if not name.endswith(('kernel', 'embedding')):
        return {name: value}
    inputs: tuple[int, ...] = (0, 1) if name.endswith('attention_out.kernel') else (0,)
    axes = (1,) if name.endswith('embedding') else inputs
    scale = np.maximum(np.abs(value).max(axis=axes, keepdims=True), 1e-12) / 127
    return {name: np.round(value / scale).astype(np.int8), name + _SCALE: scale.astype(np.float32)}


def _exact(
    name: str, stored: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> np.ndarray:
    """A stored parameter as float32; InputError if not of its shape, or as `_rounded` has it."""
    value, scale = stored[name], stored.get(name + _SCALE)
    if value.shape != shapes.get(name):
        raise InputError(f'{name} is not what config.json says')
    if scale is None:
        fits, numbers = value.dtype == np.float32, value
    else:
        sides = zip(scale.shape, value.shape)
        fits = (
            value.dtype == np.int8
            and scale.ndim == value.ndim
            and all(size in (1, whole) for size, whole in sides)
        )
        numbers = scale
    if not fits or numbers.dtype != np.float32 or bad_row(np.atleast_1d(numbers)) is not None:
        raise InputError(f'{name} has numbers of another kind, or that are not finite')
    return value if scale is None else np.multiply(value, scale, dtype=np.float32)
