"""The transformer of `models.encoder` by NumPy, for a few rows, such as a question.

A program that asks once takes longer to compile, or to find what was compiled before, than to
compute them here. Both give the same numbers to rounding.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from opql_jax.models.encoder_fields import PAD_ID, EncoderFields, distance_buckets

if TYPE_CHECKING:
    from opql_jax.models.encoder import RelationEncoder


# Rows that a cache holds. The error function as a fraction of polynomials, as XLA computes it.
_BLOCK = 1 << 4
_ERF = (
    (
        *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06),
        *(-5.69250639462346e-05, -7.34990630326855e-04, -2.95459980854025e-03),
        -1.60960333262415e-02,
    ),
    (
        *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03),
        *(-7.37332916720468e-03, -1.42647390514189e-02),
    ),
)


def on_host(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, of NumPy or JAX, as NumPy arrays, float32."""
    return {
        name: on_host(value) if isinstance(value, Mapping) else np.asarray(value, np.float32)
        for name, value in params.items()
    }


def last_layer(
    encoder: 'EncoderFields | RelationEncoder', params, tokens: np.ndarray
) -> np.ndarray:
    """`RelationEncoder.hidden` of tokens [n, L] int32: [n, L, hidden_size] float32.

    `params` are the encoder's, see `on_host`.
    """
    length = tokens.shape[1]
    bias = np.where(tokens == PAD_ID, np.float32(-1e9), np.float32(0))[:, None, None, :]
    if encoder.relative_buckets:
        of_buckets = params['relative_bias']['embedding']
        distances = of_buckets[distance_buckets(length, encoder.relative_buckets)]
        bias = bias + np.moveaxis(distances, -1, 0)
    words, places = (params[f'{name}_embedding']['embedding'] for name in ('token', 'position'))
    norm = lambda h, weights: _norm(h, weights, encoder.layer_norm_epsilon)
    h = norm(words[tokens] + places[:length], params['embedding_norm'])
    for number in range(encoder.num_layers):
        layer = params[f'layers_{number}']
        h = norm(h + _attention(layer, h, bias, encoder.num_heads), layer['attention_norm'])
        h = norm(h + _dense(layer['mlp_out'], _gelu(_dense(layer['mlp_in'], h))), layer['mlp_norm'])
    return h


def _attention(layer, h, bias, num_heads):
    """What attention adds to h [n, L, hidden]."""
    n, length, hidden = h.shape
    heads = _dense(layer['qkv'], h).reshape(n, length, 3, num_heads, -1)
    q, k, v = heads.transpose(2, 0, 3, 1, 4)
    weights = q @ k.swapaxes(-1, -2)
    weights *= np.float32(1 / np.sqrt(q.shape[-1]))
    weights += bias
    weights -= weights.max(axis=-1, keepdims=True)
    np.exp(weights, out=weights)
    out = weights @ v / weights.sum(axis=-1, keepdims=True)
    return _dense(layer['attention_out'], out.swapaxes(1, 2).reshape(n, length, hidden))


def _dense(weights, h):
    """A product of h [n, L, width] with a kernel, which may have several axes of either side."""
    out = h.reshape(-1, h.shape[-1]) @ weights['kernel'].reshape(h.shape[-1], -1)
    out += weights['bias'].reshape(-1)
    return out.reshape(*h.shape[:-1], -1)


def _norm(h, weights, epsilon):
    centred = h - h.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    centred /= np.sqrt(variance + np.float32(epsilon))
    return centred * weights['scale'] + weights['bias']


def _gelu(x):
    """x [n, L, width] times the normal distribution there, which takes its place."""
    rows = x.reshape(-1, x.shape[-1])
    for start in range(0, len(rows), _BLOCK):
        some = rows[start : start + _BLOCK]
        some *= np.float32(0.5) + np.float32(0.5) * _erf(some * np.float32(np.sqrt(0.5)))
    return x


def _erf(x):
    x = np.clip(x, -4, 4)
    above, below = (_polynomial(x * x, coefficients) for coefficients in _ERF)
    return x * above / below


def _polynomial(x, coefficients):
    value = x * np.float32(coefficients[0])
    for coefficient in coefficients[1:-1]:
        value += np.float32(coefficient)
        value *= x
    return value + np.float32(coefficients[-1])


def unit(vectors):
    """Vectors [..., d], of NumPy or JAX, divided by their lengths."""
    xp = vectors.__array_namespace__()
    return vectors / xp.maximum(xp.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)
