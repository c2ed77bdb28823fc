"""OPQL-LM: a language model that mixes what it retrieves into its prediction (paper §4, appendix).

The transformer is the relation encoder's; EaE's entity memory (Févry et al., 2020) can be placed
after one of its layers. In a text the answer e2 is hidden by [ENT] and followed by [R2]; the topic
mentions e1 stay visible, each followed by its own [R1]. The transformer gives, for each topic,

    m_e1 = W_e^T h_start,    m_e2 = W_e^T h_ENT,    r = W_r^T [h_R1 ; h_R2]

and each topic queries the whole memory, beside whose entries stands one for "nothing":

    e = softmax(E m_e1)^T E                           the topic, in terms of rows of E
    q = W_q^T [e ; W_t^T r]                           against k_i = W_k^T [E[topic_i] ; r_i] and
                                                      k_null = W_k^T [e ; r_null]
    lambda, beta_i = softmax(q . k_null, q . k_i)     over null and the k best entries
    P(y) = lambda softmax(E m_e2)_y + sum_i beta_i [target_i = y]

The next hop has e_Y + lambda softmax(E m_e2)^T E in the place of e, where e_Y = sum_i beta_i
E[target_i]. With several topics each queries for itself, and the distributions of their last hops
are combined before the mixing (`combine_topics`).

Three things differ from the paper. It mixes embeddings, m'_e2 = m_e2 + e_Y, summed over the topics
(`mixing='embeddings'`, where W_v, an addition, scales e_Y to the length of m_e2); but a mean of
many rows of E is close to none of them. It mixes with 1 - lambda in §4 (eq. 6) and with lambda in
the appendix (eq. 11), a softmax over a single score; here lambda is the mass of null. And it
queries with m_e1 for e, which is several times as long as rows of E, so that null, whose key alone
would contain it, would always win.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from opql_jax.core.errors import InputError, check_choice
from opql_jax.data.lm_markup import Texts
from opql_jax.memory import search, search_keys
from opql_jax.memory.hop import log_weights, masked_softmax
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import ShardedMemory
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.follower import Follower
from opql_jax.models.losses import MASKED
from opql_jax.models.mixing import Prediction, combine_topics, without_entries
from opql_jax.parallel import entity_table
from opql_jax.parallel.entity_table import Attended, Layout

# Initial scale of W_v: E[y], of length 1, must win a softmax over all of E.
_VALUE_SCALE = 12.0

_PRECISION = lax.Precision.HIGHEST


class Heads(nn.Module):
    """The parameters besides encoder, E and follower; all dimensions are the encoder's."""

    hidden_size: int
    relation_dim: int
    entity_dim: int

    def setup(self):
        init = nn.initializers.truncated_normal(0.02)
        self.w_f = nn.Dense(self.entity_dim, use_bias=False, kernel_init=init)
        # Zero, so that at first the entity memory leaves a pretrained encoder as it was.
        self.w_b = nn.Dense(self.hidden_size, use_bias=False, kernel_init=nn.initializers.zeros)
        self.r_null = self.param('r_null', nn.initializers.zeros, (self.relation_dim,))
        self.e_null = self.param('e_null', nn.initializers.zeros, (self.entity_dim,))
        self.w_v = self.param('w_v', lambda _, n: _VALUE_SCALE * jnp.eye(n), self.entity_dim)

    def __call__(self, h):
        """Uses all parameters, for `init`."""
        memory = self.entity_memory_output(self.entity_memory_query(h))
        return memory, self.r_null, self.e_null, self.w_v

    def entity_memory_query(self, h):
        """Queries [..., d_e] float32 of the entity memory, from h_start [..., hidden_size]."""
        return self.w_f(h.astype(jnp.float32))

    def entity_memory_output(self, entities):
        """What is added to h_start [..., hidden_size], from returned embeddings [..., d_e]."""
        return self.w_b(entities)


def normalize_entity_table(params) -> dict:
    """The parameters with every row of E scaled to length 1, as the language model uses it.

    The answer is the row with the largest product with a retrieved row. Training lengthens rows of
    frequent entities, which would win for others, too: of 40,000 entities only a third had their
    largest product with themselves.
    """
    table = params['entity_table']
    squares = jnp.sum(jnp.square(table), axis=-1, keepdims=True)
    # Rows that pad E to the devices are 0.
    return params | {'entity_table': table * lax.rsqrt(jnp.maximum(squares, 1e-12))}


