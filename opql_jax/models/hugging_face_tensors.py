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

    `encoder` has the fields of a RelationEncoder or a ModernEncoder. Of learned positions the shape
    is that of the parameter: in tensors rows of padding may stand before it.
    """
    hidden, mlp, heads = encoder.hidden_size, encoder.mlp_size, encoder.num_heads
    of_heads, is_modern = (heads, hidden // heads), hasattr(encoder, 'global_every')
    found: dict[str, Stored] = {}

    def table(name: str, tensor: str, *shape: int):
        found[f'{name}/embedding'] = Stored(shape, (f'{tensor}.weight',), shape)

    def norm(name: str, tensor: str):
        found[f'{name}/scale'] = Stored((hidden,), (f'{tensor}.weight',), (hidden,))
        if not is_modern:  # which has no biases
            found[f'{name}/bias'] = Stored((hidden,), (f'{tensor}.bias',), (hidden,))

    def dense(name: str, inputs: tuple[int, ...], outputs: tuple[int, ...], *tensors: str):
        of_each = math.prod(outputs) // len(tensors)
        weights, biases = (tuple(f'{t}.{end}' for t in tensors) for end in ('weight', 'bias'))
        stored = of_each, math.prod(inputs)
        found[f'{name}/kernel'] = Stored(inputs + outputs, weights, stored, True)
        if not is_modern:
            found[f'{name}/bias'] = Stored(outputs, biases, (of_each,))

    if is_modern:
        table('token_embedding', 'embeddings.tok_embeddings', encoder.vocab_size, hidden)
        norm('embedding_norm', 'embeddings.norm')
        norm('final_norm', 'final_norm')
        names = 'attn.Wqkv', 'attn.Wo', 'attn_norm', 'mlp.Wi', 'mlp.Wo', 'mlp_norm'
    else:
        table('token_embedding', 'embeddings.word_embeddings', encoder.vocab_size, hidden)
        table('position_embedding', 'embeddings.position_embeddings', encoder.max_length, hidden)
        norm('embedding_norm', 'embeddings.LayerNorm')
        attention = 'self.query self.key self.value', 'output.dense', 'output.LayerNorm'
        if encoder.relative_buckets:  # an MPNet
            distances = encoder.relative_buckets, heads
            table('relative_bias', 'encoder.relative_attention_bias', *distances)
            attention = 'attn.q attn.k attn.v', 'attn.o', 'LayerNorm'
        names = (
            *(' '.join(f'attention.{part}' for part in parts.split()) for parts in attention),
            *('intermediate.dense', 'output.dense', 'output.LayerNorm'),
        )
    qkv, attention_out, attention_norm, mlp_in, mlp_out, mlp_norm = names
    for i in range(encoder.num_layers):
        ours, theirs = f'layers_{i}', f'layers.{i}.' if is_modern else f'encoder.layer.{i}.'
        parts = [theirs + part for part in qkv.split()]
        dense(f'{ours}/qkv', (hidden,), (3, *of_heads), *parts)
        dense(f'{ours}/attention_out', of_heads, (hidden,), theirs + attention_out)
        if i or not is_modern:  # whose first layer gets normed states
            norm(f'{ours}/attention_norm', theirs + attention_norm)
        dense(f'{ours}/mlp_in', (hidden,), ((1 + is_modern) * mlp,), theirs + mlp_in)
        dense(f'{ours}/mlp_out', (mlp,), (hidden,), theirs + mlp_out)
        norm(f'{ours}/mlp_norm', theirs + mlp_norm)
    return found
