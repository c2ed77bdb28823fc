"""What an encoder is made of, without JAX: whoever asks one question needs none."""

import math
from typing import Annotated, ClassVar

import msgspec
import numpy as np

from opql_jax.core.errors import InputError, check_choice

PAD_ID = 0

_Size = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]


class EncoderFields(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a `RelationEncoder` that reads any text; it has no entities."""

    dtype: ClassVar[str] = 'float32'
    vocab_size: _Size
    hidden_size: _Size
    num_layers: Annotated[int, msgspec.Meta(ge=1, le=1000)]
    num_heads: _Size
    mlp_size: _Size
    max_length: _Size
    relation_dim: _Size
    layer_norm_epsilon: Annotated[float, msgspec.Meta(gt=0)] = 1e-12
    relative_buckets: Annotated[int, msgspec.Meta(ge=0, lt=2**31)] = 0


def check_fields(encoder) -> None:
    """Raises InputError, naming the field, if no encoder can have the fields of one."""
    if encoder.hidden_size % encoder.num_heads:
        raise InputError(
            f'RelationEncoder.hidden_size={encoder.hidden_size} is not a multiple of '
            f'num_heads={encoder.num_heads}.'
        )
    if encoder.relation_dim % 2:
        raise InputError(
            f'RelationEncoder.relation_dim={encoder.relation_dim} is odd; relations have two halves'
        )
    check_choice('RelationEncoder.dtype', encoder.dtype, ('float32', 'bfloat16'))
    if encoder.relative_buckets % 4 or not 0 <= encoder.relative_buckets <= 256:
        raise InputError(
            f'RelationEncoder.relative_buckets={encoder.relative_buckets} is '
            'no multiple of 4 up to 256.'
        )


def distance_buckets(length: int, buckets: int, furthest: int = 128) -> np.ndarray:
    """The bucket of token j's distance from token i: [length, length] int32, as in T5 and MPNet.

    Half of the buckets are for tokens after i. In each half the first half are for one distance
    each, the others for growing ranges, the last one for all from `furthest` on.
    """
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]
    half, near = buckets // 2, np.abs(distance)
    exact = half // 2
    far = (
        np.log(np.maximum(near, 1).astype(np.float32) / exact)
        / np.float32(math.log(furthest / exact))
        * (half - exact)
    )
    bucket = np.where(near < exact, near, np.minimum(exact + far.astype(np.int32), half - 1))
    return (np.where(distance > 0, half, 0) + bucket).astype(np.int32)
