"""OPQL-LM: a transformer that asks the memory and mixes what it finds into its own prediction (paper section 3.3).

The transformer is the relation encoder's, so that a pretrained one is where training starts, with EaE's entity memory after one
of its layers (Févry et al., 2020). A topic mention e1, with the answer hidden, gives a query over the whole memory,

    q = W_q^T [e ; W_t^T r],   e = softmax(E m_e1)^T E,   r = W_r^T [h_R1 ; h_R2]

and beside the k best entries stands one for "nothing", k_null = W_k^T [e ; r_null], with value 0. The softmax over these k + 1
gives the weights beta of the entries and the mass of null, lambda. (The paper mixes with 1 - lambda in the text and lambda in
the appendix, and its softmax over one score is always 1: design.md, decision 1.)

    m' = lambda m_ENT + W_v^T sum_i beta_i E[target_i]

is compared with all of E. The next hop asks with lambda e_ENT + sum_i beta_i E[target_i] in the place of e. With several topics each
asks for itself, with its own lambda, and beta and lambda of m' are what they agree on, see `agreement`. e rather than m_e1 because m
is several times as long as the rows of E it is to be compared with, so that null, which alone would hold m, would always win; W_v
for the same reason.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from opql_jax.core.errors import InputError
from opql_jax.data.texts import Texts
from opql_jax.memory import search
from opql_jax.memory.search import SearchFilter
from opql_jax.models.combine_topics import combine_topics
from opql_jax.models.encoder import RelationEncoder
from opql_jax.models.follower import Follower
from opql_jax.parallel import entity_table
from opql_jax.parallel.entity_table import Attended, Layout

# W_v at first: E[y], of length 1, must win a softmax over all of E.
_VALUE_SCALE = 12.0
# Entities that an answer ranks.
ANSWERS = 10
# Large and finite, see `losses.MASKED`.
_UNUSED = -1e30


class Heads(nn.Module):
    """What the language model has besides encoder, E and follower.

    Attributes:
        hidden_size, relation_dim, entity_dim: of the encoder.
    """

    hidden_size: int
    relation_dim: int
    entity_dim: int

    def setup(self):
        init = nn.initializers.truncated_normal(0.02)
        self.w_f = nn.Dense(self.entity_dim, use_bias=False, kernel_init=init)
        # At first the entity memory changes nothing, so that a pretrained encoder starts as it was.
        self.w_b = nn.Dense(self.hidden_size, use_bias=False, kernel_init=nn.initializers.zeros)
        self.r_null = self.param('r_null', nn.initializers.zeros, (self.relation_dim,))
        self.w_v = self.param('w_v', lambda _, n: _VALUE_SCALE * jnp.eye(n), self.entity_dim)

    def __call__(self, h):
        """Touches all parameters, for `init`."""
        return self.embed(self.mentions(h)), self.r_null, self.w_v

    def mentions(self, h):
        """What mentions ask the entity memory, from h_start [..., hidden_size]: [..., d_e] float32."""
        return self.w_f(h.astype(jnp.float32))

    def embed(self, entities):
        """What the entity memory adds to h_start, from what it found, [..., d_e]."""
        return self.w_b(entities)


def with_directions(params) -> dict:
    """The parameters with every row of E at length 1, which is how a language model reads E.

    What a hop found is a row of E, and the answer is the row with which its product is largest. Training makes the rows of frequent
    entities longer, and the longest would answer for others: of 40,000 entities only a third had their largest product with themselves.
    """
    table = params['entity_table']
    squares = jnp.sum(jnp.square(table), axis=-1, keepdims=True)
    return params | {'entity_table': table * lax.rsqrt(jnp.maximum(squares, 1e-12))}  # rows that fill up the devices are 0


def best_entities(prediction, table):
    """Of predictions m' [n, d_e] over E [n_entities, d_e], the best entities and their probabilities, both [n, min(ANSWERS, n_entities)]."""
    best, entities = lax.top_k(jax.nn.log_softmax(prediction @ table.T), min(ANSWERS, len(table)))
    return entities, jnp.exp(best)


