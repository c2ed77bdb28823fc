"""The relation encoder: marked text to relation and mention embeddings (OPQL, section 3.1).

The transformer is BERT (post-LN, exact gelu, learned positions, one segment), so that any BERT
checkpoint can be loaded into it (`opql_jax.models.bert`). Two matrices are added on top, both
without bias:

    W_r  r = W_r^T [h_R1 ; h_R2]   the relation of the marked (topic, target) pair
    W_e  m = W_e^T h_start         a mention, to be compared with the entity table
"""

import functools
import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.core.errors import InputError

PAD_ID = 0
LAYER_NORM_EPSILON = 1e-12

# BERT's initialiser. It also fits W_r and W_e: relations are compared by plain inner products, and
# with unit-variance outputs (the usual 1/fan_in scale) the first softmax over them would be one-hot.
_init = nn.initializers.truncated_normal(0.02)

# As in T5, one mask serves all positions of a row (for attention weights: all queries of a head). A mask
# for each position costs 15 % of a training step on CPU, in random numbers.
_dropout = functools.partial(nn.Dropout, broadcast_dims=(-2,))


def gelu(x):
    """Exact gelu, any shape. Written with erf because erfc, in jax.nn.gelu, is 3x slower on CPU."""
    return 0.5 * x * (1 + jax.lax.erf(x * np.sqrt(0.5).astype(x.dtype)))


def _product(inputs, kernel, dimension_numbers, precision):
    """`lax.dot_general` of inputs [..., contracted] and a kernel [contracted, ...] as one product of two matrices.

    Otherwise XLA for CPUs transposes what the gradient of the kernel is made of, and that product takes twice as long.
    """
    (axis, _), _ = dimension_numbers
    left, right = inputs.shape[: axis[0]], kernel.shape[len(axis) :]
    width = math.prod(kernel.shape[: len(axis)])
    return jnp.dot(inputs.reshape(-1, width), kernel.reshape(width, -1), precision=precision).reshape(left + right)


class TransformerLayer(nn.Module):
    """One post-LN transformer layer.

    Attributes:
        num_heads: attention heads; divides the hidden size.
        mlp_size: width of the feed-forward layer.
        dropout_rate: of attention weights and of the output of both sublayers.
        dtype: of the computation; parameters are float32.
    """

    num_heads: int
    mlp_size: int
    dropout_rate: float
    dtype: str

    @nn.compact
    def __call__(self, h, bias, deterministic, positions=None):
        """Maps h [n, L, hidden] to the same shape, or to [n, C, hidden] at the given positions only.

        Args:
            h: [n, L, hidden] in `dtype`.
            bias: [n, 1, 1, L] float32, added to the attention logits: 0 for tokens, very negative for padding.
            deterministic: no dropout.
            positions: [n, C] int32, where the output is wanted; None for everywhere.
        """
        hidden = h.shape[-1]
        head = hidden // self.num_heads
        dense = lambda features, name, axis=-1: nn.DenseGeneral(
            features, axis=axis, dtype=self.dtype, kernel_init=_init, dot_general=_product, name=name
        )
        norm = lambda name: nn.LayerNorm(LAYER_NORM_EPSILON, dtype=self.dtype, name=name)
        drop = _dropout(self.dropout_rate, deterministic=deterministic)

        # Heads before positions makes both products plain batched matmuls, which is 1.7x faster on CPU
        # (gradient included) than jax.nn.dot_product_attention or the same as einsum.
        qkv = dense((3, self.num_heads, head), 'qkv')(h)
        # Not one transpose of all three, whose parts are copied once more: with gradient 5 % of a layer on CPU.
        q, k, v = (qkv[:, :, i].swapaxes(1, 2) for i in range(3))  # each [n, heads, L, head]
        if positions is not None:
            q = jnp.take_along_axis(q, positions[:, None, :, None], axis=2)
            h = jnp.take_along_axis(h, positions[:, :, None], axis=1)
        logits = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / np.sqrt(head) + bias
        weights = drop(jax.nn.softmax(logits).astype(h.dtype))
        attended = (weights @ v).swapaxes(1, 2)  # [n, L, heads, head]
        h = norm('attention_norm')(h + drop(dense(hidden, 'attention_out', axis=(-2, -1))(attended)))

        inner = gelu(dense(self.mlp_size, 'mlp_in')(h))
        return norm('mlp_norm')(h + drop(dense(hidden, 'mlp_out')(inner)))