class Encoded(NamedTuple):
    """The transformer's reading of n texts with T topic slots."""

    m_e2: jax.Array  # [n, d_e], the hidden answer
    m_e1: jax.Array  # [n, T, d_e], the topic mentions
    r: jax.Array  # [n, T, d_r], the relation of each topic and the answer
    # [n, T, ...], the topics' reads of the entity memory; None without one.
    entity_memory: Attended | None


class Hop(NamedTuple):
    """The retrieval of one hop for B = n T queries, one per topic slot."""

    # [B, 1 + k] float32, of null (lambda) and of the entries (beta); very negative if unused.
    log_probs: jax.Array
    # [B, k] int32, rows of the memory in the order of the search, whose weights a filter changes;
    # -1 in unused slots. In training gold entries follow.
    entries: jax.Array
    topics: jax.Array  # [B, k] int32, of the entries
    targets: jax.Array  # likewise


class Output(NamedTuple):
    """The prediction for n texts with T topic slots, and what it was made from."""

    prediction: Prediction  # of the hidden entities
    m_e2: jax.Array  # [n, d_e], what the model makes of them without the memory
    m_e1: jax.Array | Attended  # [n, T, d_e]; with a memory its Attended, which the query needs
    entity_memory: Attended | None  # as in Encoded
    hops: list[Hop]  # empty without a memory


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """The language model as a function of its parameters, `{encoder, entity_table, follower, lm}`.

    Attributes:
        encoder: the transformer with W_r and W_e.
        max_hops: the number of W_t.
        entity_layer: layers below EaE's entity memory; 0 for no entity memory.
        k: entries kept per hop.
        own_prediction: mixes in the model's own prediction; without, the answer comes from the
            memory alone (OPQL-follow).
        mixing: 'distributions': a retrieved entry gives its mass to its target. 'embeddings', as in
            the paper: the mean embedding of the targets is added to m_e2.
        null_entity: k_null = W_k^T [e ; r_null]; without, W_k^T [e_null ; r_null], the same for all
            queries (the paper's ablation, §4.2.3).
        filter: hops after the first retrieve only entries of the topics that the hop before found,
            weighted as in relation following (`memory.follow`). Without, as in the paper, a hop
            knows these topics by their mean embedding alone, which identifies only a single one.
        exclude_topic: hops after the first never return to the topic that the first one mostly
            retrieved from, as holds for MetaQA's questions (see `Follower`).
    """

    encoder: RelationEncoder
    max_hops: int = 3
    entity_layer: int = 0
    k: int = 32
    own_prediction: bool = True
    mixing: Literal['distributions', 'embeddings'] = 'distributions'
    null_entity: bool = True
    filter: bool = False
    exclude_topic: bool = False

    def __post_init__(self):
        if not 0 <= self.entity_layer < self.encoder.num_layers:
            raise InputError(
                f'entity_layer={self.entity_layer}: 0 for none, or fewer than the '
                f'{self.encoder.num_layers} layers'
            )
        check_choice('mixing', self.mixing, ('distributions', 'embeddings'))

    @property
    def follower(self) -> Follower:
        """The module with W_q, W_k and W_t."""
        return Follower(self.encoder.relation_dim, self.encoder.entity_dim, self.max_hops)

    @property
    def heads(self) -> Heads:
        """The module with the other parameters."""
        return Heads(self.encoder.hidden_size, self.encoder.relation_dim, self.encoder.entity_dim)

    @functools.partial(jax.jit, static_argnums=0)
    def init(self, key) -> dict:
        """Fresh parameters `{follower, lm}`, those that the encoder lacks."""
        sizes = self.encoder.relation_dim, self.encoder.entity_dim, self.encoder.hidden_size
        relation, centroid, state = (jnp.zeros((1, size)) for size in sizes)
        follower = self.follower.init(key, relation, centroid, 0, method=Follower.query)
        return {'follower': follower['params'], 'lm': self.heads.init(key, state)['params']}

    def __call__(
        self,
        params,
        layout: Layout,
        texts: Sequence[Texts],
        hops: int,
        memory: ShardedMemory | None,
        rng=None,
    ) -> Output:
        """Predicts the hidden entities of the Texts of each length bucket, one after the other.

        The parameters are as of `normalize_entity_table`. Gold entries of `texts` are scored in the
        last hop whether retrieved or not. `hops`, 1 .. max_hops, is static. Without `memory`, which
        lies over the layout's mesh, it is EaE; without the key `rng` there is no dropout.
        """
        # ---- The transformer: m_e1, m_e2 and r ----
        m_e2, m_e1, r, entity_memory = self.encode(params, layout, texts, rng)
        if memory is None:
            return Output(without_entries(m_e2), m_e2, m_e1, entity_memory, [])
        if not 1 <= hops <= self.max_hops:
            raise InputError(
                f'hops={hops} is not in 1..{self.max_hops}; max_hops sets how '
                'many a language model can do'
            )

        if memory.keys is None:  # once for all hops
            memory = search_keys.with_keys(memory, params['entity_table'])

        # ---- One query per topic: B = n T ----
        n, num_topics = m_e1.shape[:2]
        merge = lambda x: x.reshape(n * num_topics, *x.shape[2:])  # [n, T, ...] to [B, ...]
        split = lambda x: x.reshape(n, num_topics, *x.shape[1:])
        repeat = lambda x: jnp.repeat(x, num_topics, axis=0)  # [n, ...] to [B, ...]
        feature = lambda name: _concatenate([getattr(text, name) for text in texts])
        passage = None if memory.passages is None else feature('passage')
        allowed = jax.tree.map(
            repeat, SearchFilter(excluded_targets=feature('exclude'), excluded_passage=passage)
        )
        gold = jax.tree.map(merge, feature('gold'))
        attend = lambda m: entity_table.attend(m, params['entity_table'], layout)
        topics = attend(merge(m_e1))
        e = topics.found
        e_ent = repeat(attend(m_e2).found) if hops > 1 and self.own_prediction else 0.0

        # ---- The hops: e to q to lambda and beta to the next e ----
        trace, retrieve = [], functools.partial(self._retrieve, params, memory, merge(r), allowed)
        for hop in range(hops):
            is_last = hop == hops - 1
            trace.append(retrieve(e, trace, gold if is_last else None))
            if not is_last:
                null, e_y = _mixture(trace[-1].log_probs, trace[-1].targets, params, layout)
                e = e_y + (e_ent if self.mixing == 'embeddings' else null * e_ent)

        # ---- All topics together, and the model's own prediction ----
        used, own = feature('used'), m_e2 if self.own_prediction else jnp.zeros_like(m_e2)
        if self.mixing == 'distributions':
            log_probs, targets = combine_topics(
                split(trace[-1].log_probs), split(trace[-1].targets), used
            )
            prediction = Prediction(own, log_probs[:, 0], log_probs[:, 1:], targets)
        else:
            e_y = split(_mixture(trace[-1].log_probs, trace[-1].targets, params, layout)[1])
            e_y = jnp.where(used[:, :, None], e_y, 0.0).sum(axis=1)
            prediction = without_entries(
                own + jnp.matmul(e_y, params['lm']['w_v'], precision=_PRECISION)
            )
        return Output(prediction, m_e2, jax.tree.map(split, topics), entity_memory, trace)

    def encode(self, params, layout: Layout, texts: Sequence[Texts], rng=None) -> Encoded:
        """Runs the transformer; arguments and order of the results as of `__call__`."""
        rngs = [None if rng is None else jax.random.fold_in(rng, i) for i in range(len(texts))]
        return _concatenate(
            [self._encode_bucket(params, layout, text, key) for text, key in zip(texts, rngs)]
        )

    def _encode_bucket(self, params, layout: Layout, text: Texts, rng) -> Encoded:
        deterministic = rng is None
        encoder = self.encoder.bind(
            {'params': params['encoder']}, rngs=None if deterministic else {'dropout': rng}
        )
        ent = text.r2[:, None] - 1  # [R2] follows [ENT]
        h, entity_memory = encoder.lower_layers(text.tokens, self.entity_layer, deterministic), None
        if self.entity_layer:
            h, entity_memory = self._read_entity_memory(params, layout, h, text)
        positions = jnp.concatenate([text.start, ent, text.r1, text.r2[:, None]], axis=1)
        h = encoder.upper_layers(
            h, text.tokens, self.entity_layer, deterministic, positions
        ).astype(jnp.float32)
        num_topics = text.start.shape[1]
        h_start, h_ent, h_r1, h_r2 = jnp.split(h, np.cumsum([num_topics, 1, num_topics]), axis=1)
        pair = jnp.concatenate([h_r1, jnp.broadcast_to(h_r2, h_r1.shape)], axis=-1)
        return Encoded(
            encoder.w_e(h_ent[:, 0]), encoder.w_e(h_start), encoder.w_r(pair), entity_memory
        )

    def _read_entity_memory(self, params, layout: Layout, h, text: Texts):
        """EaE's entity memory: h plus what topics and [ENT] retrieve, and the topics' Attended."""
        heads = self.heads.bind({'params': params['lm']})
        positions = jnp.concatenate([text.start, text.r2[:, None] - 1], axis=1)
        queries = heads.entity_memory_query(jnp.take_along_axis(h, positions[:, :, None], axis=1))
        attended = entity_table.attend(
            queries.reshape(-1, queries.shape[-1]), params['entity_table'], layout
        )
        attended = jax.tree.map(lambda x: x.reshape(*queries.shape[:2], *x.shape[1:]), attended)
        used = jnp.pad(text.used, ((0, 0), (0, 1)), constant_values=True)  # [ENT] always is
        update = jnp.where(used[:, :, None], heads.entity_memory_output(attended.found), 0.0)
        h = h.at[jnp.arange(len(h))[:, None], positions].add(update.astype(h.dtype))
        return h, jax.tree.map(lambda x: x[:, :-1], attended)

    def _retrieve(self, params, memory, r, allowed, e, previous: list[Hop], gold) -> Hop:
        """One hop: queries with e [B, d_e], after `previous` hops; scores `gold` [B, G], too.

        `r` are [B, d_r], and `allowed`, a SearchFilter, says which entries each query may find.
        """
        table, lm = params['entity_table'], params['lm']
        # With W_k folded in: q . k = queries . [E[topic] ; r].
        queries: Any = self.follower.apply(
            {'params': params['follower']}, r, e, len(previous), method=Follower.query
        )

        # ---- Which entries may be found ----
        before = previous[-1] if previous and self.filter else None
        if before is not None:
            allowed = allowed._replace(topics=before.targets)
        if previous and self.exclude_topic:
            columns = _main_topic(previous[0]), allowed.excluded_targets
            excluded = jnp.concatenate([x for x in columns if x is not None], axis=1)
            allowed = allowed._replace(excluded_targets=excluded)

        # ---- The k best entries, and their scores with gradient ----
        entries = search.choose(memory, table, queries, self.k, allowed)
        if gold is not None:
            known = (gold[:, :, None] == entries[:, None, :]).any(axis=-1)
            entries = jnp.concatenate([entries, jnp.where(known, -1, gold)], axis=1)
        scores, topics, targets = search.rescore(memory, table, queries, entries)
        if before is not None:
            scores += _log_alpha(before, topics)
            outside = scores <= MASKED / 2  # gold entries of topics that were not retrieved
            entries, topics, targets = (
                jnp.where(outside, -1, x) for x in (entries, topics, targets)
            )

        # ---- q . k_null, and the softmax ----
        null = jnp.matmul(queries.relation, lm['r_null'][:, None], precision=_PRECISION)
        null += (queries.entity * (e if self.null_entity else lm['e_null'])).sum(-1, keepdims=True)
        if not self.own_prediction:
            null = jnp.full_like(null, MASKED)
        logits = jnp.concatenate([null, jnp.where(entries >= 0, scores, MASKED)], axis=1)
        return Hop(jax.nn.log_softmax(logits), entries, topics, targets)


