"""Which tensors of `transformers` hold the parameters of an encoder, to read and to write them.

Without JAX, as released encoders take the shapes of their parameters from here.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Stored(NamedTuple):
    """How a parameter is stored: in one tensor or, of queries, keys and values, in three."""

    shape: tuple[int, ...]  # of the parameter
    tensors: tuple[str, ...]
    stored: tuple[int, ...]  # the shape of each tensor
    is_kernel: bool = False  # stored by torch as [outputs, inputs]

    def joined(self, tensors: Sequence[np.ndarray]) -> np.ndarray:
        """The parameter."""
        if self.is_kernel:
            return np.stack([tensor.T for tensor in tensors], axis=1).reshape(self.shape)
        return np.stack(tensors).reshape(self.shape)

    def split(self, value: np.ndarray) -> dict[str, np.ndarray]:
        """The tensors of a parameter, by their names."""
        count = len(self.tensors)
        if self.is_kernel:
            outputs, inputs = self.stored
            parts = value.reshape(inputs, count, outputs).transpose(1, 2, 0)
        else:
            parts = value.reshape(count, *self.stored)
        return dict(zip(self.tensors, parts))


def layout(encoder) -> dict[str, Stored]:
    """{'layers_0/mlp_in/kernel': how it is stored} of all parameters but W_r and W_e.

    `encoder` has the fields of a RelationEncoder. Of learned positions the shape is that of the
    parameter: in tensors rows of padding may stand before it.
    """
    hidden, mlp, heads = encoder.hidden_size, encoder.mlp_size, encoder.num_heads
    of_heads = heads, hidden // heads
    found: dict[str, Stored] = {}

    def table(name: str, tensor: str, *shape: int):
        found[f'{name}/embedding'] = Stored(shape, (f'{tensor}.weight',), shape)

    def norm(name: str, tensor: str):
        found[f'{name}/scale'] = Stored((hidden,), (f'{tensor}.weight',), (hidden,))
        found[f'{name}/bias'] = Stored((hidden,), (f'{tensor}.bias',), (hidden,))

    def dense(name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], *tensors: str):
        of_each = math.prod(outputs) // len(tensors)
        weights, biases = (tuple(f'{t}.{end}' for t in tensors) for end in ('weight', 'bias'))
        stored = of_each, math.prod(inputs)
        found[f'{name}/kernel'] = Stored(inputs + outputs, weights, stored, True)
        found[f'{name}/bias'] = Stored(outputs, biases, (of_each,))

    table('token_embedding', 'embeddings.word_embeddings', encoder.vocab_size, hidden)
    table('position_embedding', 'embeddings.position_embeddings', encoder.max_length, hidden)
    norm('embedding_norm', 'embeddings.LayerNorm')
    qkv, out, attention_norm = 'self.query self.key self.value', 'output.dense', 'output.LayerNorm'
    if encoder.relative_buckets:  # an MPNet
        distances = encoder.relative_buckets, heads
        table('relative_bias', 'encoder.relative_attention_bias', *distances)
        qkv, out, attention_norm = 'attn.q attn.k attn.v', 'attn.o', 'LayerNorm'
    for i in range(encoder.num_layers):
        ours, theirs = f'layers_{i}', f'encoder.layer.{i}.'
        parts = [f'{theirs}attention.{part}' for part in qkv.split()]
        dense(f'{ours}/qkv', (hidden,), (3, *of_heads), *parts)
        dense(f'{ours}/attention_out', of_heads, (hidden,), f'{theirs}attention.{out}')
        norm(f'{ours}/attention_norm', f'{theirs}attention.{attention_norm}')
        dense(f'{ours}/mlp_in', (hidden,), (mlp,), f'{theirs}intermediate.dense')
        dense(f'{ours}/mlp_out', (mlp,), (hidden,), f'{theirs}output.dense')
        norm(f'{ours}/mlp_norm', f'{theirs}output.LayerNorm')
    return found