class RelationEncoder(nn.Module):
    """BERT with the relation projection W_r and the mention projection W_e.

    Dropout needs an rng named 'dropout' unless `deterministic`. Token id 0 is padding: no token attends
    to it, so more padding does not change an embedding.

    Attributes:
        vocab_size: number of token ids.
        hidden_size: width of the transformer.
        num_layers: transformer layers.
        num_heads: attention heads; divides hidden_size.
        mlp_size: width of the feed-forward layers.
        max_length: learned positions; the longest row that can be encoded, in tokens.
        relation_dim: d_r.
        entity_dim: d_e.
        dropout_rate: of embeddings, attention weights and sublayer outputs.
        dtype: 'float32' or 'bfloat16', of the transformer's computation. Parameters, softmax, layer-norm
            statistics and both projections are float32 in either case.
    """

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    mlp_size: int
    max_length: int
    relation_dim: int
    entity_dim: int
    dropout_rate: float = 0.1
    dtype: str = 'float32'

    def setup(self):
        if self.hidden_size % self.num_heads:
            raise InputError(f'RelationEncoder.hidden_size={self.hidden_size} is not a multiple of num_heads={self.num_heads}.')
        if self.relation_dim % 2:
            raise InputError(f'RelationEncoder.relation_dim={self.relation_dim} is odd; relations have two halves')
        if self.dtype not in ('float32', 'bfloat16'):
            raise InputError(f"RelationEncoder.dtype={self.dtype!r} must be 'float32' or 'bfloat16'.")
        embed = lambda rows: nn.Embed(rows, self.hidden_size, dtype=self.dtype, embedding_init=_init)
        project = lambda features, init=_init: nn.Dense(features, use_bias=False, kernel_init=init)
        # As large as _init would make it, but orthogonal: relations keep the angles between [h_R1 ; h_R2], exactly where
        # relation_dim is 2 hidden_size.
        isometry = nn.initializers.orthogonal(0.02 * np.sqrt(2 * self.hidden_size))
        self.token_embedding = embed(self.vocab_size)
        # With a single segment BERT's segment embedding is one more constant of every position: loading
        # a checkpoint adds it to this table.
        self.position_embedding = embed(self.max_length)
        self.embedding_norm = nn.LayerNorm(LAYER_NORM_EPSILON, dtype=self.dtype)
        self.dropout = _dropout(self.dropout_rate)
        self.layers = [
            TransformerLayer(self.num_heads, self.mlp_size, self.dropout_rate, self.dtype) for _ in range(self.num_layers)
        ]
        self.w_r = project(self.relation_dim, isometry)
        self.w_e = project(self.entity_dim)

    def __call__(self, tokens, r1, r2, deterministic=True):
        """Embeds the relation of the marked pair.

        Args:
            tokens: [n, L] int32, 0 = padding.
            r1: [n] int32, position of [R1], the marker after the topic.
            r2: [n] int32, position of [R2], the marker after the target.
            deterministic: no dropout.

        Returns:
            r [n, relation_dim] float32.
        """
        return self.encode(tokens, r1, r2, r1[:, None], deterministic)[0]

    def encode(self, tokens, r1, r2, context, deterministic=True):
        """Embeds the relation of the marked pair and the mentions around it.

        Args:
            tokens, r1, r2, deterministic: as above.
            context: [n, C] int32, first tokens of mentions; those of unused slots may be anywhere in the row.

        Returns:
            (r [n, relation_dim], m [n, C, entity_dim]), float32: r = W_r^T [h_R1 ; h_R2] and m = W_e^T h_start.
        """
        h = self.hidden(tokens, deterministic, jnp.concatenate([r1[:, None], r2[:, None], context], axis=1))
        h = h.astype(jnp.float32)
        return self.w_r(h[:, :2].reshape(h.shape[0], -1)), self.w_e(h[:, 2:])

    def mentions(self, tokens, positions, deterministic=True):
        """m = W_e^T h_start at positions [n, C] of tokens [n, L]: [n, C, entity_dim] float32."""
        return self.w_e(self.hidden(tokens, deterministic, positions).astype(jnp.float32))

    def spans(self, tokens, first, last, deterministic=True):
        """Contextual embeddings of many mentions of a text: those of their first and last tokens.

        Args:
            tokens: [n, L] int32.
            first, last: [n, M] int32, positions; those of unused slots may be anywhere in the row.
            deterministic: no dropout.

        Returns:
            [n, M, 2, hidden_size] float32.
        """
        h = self.hidden(tokens, deterministic, jnp.concatenate([first, last], axis=1))
        return jnp.stack(jnp.split(h, 2, axis=1), axis=2).astype(jnp.float32)

    def relate(self, topic, target, backward, entry):
        """The relations of pairs of mentions in one text that was encoded once for all of them.

        A pair has one code, W_r^T [first ; second] of its mentions in the order of the text, which is r where the topic comes
        first; where it comes second, r is the code with its halves swapped. So what is learnt of a pair from questions about one
        side holds for questions about the other: alignment on MetaQA gains 2.4 points at one hop by it, with the second part
        of `losses.alignment_loss`.

        Args:
            topic, target: [..., 2, hidden_size], see `spans`; a mention is the mean of the two.
            backward: [...] bool, whether the topic comes after the target.
            entry: 'places' for the above; 'mention' for the target's two tokens alone, W_r^T [first ; last].

        Returns:
            [..., relation_dim] float32.
        """
        if entry == 'mention':
            return self.w_r(target.reshape(*target.shape[:-2], -1))
        topic, target, backward = topic.mean(axis=-2), target.mean(axis=-2), backward[..., None]
        first, second = jnp.where(backward, target, topic), jnp.where(backward, topic, target)
        code = self.w_r(jnp.concatenate([first, second], axis=-1))
        return jnp.where(backward, jnp.roll(code, self.relation_dim // 2, axis=-1), code)

    def hidden(self, tokens, deterministic=True, positions=None):
        """Contextual token embeddings.

        Args:
            tokens: [n, L] int32.
            deterministic: no dropout.
            positions: [n, C] int32; the last layer is computed there only, which is most of it saved. None for everywhere.

        Returns:
            [n, L, hidden_size], or [n, C, hidden_size] at the positions; in `dtype`.

        Raises:
            InputError: L is more than max_length.
        """
        return self.upper(self.lower(tokens, 0, deterministic), tokens, 0, deterministic, positions)

    def lower(self, tokens, layers, deterministic=True):
        """What `hidden` has after some of the layers (static): [n, L, hidden_size] in `dtype`."""
        length = tokens.shape[-1]
        if length > self.max_length:
            raise InputError(
                f'Rows of {length} tokens do not fit the encoder: RelationEncoder.max_length={self.max_length}. '
                'Raise it, or cut the text into shorter passages.'
            )
        h = self.token_embedding(tokens) + self.position_embedding(jnp.arange(length))
        h = self.dropout(self.embedding_norm(h), deterministic=deterministic)
        for layer in self.layers[:layers]:
            h = layer(h, _attended(tokens), deterministic)
        return h

    def upper(self, h, tokens, layers, deterministic=True, positions=None):
        """`hidden`, from what `lower` gave after as many layers, fewer than all."""
        for layer in self.layers[layers:-1]:
            h = layer(h, _attended(tokens), deterministic)
        return self.layers[-1](h, _attended(tokens), deterministic, positions)


def _attended(tokens):
    """[n, 1, 1, L]: no token attends to padding. Not -inf: a row that is all padding, which fills up a batch, must stay finite."""
    return jnp.where(tokens == PAD_ID, jnp.float32(-1e9), 0)[:, None, None, :]
