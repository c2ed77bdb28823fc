"""The relation encoder over ModernBERT, whose checkpoints `opql_jax.models.bert` loads.

Norms come before the sublayers, positions turn queries and keys (RoPE), the feed-forward layer is
gated, two layers of three see the tokens nearby alone, and nothing has a bias.
"""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from opql_jax.models.encoder import (
    REMAT_POLICIES,
    QueriesKeysValues,
    RelationEncoder,
    attention,
    check_fields,
    dropout_by_row,
    gelu,
    normal_init,
)


def rotate(x, positions, theta: float):
    """Queries or keys [n, heads, C, head] turned by positions [n or 1, C] (RoPE, Su et al.)."""
    half = x.shape[-1] // 2
    frequencies = np.float32(theta) ** (-np.arange(half, dtype=np.float32) / half)
    angle = positions[:, None, :, None] * frequencies
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turned = [first * cos - second * sin, second * cos + first * sin]
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


class ModernLayer(nn.Module):
    """A layer of ModernBERT; the `first` gets normed states; `theta` is of the rotary positions."""

    num_heads: int
    mlp_size: int
    dropout_rate: float
    dtype: str
    layer_norm_epsilon: float
    first: bool
    theta: float

    @nn.compact
    def __call__(self, h, bias, deterministic, positions=None):
        """As of `TransformerLayer`; `bias` may be [n, 1, C, L]."""
        same: dict = {'use_bias': False, 'dtype': self.dtype, 'kernel_init': normal_init}
        dense = lambda features, name, **more: nn.DenseGeneral(features, name=name, **same, **more)
        norm = lambda name: nn.LayerNorm(
            self.layer_norm_epsilon, use_bias=False, dtype=self.dtype, name=name
        )
        drop = dropout_by_row(self.dropout_rate, deterministic=deterministic)

        normed = h if self.first else norm('attention_norm')(h)
        places, queried, at = jnp.arange(h.shape[1])[None], normed, None
        if positions is not None:
            at = positions[:, :, None]
            h, queried = (jnp.take_along_axis(x, at, axis=1) for x in (h, normed))
        q, k, v = QueriesKeysValues(self.num_heads, self.dtype, use_bias=False, name='qkv')(
            queried, normed
        )
        q = rotate(q, places if positions is None else positions, self.theta)
        k = rotate(k, places, self.theta)
        out = dense(h.shape[-1], 'attention_out', axis=(1, 3))(attention(q, k, v, bias))
        h = h + drop(out.reshape(h.shape))

        inner, gate = jnp.split(dense(2 * self.mlp_size, 'mlp_in')(norm('mlp_norm')(h)), 2, axis=-1)
        return h + drop(dense(h.shape[-1], 'mlp_out')(gelu(inner) * gate))


class ModernEncoder(RelationEncoder):
    """ModernBERT with the relation projection W_r and the mention projection W_e.

    Attributes:
        global_every: each n-th layer, from the first, sees the whole row.
        local_window: tokens to each side that the others see.
        global_theta, local_theta: of the rotary positions of both kinds of layers.
    """

    layer_norm_epsilon: float = 1e-5
    global_every: int = 3
    local_window: int = 64
    global_theta: float = 160000.0
    local_theta: float = 10000.0

    def setup(self):
        check_fields(self)
        norm = lambda: nn.LayerNorm(self.layer_norm_epsilon, use_bias=False, dtype=self.dtype)
        project = lambda features: nn.Dense(features, use_bias=False, kernel_init=normal_init)
        self.token_embedding = nn.Embed(
            self.vocab_size, self.hidden_size, dtype=self.dtype, embedding_init=normal_init
        )
        self.embedding_norm, self.final_norm = norm(), norm()
        self.dropout = dropout_by_row(self.dropout_rate)
        layer = ModernLayer
        if self.remat:
            layer = nn.remat(layer, static_argnums=(3,), policy=REMAT_POLICIES[self.remat])
        fields, both = self._layer_fields(), (self.global_theta, self.local_theta)
        theta = lambda i: both[i % self.global_every > 0]
        self.layers = [layer(*fields, i == 0, theta(i)) for i in range(self.num_layers)]
        self.w_r, self.w_e = project(self.relation_dim), project(self.entity_dim)

    def _lower(self, tokens, num_layers, deterministic):
        self._check_length(tokens)
        h = self.embedding_norm(self.token_embedding(tokens))
        h = self.dropout(h, deterministic=deterministic)
        return self._run(h, tokens, range(num_layers), deterministic)

    def _upper(self, h, tokens, positions, num_lower, deterministic):
        last = self.num_layers - 1
        h = self._run(h, tokens, range(num_lower, last), deterministic)
        h = self.layers[last](h, self._bias_of(last, tokens, positions), deterministic, positions)
        return self.final_norm(h)

    def _run(self, h, tokens, layers, deterministic):
        for i in layers:
            h = self.layers[i](h, self._bias_of(i, tokens), deterministic)
        return h

    def _bias_of(self, layer, tokens, positions=None):
        """Added to a layer's attention logits: [n, 1, 1, L], or if local [n, 1, L or C, L]."""
        bias = self._attention_bias(tokens)
        if layer % self.global_every == 0:
            return bias
        places = jnp.arange(tokens.shape[1])
        queried = places[None] if positions is None else positions
        far = jnp.abs(queried[:, :, None] - places) > self.local_window
        return bias + jnp.where(far, jnp.float32(-1e9), 0)[:, None]