class Read(NamedTuple):
    """What one hop of one topic read, for B = n T queries.

    Attributes:
        log_probs: [B, 1 + k] float32, of null and of the entries; very negative in unused slots.
        entries: [B, k] int32, rows of the memory in the order of the search, which a filter weighs anew; -1 in unused slots. In training
            gold entries follow.
        topics, targets: [B, k] int32, of the entries.
    """

    log_probs: jax.Array
    entries: jax.Array
    topics: jax.Array
    targets: jax.Array


class Output(NamedTuple):
    """What the model makes of n texts with T places for topics.

    Attributes:
        prediction: m' [n, d_e], to be compared with E; m_ENT for a text without a topic, or 0 if own predictions are left out.
        own: m_ENT [n, d_e], what it would be without the memory.
        topics: m_e1 [n, T, d_e]; with a memory the Attended of it, which the query needs.
        asked: Attended [n, T, ...], what the topics asked the entity memory; None without one.
        hops: a Read per hop, of n T queries; none without a memory.
        agreed: log_probs [n, 1 + K T] and targets [n, K T] of the last hop's K entries and null, as the topics agree on them, those
            that the search found first; None without a memory.
    """

    prediction: jax.Array
    own: jax.Array
    topics: jax.Array | Attended
    asked: Attended | None
    hops: list[Read]
    agreed: tuple[jax.Array, jax.Array] | None


def _join(items):
    """What each bucket has, one after the other; None if they do not have it."""
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *items)


def _weights(read: Read):
    """How much of what a hop read was each entry [B, K], null aside."""
    return jax.nn.softmax(jnp.where(read.targets >= 0, read.log_probs[:, 1:], _UNUSED))


def _log_weights(before: Read, topics):
    """log alpha of topics [B, K]: how much of what a hop found was each of them; very negative where none was."""
    same = (topics[:, :, None] == before.targets[:, None, :]) & (topics[:, :, None] >= 0)
    alpha = jnp.where(same, _weights(before)[:, None, :], 0.0).sum(axis=-1)
    return jnp.where(alpha <= 0, _UNUSED, jnp.log(jnp.maximum(alpha, 1e-30)))  # NaN stays NaN


