"""Relation following: from a question to its answers, hop by hop over the memory (paper §3)."""

import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from opql_jax.core.errors import InputError
from opql_jax.memory.follow import Followed, MemoryArrays, Queries, TopicSet, follow, set_embedding
from opql_jax.memory.hop import MIN_WEIGHT, log_weights
from opql_jax.memory.search import retrieve
from opql_jax.memory.selection import SearchFilter
from opql_jax.memory.sharding import ShardedMemory

_PRECISION = lax.Precision.HIGHEST


def _identity(_, shape):
    """Identity matrices: an untrained follower compares question and stored keys as they are."""
    return jnp.broadcast_to(jnp.eye(shape[-1]), shape)


class Follower(nn.Module):
    """Follows relations over a fixed memory.

    Hop h queries with q = W_q^T [e_X ; W_t^(h)^T r] (eq. 5), where e_X is the centroid of the
    topics (eq. 4) and r the relation of the question. Keys are k_i = W_k^T [E[topic_i] ; r_i]
    (§2.4). As q . k_i = (W_k q) . [E[topic_i] ; r_i], W_k is applied to the query: the language
    model trains it, which leaves the stored memory valid.

    Attributes:
        relation_dim, entity_dim: d_r and d_e.
        max_hops: the number of W_t.
        weigh_topics: with MemoryArrays, the weight of a topic counts in the scores of its entries;
            without, as in the paper, in the centroid alone.
    """

    relation_dim: int
    entity_dim: int
    max_hops: int = 3
    weigh_topics: bool = True

    def setup(self):
        dim = self.entity_dim + self.relation_dim
        self.w_q = self.param('w_q', _identity, (dim, dim))
        self.w_k = self.param('w_k', _identity, (dim, dim))
        shape = self.max_hops, self.relation_dim, self.relation_dim
        self.w_t = self.param('w_t', _identity, shape)

    def query(self, relation, centroid, hop: int) -> Queries:
        """The queries of a hop (from 0) with W_k folded in, from r [B, d_r] and e_X [B, d_e]."""
        relation = jnp.matmul(relation, self.w_t[hop], precision=_PRECISION)
        q = jnp.matmul(jnp.concatenate([centroid, relation], -1), self.w_q, precision=_PRECISION)
        folded = jnp.matmul(q, self.w_k.T, precision=_PRECISION)
        return Queries(folded[:, : self.entity_dim], folded[:, self.entity_dim :])

    def __call__(
        self,
        relation,
        topics,
        hops: int,
        memory: MemoryArrays | ShardedMemory,
        entity_table,
        k: int,
        exclude_topic: bool = False,
    ) -> list[Followed]:
        """Follows `hops` relations from the topics; the last entities and weights are the answers.

        The gradient of a loss on the last hop reaches all hops, through the centroid of the set and
        through the weight of each topic.

        Args:
            relation: [B, d_r] float32, the question's relation.
            topics: [B] int32, one topic per question, -1 for none (which finds nothing).
            hops: 1 .. max_hops (static).
            memory: MemoryArrays, of which a hop searches only the rows of its topics (the paper's
                filter); or ShardedMemory, of which a hop searches all rows and knows its topics by
                their centroid alone.
            entity_table: [n_entities, d_e].
            k: entries kept per hop (static); also the most topics of the next hop.
            exclude_topic: no path returns to its topic, not even on the way (true of MetaQA's
                questions by construction: the *other* films of a director).

        InputError: `hops` is out of range.
        """
        if not 1 <= hops <= self.max_hops:
            raise InputError(
                f'hops={hops} is not in 1..{self.max_hops}; max_hops sets how '
                'many a Follower can do'
            )
        exclude = topics if exclude_topic else None
        topics = topics[:, None]
        weights = jnp.where(topics >= 0, 1.0, 0.0)
        results: list[Followed] = []
        for hop in range(hops):
            queries = self.query(relation, set_embedding(topics, weights, entity_table), hop)
            if isinstance(memory, MemoryArrays):
                logs = log_weights(weights) if self.weigh_topics else jnp.zeros_like(weights)
                result = follow(memory, entity_table, queries, TopicSet(topics, logs, exclude), k)
            else:
                result = retrieve(
                    memory, entity_table, queries, k, SearchFilter(excluded_targets=exclude)
                )
                known = jnp.any(topics >= 0, axis=1, keepdims=True)
                result = Followed(
                    *(jnp.where(known, x, empty) for x, empty in zip(result, (-1, 0.0, -1, 0.0)))
                )
            results.append(result)
            topics, weights = result.entities, result.weights
        return results


def follow_loss(entities, weights, answers):
    """L_follow: -log of the weight that the last hop gives to all answers together (§3).

    A question whose answers got no weight, as the search kept no entry that leads to one, gives no
    gradient: it is left out of the mean, and lowers the metric `reachable`, a share of the
    questions with answers. Those without, as in padding, count nowhere. Entities and weights are
    [B, k], answers [B, A], ids -1 in unused slots. Returns the loss, a float32 scalar, 0 if no
    answer is reachable, and the metrics.
    """
    hit = jnp.any(entities[:, :, None] == answers[:, None, :], axis=-1) & (entities >= 0)
    mass = jnp.sum(jnp.where(hit, weights, 0.0), axis=-1)
    reached = mass > MIN_WEIGHT
    cost = jnp.where(reached, -jnp.log(jnp.where(reached, mass, 1.0)), 0.0)
    # NaN weights are not "unreached": they must show in the loss.
    cost = jnp.where(jnp.isnan(mass), mass, cost)
    has_answers = jnp.any(answers >= 0, axis=-1)
    count = jnp.sum(reached).astype(jnp.float32)
    loss = jnp.sum(cost) / jnp.maximum(count, 1.0)
    return loss, {'reachable': count / jnp.maximum(jnp.sum(has_answers), 1)}
