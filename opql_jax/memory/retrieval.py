"""What a search of the whole memory found, scored once more with gradient, and turned into entities and an embedding.

The relation part of a score comes from the device that owns the row, the entity part from the one that owns the row of E; what
is summed over devices is scores [B, k] and embeddings [B, d_e], never keys [B, k, d].
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from opql_jax.memory.follow import Followed, aggregate, masked_softmax, relation_values
from opql_jax.memory.search import even, placed, topk
from opql_jax.parallel.collectives import Batch, owned
from opql_jax.parallel.rules import axes_of, spec

_PRECISION = lax.Precision.HIGHEST


class Retrieved(NamedTuple):
    """What a search of the whole memory found.

    Attributes:
        followed: Followed, the targets and the evidence.
        scores: [B, k] float32 of `followed.entry_ids`, with gradient; -inf in unused slots.
        targets: [B, k] int32 of `followed.entry_ids`; -1 in unused slots.
        embedding: [B, d_e] float32, e_Y: the embeddings of the targets in the proportions of their weights.
    """

    followed: Followed
    scores: jax.Array
    targets: jax.Array
    embedding: jax.Array


def rescore(query_e, query_r, entry_ids, memory, entity_table, mesh):
    """Scores of chosen entries by their owners, with gradient to the queries, the relations and the entity table.

    Args:
        entry_ids: [B, k] int32; -1 in unused slots.
        query_e, query_r, memory, entity_table, mesh: as in `topk`.

    Returns:
        scores [B, k] float32, 0 in unused slots; topics and targets, both [B, k] int32, -1 in unused slots.
    """
    batch, axes = Batch.of(len(query_e), mesh), axes_of('entries')

    def score(query_e, query_r, entry_ids, memory, table):
        query_e, query_r, entry_ids = batch.gather((query_e, query_r, entry_ids))
        row, own = owned(entry_ids, len(memory.slot), axes)
        relations = relation_values(memory.relations[row]).astype(jnp.float32)
        scores = jnp.where(own, jnp.einsum('bd,bkd->bk', query_r, relations, precision=_PRECISION), 0.0)
        named = jnp.stack([memory.topics[memory.slot[row]], memory.target[row]])
        # 0 where an entry is of another device, so that the sum is the entity's number, and 1 more than it, or 0.
        topics, targets = lax.psum(jnp.where(own, named + 1, 0), axes) - 1
        place, own = owned(topics, len(table), axes_of('entities'))
        entities = table[place].astype(jnp.float32)
        scores += jnp.where(own, jnp.einsum('bd,bkd->bk', query_e, entities, precision=_PRECISION), 0.0)
        return batch.sum(scores), topics, targets

    specs = (batch.spec, batch.spec, batch.spec, placed(memory), spec('entities'))
    run = jax.shard_map(score, mesh=mesh, in_specs=specs, out_specs=(batch.spec, spec(), spec()))
    return run(query_e, query_r, entry_ids, memory, even(entity_table, mesh))


def target_embedding(targets, beta, entity_table, mesh):
    """e_Y [B, d_e] float32: the embeddings of `targets` [B, k], -1 in unused slots, weighted by `beta` [B, k].

    Each is summed by the device that owns its row of E.
    """
    batch = Batch.of(len(targets), mesh)

    def embed(targets, beta, table):
        targets, beta = batch.gather((targets, beta))
        place, own = owned(targets, len(table), axes_of('entities'))
        embeddings = table[place].astype(jnp.float32)
        return batch.sum(jnp.einsum('bk,bkd->bd', jnp.where(own, beta, 0.0), embeddings, precision=_PRECISION))

    specs = (batch.spec, batch.spec, spec('entities'))
    run = jax.shard_map(embed, mesh=mesh, in_specs=specs, out_specs=batch.spec)
    return run(targets, beta, even(entity_table, mesh))


def retrieve(query_e, query_r, memory, entity_table, mesh, k, **options):
    """One retrieval from the whole memory. Args as in `topk`.

    Returns:
        Retrieved, with gradient to the queries, the relations and the entity table.
    """
    _, entry_ids = topk(query_e, query_r, memory, entity_table, mesh, k, **options)
    scores, _, targets = rescore(query_e, query_r, entry_ids, memory, entity_table, mesh)
    valid = entry_ids >= 0
    beta = masked_softmax(scores, valid)
    embedding = target_embedding(targets, beta, entity_table, mesh)
    followed = Followed(*aggregate(targets, beta), entry_ids, beta)
    return Retrieved(followed, jnp.where(valid, scores, -jnp.inf), targets, embedding)
