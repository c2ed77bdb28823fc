"""The relation encoder: embeddings of relations and mentions in text (paper §2.2, §2.3).

The transformer is BERT (post-LN, exact gelu, learned positions, one segment), so that any BERT
checkpoint can be loaded into it, or one of RoBERTa or MPNet, which adds a bias for the distance of
tokens (`opql_jax.models.bert`). Two projections without bias are added:

    r = W_r^T [h_R1 ; h_R2]   the relation of a (topic, target) pair marked by [R1] and [R2] (eq. 1)
    m = W_e^T h_start         a mention, to be compared with the entity table E (§2.3)
"""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util

from opql_jax.core.errors import InputError
from opql_jax.models.encoder_fields import PAD_ID, check_fields, distance_buckets

# BERT's initialiser. It suits W_r and W_e, too: with outputs of unit variance (the usual 1/fan_in
# scale) the first softmax over inner products of relations would be one-hot.
normal_init = nn.initializers.truncated_normal(0.02)

# One mask for all positions of a row, as in T5. A mask for each position costs 15 % of a training
# step on CPU, in random numbers.
dropout_by_row = functools.partial(nn.Dropout, broadcast_dims=(-2,))


# What the backward pass of a layer finds kept of its forward pass, by the name of the choice.
REMAT_POLICIES = {
    'layers': jax.checkpoint_policies.nothing_saveable,
    'dots': jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def gelu(x):
    """Exact gelu by erf: erfc, which jax.nn.gelu uses, is 3x slower on CPU."""
    return 0.5 * x * (1 + jax.lax.erf(x * np.sqrt(0.5).astype(x.dtype)))


def _dot_general(inputs, kernel, dimension_numbers, precision):
    """`lax.dot_general` of [..., contracted] and a kernel, written so that XLA on CPU is fast."""
    (axes, _), _ = dimension_numbers
    shape = inputs.shape[: axes[0]] + kernel.shape[len(axes) :]
    width = math.prod(kernel.shape[: len(axes)])
    left, right = inputs.reshape(-1, width), kernel.reshape(width, -1)
    return jnp.dot(left, right, precision=precision).reshape(shape)


def _rows_joined(rows: int, length: int) -> int:
    """How many rows of a batch attention packs into one: a power of 2 that divides them.

    A TPU works on 128 numbers of an array's last axis at a time, which rows of 64 tokens half fill.
    Packing rows, masked from each other, leaves the cost of attention scores unchanged and halves
    that of the products with values. Rows of different devices are never packed together.
    """
    of_device = rows // math.gcd(rows, jax.device_count())
    return math.gcd(of_device, 1 << max(128 // length, 1).bit_length() - 1)


@jax.custom_vjp
def attention(q, k, v, bias):
    """softmax(q k^T / sqrt(head) + bias) v: [n, heads, C, head], of the type of v.

    q is [n, heads, C, head], k and v are [n, heads, L, head], and `bias` is float32, [n or 1, heads
    or 1, C or 1, L or 1].
    """
    return _attend(q, k, v, bias)[0]


def _attend(q, k, v, bias):
    logits = (q @ k.swapaxes(-1, -2)).astype(jnp.float32) / np.sqrt(q.shape[-1]) + bias
    weights = jnp.exp(logits - logits.max(axis=-1, keepdims=True))
    # The sum divides the products, which are fewer than the weights. Rounding divided weights would
    # cost a TPU an extra pass, here and in the gradient: a tenth of a layer's time.
    by_product = lambda weights: _sum_by_product(weights.astype(v.dtype))
    total = jax.lax.platform_dependent(weights, tpu=by_product, default=_sum)
    share, weights = 1 / total, weights.astype(v.dtype)
    out = (jnp.matmul(weights, v, preferred_element_type=jnp.float32) * share).astype(v.dtype)
    return out, (q, k, v, bias, weights, share, out)


def _sum(weights):
    return weights.sum(axis=-1, keepdims=True)


def _sum_by_product(weights):
    """`_sum` of weights [..., L] by a product with ones, in a quarter of the time on a TPU.

    The ones are hidden from the compiler, lest it turn the product into a sum again.
    """
    ones = jax.lax.optimization_barrier(jnp.ones((weights.shape[-1], 8), weights.dtype))
    return jnp.matmul(weights, ones, preferred_element_type=jnp.float32)[..., :1]


def _attend_backward(kept, change):
    q, k, v, bias, weights, share, out = kept
    change = change.astype(jnp.float32) * share
    common, change = (change * out).sum(axis=-1, keepdims=True), change.astype(v.dtype)
    values = v.swapaxes(-1, -2)
    to_weights = jnp.matmul(change, values, preferred_element_type=jnp.float32)
    to_bias = weights * (to_weights - common)
    # Written once: a TPU would compute it for each of both products.
    to_logits = jax.lax.optimization_barrier((to_bias / np.sqrt(q.shape[-1])).astype(q.dtype))
    alike = [axis for axis, size in enumerate(bias.shape) if size != to_bias.shape[axis]]
    to_q, to_k = to_logits @ k, to_logits.swapaxes(-1, -2) @ q
    return to_q, to_k, weights.swapaxes(-1, -2) @ change, to_bias.sum(alike, keepdims=True)


attention.defvjp(_attend, _attend_backward)


class QueriesKeysValues(nn.Module):
    """Queries [n, heads, C, head] of states [n, C, hidden]; keys, values of h [n, L, hidden].

    Three products, each written as attention reads it: of a single one a TPU would copy the parts,
    also in the gradient, a tenth of a layer's time by the compiler's estimate. `num_heads` divides
    the hidden size; parameters are float32, `dtype` is that of the computation.
    """

    num_heads: int
    dtype: str
    use_bias: bool = True

    @nn.compact
    def __call__(self, queried, h):
        hidden, head = h.shape[-1], h.shape[-1] // self.num_heads
        init = lambda key, shape: normal_init(key, (hidden, 3 * hidden)).reshape(shape)
        kernel = self.param('kernel', init, (hidden, 3, self.num_heads, head)).astype(self.dtype)
        inputs = enumerate((queried, h, h))
        parts = [jnp.einsum('nlh,hkd->nkld', x, kernel[:, i]) for i, x in inputs]
        if not self.use_bias:
            return parts
        bias = self.param('bias', nn.initializers.zeros, (3, self.num_heads, head))
        bias = bias.astype(self.dtype)
        return [part + bias[i, :, None] for i, part in enumerate(parts)]


class TransformerLayer(nn.Module):
    """One post-LN transformer layer; its fields are those of `RelationEncoder`."""

    num_heads: int
    mlp_size: int
    dropout_rate: float
    dtype: str
    layer_norm_epsilon: float

    @nn.compact
    def __call__(self, h, bias, deterministic, positions=None):
        """Applies the layer: [n, L, hidden], or [n, C, hidden] at `positions` [n, C], in `dtype`.

        `bias` [n, 1, 1, L] or [n, heads, C, L] is added to attention logits: very negative for
        padding.
        """
        (n, length, hidden), all_h = h.shape, h
        dense = lambda features, name: nn.DenseGeneral(
            features, dtype=self.dtype, kernel_init=normal_init, dot_general=_dot_general, name=name
        )
        norm = lambda name: nn.LayerNorm(self.layer_norm_epsilon, dtype=self.dtype, name=name)
        drop = dropout_by_row(self.dropout_rate, deterministic=deterministic)

        if positions is not None:
            h = jnp.take_along_axis(h, positions[:, :, None], axis=1)
        # Accelerators compute in bfloat16.
        joined = _rows_joined(n, length) if self.dtype == 'bfloat16' and bias.shape[1] == 1 else 1
        join = lambda x: x.reshape(n // joined, joined * x.shape[1], *x.shape[2:])
        if joined > 1:
            same_row = np.kron(np.eye(joined), np.ones((h.shape[1], length))) > 0
            # A row of nothing but padding attends to that rather than to others.
            others = np.float32(np.where(same_row, 0, -1e10))
            bias = bias.reshape(n // joined, 1, 1, -1) + others

        # With heads before positions both products are plain batched matmuls: on CPU 1.7x faster,
        # gradient included, than jax.nn.dot_product_attention or an einsum.
        q, k, v = QueriesKeysValues(self.num_heads, self.dtype, name='qkv')(join(h), join(all_h))
        # Masking weights alike for all queries of a head is masking its values, which are fewer.
        v = nn.Dropout(self.dropout_rate, broadcast_dims=(-1,), deterministic=deterministic)(v)
        out = nn.DenseGeneral(
            hidden, axis=(1, 3), dtype=self.dtype, kernel_init=normal_init, name='attention_out'
        )(attention(q, k, v, bias))
        out = out.reshape(h.shape)
        h = norm('attention_norm')(h + drop(out))

        inner = gelu(dense(self.mlp_size, 'mlp_in')(h))
        return norm('mlp_norm')(h + drop(dense(hidden, 'mlp_out')(inner)))


@functools.partial(jax.jit, static_argnums=0)
def _apply_layer(layer, variables, h, bias, positions):
    return layer.apply(variables, h, bias, True, positions)


class RelationEncoder(nn.Module):
    """BERT with the relation projection W_r and the mention projection W_e.

    Dropout needs an rng named 'dropout' unless `deterministic`. Token id 0 is padding: no token
    attends to it, so the amount of padding does not change an embedding.

    Attributes:
        vocab_size: number of token ids.
        hidden_size: width of the transformer.
        num_layers: transformer layers.
        num_heads: attention heads; divides hidden_size.
        mlp_size: width of the feed-forward layers.
        max_length: learned positions; the longest row that can be encoded, in tokens.
        relation_dim: d_r, even.
        entity_dim: d_e.
        dropout_rate: of embeddings, attention weights and sublayer outputs.
        dtype: 'float32' or 'bfloat16', of the transformer's computation. Parameters, softmax,
            layer-norm statistics and both projections are float32 in either case.
        layer_norm_epsilon: of all layer norms: 1e-12 in BERT, 1e-5 in RoBERTa and MPNet.
        relative_buckets: of the distances of two tokens, each with a bias of attention that all
            layers share: 32 in MPNet; 0 for none.
        accumulate_steps, remat: see `TrainConfig`; they change the memory and time of training
            alone.
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
    layer_norm_epsilon: float = 1e-12
    relative_buckets: int = 0
    accumulate_steps: int = 1
    remat: str | None = None

    def setup(self):
        check_fields(self)
        embed = lambda rows: nn.Embed(
            rows, self.hidden_size, dtype=self.dtype, embedding_init=normal_init
        )
        project = lambda features: nn.Dense(features, use_bias=False, kernel_init=normal_init)
        self.token_embedding = embed(self.vocab_size)
        # With a single segment, BERT's segment embedding is one more constant of every position:
        # loading a checkpoint adds it to this table.
        self.position_embedding = embed(self.max_length)
        self.embedding_norm = nn.LayerNorm(self.layer_norm_epsilon, dtype=self.dtype)
        if self.relative_buckets:
            self.relative_bias = nn.Embed(
                self.relative_buckets, self.num_heads, embedding_init=normal_init
            )
        self.dropout = dropout_by_row(self.dropout_rate)
        layer = TransformerLayer
        if self.remat:
            layer = nn.remat(layer, static_argnums=(3,), policy=REMAT_POLICIES[self.remat])
        self.layers: list[nn.Module] = [
            layer(*self._layer_fields()) for _ in range(self.num_layers)
        ]
        self.w_r = project(self.relation_dim)
        self.w_e = project(self.entity_dim)

    def __call__(self, tokens, r1, r2, deterministic=True):
        """Embeds the relation of the marked pair of each row: r [n, relation_dim] float32.

        Of tokens [n, L] int32 (0 is padding), and positions [n] int32 of [R1], the marker after the
        topic, and [R2], after the target; `deterministic` disables dropout.
        """
        return self.encode(tokens, r1, r2, r1[:, None], deterministic)[0]

    def encode(self, tokens, r1, r2, context, deterministic=True):
        """Embeds pairs, and mentions at `context` [n, C] int32: r [n, d_r], m [n, C, d_e]."""
        positions = jnp.concatenate([r1[:, None], r2[:, None], context], axis=1)
        h = self.hidden(tokens, deterministic, positions).astype(jnp.float32)
        return self.w_r(h[:, :2].reshape(h.shape[0], -1)), self.w_e(h[:, 2:])

    def mentions(self, tokens, positions, deterministic=True):
        """m = W_e^T h_start at `positions` [n, C] of tokens [n, L]: [n, C, entity_dim] float32."""
        return self.w_e(self.hidden(tokens, deterministic, positions).astype(jnp.float32))

    def spans(self, tokens, first, last, deterministic=True):
        """The last layer at `first` and `last` tokens [n, M]: [n, M, 2, hidden_size] float32."""
        h = self.hidden(tokens, deterministic, jnp.concatenate([first, last], axis=1))
        return jnp.stack(jnp.split(h, 2, axis=1), axis=2).astype(jnp.float32)

    def relate_spans(self, topic, target, topic_is_second, pair_encoding):
        """The relations of pairs of mentions of a text that was encoded once for all of its pairs.

        A mention is the mean of its two ends. A pair has one code, W_r^T [first ; second], with its
        mentions in the order of the text; its halves are swapped if the topic comes second, [...]
        bool. So what questions about one side teach holds for the other, by which MetaQA gains 2.4
        points at one hop. Of a 'mention' it is W_r^T [first ; last] of the target alone. `topic`
        and `target` are [..., 2, hidden_size], as `spans` returns them; of a 'span_pair' also their
        means [..., 1, hidden_size].
        """
        if pair_encoding == 'mention':
            return self.w_r(target.reshape(*target.shape[:-2], -1))
        topic, target, swap = topic.mean(axis=-2), target.mean(axis=-2), topic_is_second[..., None]
        first, second = jnp.where(swap, target, topic), jnp.where(swap, topic, target)
        code = self.w_r(jnp.concatenate([first, second], axis=-1))
        return jnp.where(swap, jnp.roll(code, self.relation_dim // 2, axis=-1), code)

    def halves(self, mentions):
        """What mentions [n, hidden_size] (means of their ends) add to codes: [n, 2, d_r] float32.

        Of a 'span_pair' the half of the first and that of the second sum to W_r^T [first ; second].
        """
        kernel = self.w_r.variables['params']['kernel']
        kernel = kernel.reshape(2, self.hidden_size, self.relation_dim)
        return jnp.einsum('nh,khr->nkr', mentions, kernel)

    def hidden(self, tokens, deterministic=True, positions=None):
        """The last layer, in `dtype`, of tokens [n, L]: [n, L, hidden_size], or of `positions`.

        Only `positions` [n, C] int32 save most of it. InputError if L is above max_length.
        """

        def run(encoder, tokens, positions):
            h = encoder._lower(tokens, 0, deterministic)
            return encoder._upper(h, tokens, positions, 0, deterministic)

        return self._in_parts(run, deterministic, tokens, positions)

    def lower_layers(self, tokens, num_layers, deterministic=True):
        """The output [n, L, hidden_size], in `dtype`, of the first `num_layers` (static) layers."""
        run = lambda encoder, tokens: encoder._lower(tokens, num_layers, deterministic)
        return self._in_parts(run, deterministic, tokens)

    def upper_layers(self, h, tokens, num_lower, deterministic=True, positions=None):
        """`hidden` from the output h of the first `num_lower` layers (static, fewer than all)."""
        run = lambda encoder, *rows: encoder._upper(*rows, num_lower, deterministic)
        return self._in_parts(run, deterministic, h, tokens, positions)

    def _lower(self, tokens, num_layers, deterministic):
        self._check_length(tokens)
        h = self.token_embedding(tokens) + self.position_embedding(jnp.arange(tokens.shape[-1]))
        h = self.dropout(self.embedding_norm(h), deterministic=deterministic)
        bias = self._attention_bias(tokens)
        for layer in self.layers[:num_layers]:
            h = self._run_layer(layer, h, bias, deterministic)
        return h

    def _upper(self, h, tokens, positions, num_lower, deterministic):
        bias = self._attention_bias(tokens)
        for layer in self.layers[num_lower:-1]:
            h = self._run_layer(layer, h, bias, deterministic)
        return self._run_layer(
            self.layers[-1], h, self._attention_bias(tokens, positions), deterministic, positions
        )

    def _layer_fields(self) -> tuple[int, int, float, str, float]:
        return self.num_heads, self.mlp_size, self.dropout_rate, self.dtype, self.layer_norm_epsilon

    def _run_layer(self, layer, h, bias, deterministic, positions=None):
        """`layer(h, bias, deterministic, positions)`; without dropout all layers share a trace."""
        if not deterministic or self.remat or self.is_initializing():
            return layer(h, bias, deterministic, positions)
        alone = TransformerLayer(*self._layer_fields(), parent=None)
        return _apply_layer(alone, layer.variables, h, bias, positions)

    def _check_length(self, tokens):
        if (length := tokens.shape[-1]) > self.max_length:
            raise InputError(
                f'Rows of {length} tokens do not fit the encoder: '
                f'RelationEncoder.max_length={self.max_length}. Raise it, or cut the text into '
                'shorter passages.'
            )

    def _attention_bias(self, tokens, positions=None):
        """Hides padding, adds distance biases: [n, 1, 1, L]; if relative [n, heads, L or C, L]."""
        hidden = jnp.where(tokens == PAD_ID, jnp.float32(-1e9), 0)[:, None, None, :]
        if not self.relative_buckets:
            return hidden
        # [L, L, heads].
        bias = self.relative_bias(distance_buckets(tokens.shape[-1], self.relative_buckets))
        bias = bias[None] if positions is None else bias[positions]
        return hidden + jnp.moveaxis(bias, -1, 1).astype(jnp.float32)

    def _in_parts(self, run, deterministic, *rows):
        """`run(self, *rows)` of arrays [n, ...] or None, in training part after part.

        The backward pass runs each part again, so that the activations of one are held at a time,
        and adds up the gradients of the parameters.
        """
        steps = self.accumulate_steps
        if deterministic or steps == 1 or self.is_initializing():
            return run(self, *rows)
        n = len(rows[0])
        if n % steps:
            raise InputError(
                f'{n} rows of a batch cannot be taken in accumulate_steps={steps} equal parts'
            )
        # Every `steps`-th row: rows that follow each other lie on one device, and a part is shared
        # by all of them.
        split = lambda x: x.reshape(n // steps, steps, *x.shape[1:]).swapaxes(0, 1)
        part = nn.remat(lambda encoder, rows: run(encoder, *rows), prevent_cse=False)
        scan = nn.scan(
            lambda encoder, carry, rows: (carry, part(encoder, rows)),
            variable_broadcast='params',
            split_rngs={'params': False, 'dropout': True},
        )
        _, out = scan(self, (), jax.tree.map(split, rows))
        return out.swapaxes(0, 1).reshape(n, *out.shape[2:])


# Fields that shapes of parameters show, that bound rows, or that concern training or precision.
_NO_OTHER_NUMBERS = set(
    'vocab_size hidden_size num_layers num_heads mlp_size max_length relation_dim entity_dim '
    'dropout_rate dtype accumulate_steps remat parent name'.split()
)


def check_computes(encoder, kind: type, fields: Mapping[str, Any], start) -> None:
    """InputError if an encoder computes otherwise than its `start` in ways no shape shows."""
    if (given := type(encoder)) is not kind:
        raise InputError(
            f'{start} is of the class {kind.__name__}, and the encoder that is trained '
            f'{given.__name__}: use a file of gin/models for it'
        )
    names = [field.name for field in dataclasses.fields(encoder)]
    for name in (name for name in names if name not in _NO_OTHER_NUMBERS):
        value, other = getattr(encoder, name), fields.get(name, getattr(kind, name, None))
        if value != other:
            raise InputError(
                f'{start} has {name}={other:g}, and the encoder that is trained {value:g}: set '
                f'{given.__name__}.{name}'
            )


def shape_differences(expected, found) -> str:
    """The first parameters of `found` that are missing, unknown, or misshapen; '' if none."""
    shapes = lambda tree: {
        name: tuple(leaf.shape) for name, leaf in traverse_util.flatten_dict(tree, sep='/').items()
    }
    expected, found = shapes(expected), shapes(found)
    missing, unknown = expected.keys() - found.keys(), found.keys() - expected.keys()
    other = {name for name in expected.keys() & found.keys() if expected[name] != found[name]}
    problems = [f'{name}: missing, the model has {expected[name]}' for name in sorted(missing)]
    problems += [f'{name}: unknown to the model' for name in sorted(unknown)]
    problems += [f'{name}: {found[name]}, the model has {expected[name]}' for name in sorted(other)]
    more = f'; and {len(problems) - 5} more' if len(problems) > 5 else ''
    return '; '.join(problems[:5]) + more


def init_params(encoder: RelationEncoder, num_entities: int, seed: int | jax.Array):
    """Fresh `{encoder, entity_table}` by a seed or key; rows of E are nearly orthogonal."""
    key = seed if isinstance(seed, jax.Array) else jax.random.key(seed)
    return _fresh_params(encoder, num_entities, key)


# In one program: compiling each operation by itself took longer.
@functools.partial(jax.jit, static_argnums=(0, 1))
def _fresh_params(encoder, num_entities, key):
    encoder_key, table_key = jax.random.split(key)
    tokens = jnp.zeros((1, 8), jnp.int32)
    position = jnp.zeros((1,), jnp.int32)
    params = encoder.init(encoder_key, tokens, position, position)['params']
    table = jax.random.normal(table_key, (num_entities, encoder.entity_dim))
    return {'encoder': params, 'entity_table': table / math.sqrt(encoder.entity_dim)}
