"""The encoder of the KV-memory baseline (Miller et al., 2016): means of words, no transformer."""

import flax.linen as nn
import jax.numpy as jnp

from opql_jax.models.encoder import PAD_ID

# The mean of many word vectors is much shorter than one: vectors of this size give relations whose
# size suits the start of training.
_embedding_init = nn.initializers.normal(1.0)


class BagOfWords(nn.Module):
    """A drop-in for `RelationEncoder`: r = W_r^T b, b the mean of the words around both mentions.

    As in the windows of Miller et al., words near the entities count and their order does not. A
    question shorter than the window is in its bag as a whole. Both mentions are masked and both
    markers are in the bag, so the two directions of a pair have the same r, and only the topic of
    an entry distinguishes them.

    Attributes:
        vocab_size: number of token ids.
        hidden_size: width of the word vectors.
        relation_dim: d_r.
        entity_dim: d_e.
        window: tokens in a bag, those nearest to the mentions; a few more if several are
            equally far.
        max_length: the longest row that callers may pass, in tokens; nothing depends on it.
        dropout_rate: of the bags.
    """

    vocab_size: int
    hidden_size: int
    relation_dim: int
    entity_dim: int
    window: int = 24
    max_length: int = 512
    dropout_rate: float = 0.1

    def setup(self):
        project = lambda features: nn.Dense(features, use_bias=False)
        self.token_embedding = nn.Embed(
            self.vocab_size, self.hidden_size, embedding_init=_embedding_init
        )
        self.dropout = nn.Dropout(self.dropout_rate)
        self.w_r = project(self.relation_dim)
        self.w_e = project(self.entity_dim)

    def __call__(self, tokens, r1, r2, deterministic=True):
        """See `RelationEncoder.__call__`: r [n, relation_dim] float32."""
        return self.encode(tokens, r1, r2, r1[:, None], deterministic)[0]

    def encode(self, tokens, r1, r2, context, deterministic=True):
        """See `RelationEncoder.encode`: r [n, relation_dim] and m [n, C, entity_dim], float32."""
        near_pair = self._near(tokens, r1[:, None], r2[:, None])
        bags = self._bags(
            tokens, jnp.concatenate([near_pair, self._near(tokens, context)], axis=1), deterministic
        )
        return self.w_r(bags[:, 0]), self.w_e(bags[:, 1:])

    def mentions(self, tokens, positions, deterministic=True):
        """m = W_e^T b [n, C, d_e] float32 of the words around positions [n, C] of tokens [n, L]."""
        return self.w_e(self._bags(tokens, self._near(tokens, positions), deterministic))

    def _near(self, tokens, *positions):
        """[n, C, L] bool: the tokens in C windows per row, around positions given as [n, C]."""
        length, padding = tokens.shape[-1], (tokens == PAD_ID)[:, None]
        distance = jnp.stack(
            [jnp.abs(jnp.arange(length) - at[:, :, None]) for at in positions]
        ).min(axis=0)
        distance = jnp.where(padding, length, distance)
        farthest = jnp.sort(distance)[:, :, min(self.window, length) - 1, None]
        return (distance <= farthest) & ~padding

    def _bags(self, tokens, near, deterministic):
        """[n, C, hidden_size]: the mean word vectors of the tokens `near` [n, C, L]."""
        # Rows that fill up a batch may be all padding and must stay finite.
        weights = near / jnp.maximum(near.sum(axis=-1, keepdims=True), 1)
        return self.dropout(weights @ self.token_embedding(tokens), deterministic=deterministic)