def _read_about(first: Read):
    """The topic [B, 1] of most of what a hop read; -1 if it read nothing."""
    same = first.topics[:, :, None] == first.topics[:, None, :]
    share = jnp.where(same, _weights(first)[:, None, :], 0.0).sum(axis=-1)
    return jnp.take_along_axis(first.topics, share.argmax(axis=-1, keepdims=True), axis=1)


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """The language model as a function of its parameters, `{encoder, entity_table, follower, lm}`.

    Attributes:
        encoder: the transformer with W_r and W_e.
        max_hops: the number of W_t.
        entity_layer: layers below EaE's entity memory; 0 for none.
        k: entries kept per hop.
        own_prediction: mixes the model's own prediction in; without, the answer is what the memory says (OPQL-follow).
        null_entity: k_null knows the entity; without, it is the same for all queries (the paper's ablation).
        filter: hops after the first read only entries of the entities that the hop before found, each as much as it was found, as
            following does (`memory.follow`). Without, as in the paper, a hop knows these by their mean alone, which names one but not
            many.
        exclude_topic: hops after the first read no entry that leads back to the topic the first one read most about (true of MetaQA's
            questions by construction, see `Follower`).
    """

    encoder: RelationEncoder
    max_hops: int = 3
    entity_layer: int = 0
    k: int = 32
    own_prediction: bool = True
    null_entity: bool = True
    filter: bool = False
    exclude_topic: bool = False

    def __post_init__(self):
        if not 0 <= self.entity_layer < self.encoder.num_layers:
            raise InputError(
                f'entity_layer={self.entity_layer}: 0 for none, or fewer than the {self.encoder.num_layers} layers'
            )

    @property
    def follower(self) -> Follower:
        """Whose W_q, W_k and W_t the queries go through."""
        return Follower(self.encoder.relation_dim, self.encoder.entity_dim, self.max_hops)

    @property
    def heads(self) -> Heads:
        return Heads(self.encoder.hidden_size, self.encoder.relation_dim, self.encoder.entity_dim)

    @functools.partial(jax.jit, static_argnums=0)
    def init(self, key) -> dict:
        """Fresh parameters of what the encoder lacks: `{follower, lm}`."""
        relation, centroid = jnp.zeros((1, self.encoder.relation_dim)), jnp.zeros((1, self.encoder.entity_dim))
        follower = self.follower.init(key, relation, centroid, 0, method=Follower.query)['params']
        return {'follower': follower, 'lm': self.heads.init(key, jnp.zeros((1, self.encoder.hidden_size)))['params']}

    def read_text(self, params, layout: Layout, text: Texts, rng=None):
        """Encodes texts.

        Args:
            params: the parameters, see `with_directions`.
            layout: how E lies on the devices.
            text: the texts.
            rng: key of dropout; None for none.

        Returns:
            (own [n, d_e], topics [n, T, d_e], relations [n, T, d_r], asked [n, T, ...] or None), see `Output`.
        """
        plain = rng is None
        encoder = self.encoder.bind({'params': params['encoder']}, rngs=None if plain else {'dropout': rng})
        heads = self.heads.bind({'params': params['lm']})
        tokens, starts, ent = text.tokens, text.start, text.r2[:, None] - 1
        h, asked = encoder.lower_layers(tokens, self.entity_layer, plain), None
        if self.entity_layer:
            places = jnp.concatenate([starts, ent], axis=1)
            queries = heads.mentions(jnp.take_along_axis(h, places[:, :, None], axis=1))
            attended = entity_table.attend(queries.reshape(-1, queries.shape[-1]), params['entity_table'], layout)
            attended = jax.tree.map(lambda x: x.reshape(*queries.shape[:2], *x.shape[1:]), attended)
            used = jnp.pad(text.used, ((0, 0), (0, 1)), constant_values=True)  # [ENT] always is
            added = jnp.where(used[:, :, None], heads.embed(attended.found), 0.0)
            h, asked = (
                h.at[jnp.arange(len(h))[:, None], places].add(added.astype(h.dtype)),
                jax.tree.map(lambda x: x[:, :-1], attended),
            )
        places = jnp.concatenate([starts, ent, text.r1, text.r2[:, None]], axis=1)
        h = encoder.upper_layers(h, tokens, self.entity_layer, plain, places).astype(jnp.float32)
        topics, own, r1, r2 = jnp.split(h, np.cumsum([starts.shape[1], 1, starts.shape[1]]), axis=1)
        pair = jnp.concatenate([r1, jnp.broadcast_to(r2, r1.shape)], axis=-1)
        return encoder.w_e(own[:, 0]), encoder.w_e(topics), encoder.w_r(pair), asked

    def read_texts(self, params, layout: Layout, texts: Sequence[Texts], rng=None):
        """`read_text` of the texts of all buckets, one after the other."""
        keys = [None if rng is None else jax.random.fold_in(rng, i) for i in range(len(texts))]
        parts = [self.read_text(params, layout, text, key) for text, key in zip(texts, keys)]
        return [_join(items) for items in zip(*parts)]

    def __call__(self, params, layout: Layout, texts: Sequence[Texts], hops: int, memory, rng=None) -> Output:
        """Predicts the hidden entities.

        Args:
            params, layout: as in `read_text`.
            texts: those of each length bucket. Their `gold` entries are scored in the last hop whether found or not.
            hops: 1 .. max_hops (static).
            memory: ShardedMemory over the layout's mesh; None for no memory.
            rng: key of dropout; None for none.

        Returns:
            Output, the texts of all buckets one after the other.
        """
        own, topics, relations, asked = self.read_texts(params, layout, texts, rng)
        if memory is None:
            return Output(own, own, topics, asked, [], None)
        if not 1 <= hops <= self.max_hops:
            raise InputError(f'hops={hops} is not in 1..{self.max_hops}; max_hops sets how many a language model can do')
        table, (count, places) = params['entity_table'], topics.shape[:2]
        link = lambda mentions: entity_table.attend(mentions, table, layout)
        flat = lambda x: x.reshape(count * places, *x.shape[2:])
        spread = lambda x: jnp.repeat(x, places, axis=0)
        used, reads = _join([text.used for text in texts]), []
        given = lambda name: _join([getattr(text, name) for text in texts])
        passage = None if memory.passages is None else given('passage')
        allowed = jax.tree.map(spread, SearchFilter(excluded_targets=given('exclude'), excluded_passage=passage))
        gold = None if (rows := given('gold')) is None else flat(rows)
        linked = link(flat(topics))
        entity, own_entity = linked.found, spread(link(own).found) if hops > 1 and self.own_prediction else 0.0
        for hop in range(hops):
            last = hop == hops - 1
            reads.append(self._read(params, layout, flat(relations), entity, memory, allowed, gold if last else None, reads))
            if not last:
                null, entity = self._found(reads[-1].log_probs, reads[-1].targets, layout, table)
                entity += null * own_entity if self.own_prediction else 0.0
        rows = lambda x: x.reshape(count, places, -1)
        agreed = combine_topics(rows(reads[-1].log_probs), rows(reads[-1].targets), used)
        null, found = self._found(*agreed, layout, table)
        prediction = jnp.matmul(found, params['lm']['w_v'], precision=lax.Precision.HIGHEST)
        prediction += null * own if self.own_prediction else 0.0
        linked = jax.tree.map(lambda x: x.reshape(count, places, *x.shape[1:]), linked)
        return Output(prediction, own, linked, asked, reads, agreed)

    def _found(self, log_probs, targets, layout, table):
        """The mass of null [B, 1], and sum_i beta_i E[target_i] [B, d_e]."""
        probs = jnp.where(log_probs > _UNUSED / 2, jnp.exp(log_probs), 0.0)
        beta = jnp.where(targets >= 0, probs[:, 1:], 0.0)
        return probs[:, :1], entity_table.weighted_sum(table, targets, beta, layout.mesh)

    def _read(self, params, layout, relation, entity, memory, allowed: SearchFilter, gold, reads) -> Read:
        table = params['entity_table']
        before = reads[-1] if reads and self.filter else None
        queries = self.follower.apply({'params': params['follower']}, relation, entity, len(reads), method=Follower.query)
        if before is not None:
            rows, places = jnp.arange(len(entity))[:, None], jnp.where(before.targets >= 0, before.targets, len(table))
            topics = jnp.zeros((len(entity), len(table)), bool).at[rows, places].set(True, mode='drop')
            allowed = allowed._replace(topics=topics)
        if reads and self.exclude_topic:
            columns = [column for column in (_read_about(reads[0]), allowed.excluded_targets) if column is not None]
            allowed = allowed._replace(excluded_targets=jnp.concatenate(columns, axis=1))
        _, entries = search.top_k(memory, table, queries, self.k, allowed)
        if gold is not None:
            known = (gold[:, :, None] == entries[:, None, :]).any(axis=-1)
            entries = jnp.concatenate([entries, jnp.where(known, -1, gold)], axis=1)
        scores, topics, targets = search.rescore(memory, table, queries, entries)
        if before is not None:
            scores += _log_weights(before, topics)
            out = scores <= _UNUSED / 2  # gold ones of other topics
            entries, topics, targets = (jnp.where(out, -1, x) for x in (entries, topics, targets))
        null = jnp.matmul(queries.relation, params['lm']['r_null'][:, None], precision=lax.Precision.HIGHEST)
        if self.null_entity:
            null += (queries.entity * entity).sum(axis=-1, keepdims=True)
        if not self.own_prediction:
            null = jnp.full_like(null, _UNUSED)
        logits = jnp.concatenate([null, jnp.where(entries >= 0, scores, _UNUSED)], axis=1)
        return Read(jax.nn.log_softmax(logits), entries, topics, targets)