def _concatenate(buckets):
    """Pytrees of arrays of several buckets, joined along rows; None where they hold None."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *buckets)


def _mixture(log_probs, targets, params, layout: Layout):
    """lambda [n, 1] and e_Y [n, d_e], from log_probs [n, 1 + k] and targets [n, k]."""
    probs = jnp.where(log_probs > MASKED / 2, jnp.exp(log_probs), 0.0)
    beta = jnp.where(targets >= 0, probs[:, 1:], 0.0)
    return probs[:, :1], entity_table.weighted_sum(
        params['entity_table'], targets, beta, layout.mesh
    )


def _log_alpha(before: Hop, topics):
    """Log weights of topics [B, k] among the targets of the hop before; very negative if absent."""
    same = (topics[:, :, None] == before.targets[:, None, :]) & (topics[:, :, None] >= 0)
    weights = masked_softmax(before.log_probs[:, 1:], before.targets >= 0)  # without null
    alpha = jnp.where(same, weights[:, None, :], 0.0).sum(axis=-1)
    return jnp.where(alpha <= 0, MASKED, log_weights(alpha))  # NaN stays NaN


def _main_topic(hop: Hop):
    """The topic [B, 1] of largest weight among a hop's entries; -1 if it retrieved nothing."""
    same = hop.topics[:, :, None] == hop.topics[:, None, :]
    weights = masked_softmax(hop.log_probs[:, 1:], hop.targets >= 0)
    share = jnp.where(same, weights[:, None, :], 0.0).sum(axis=-1)
    return jnp.take_along_axis(hop.topics, share.argmax(axis=-1, keepdims=True), axis=1)
