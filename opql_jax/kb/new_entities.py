"""Embeddings for entities that came after the entity table E was trained."""

import numpy as np

from opql_jax.corpus.pairs import mention_tables
from opql_jax.data.prepared import Prepared
from opql_jax.models.bulk_encoding import encode_mentions

# Mentions that the embedding of an entity is made from, and entities of E that the embeddings are
# fitted to.
MENTIONS_PER_ENTITY, FITTED_ENTITIES = 16, 512


def embed_new_entities(encoder, params, prepared: Prepared, entities: np.ndarray) -> np.ndarray:
    """Rows of E for new entities, made from the encoder's vectors of their masked mentions.

    E was trained to be retrieved by these vectors, m = W_e^T h_start, but does not lie among them:
    m is several times as long and far from all of E in one direction. So a row is E's mean plus the
    entity's deviation from the mean vector, scaled by the factor that fits E best (least squares
    over some entities of E).

    `params` has the parameters of the encoder and 'entity_table', E [n, d_e]; the `entities` [m]
    rise, and none of them is in E. Returns [m, d_e] float32; E's mean for an entity without a
    mention.
    """
    table = np.asarray(params['entity_table'])
    mentions, _ = mention_tables(prepared.passages)
    mentions = {name: mentions[name].to_numpy() for name in ('passage', 'mention', 'entity')}
    known = np.unique(mentions['entity'])
    known = known[known < len(table)]
    known = known[_evenly_spread(np.arange(len(known)), len(known), FITTED_ENTITIES)]
    of = np.append(known, entities)
    mentioned, vectors = _mean_mention_vectors(encoder, params['encoder'], prepared, mentions, of)
    fitted = mentioned < len(table)
    vector_mean, table_mean = vectors[fitted].mean(0), table[mentioned[fitted]].mean(0)
    deviation = vectors - vector_mean
    covariance = (deviation[fitted] * (table[mentioned[fitted]] - table_mean)).sum()
    scale = covariance / (deviation[fitted] ** 2).sum()
    rows = np.tile(table_mean, (len(entities), 1))
    rows[np.searchsorted(entities, mentioned[~fitted])] += max(scale, 0) * deviation[~fitted]
    return rows


def _mean_mention_vectors(encoder, params, prepared, mentions, entities):
    """The mentioned entities (given rising) [n], and the means of their vectors [n, d_e]."""
    order = np.argsort(mentions['entity'], kind='stable')
    order = order[np.isin(mentions['entity'][order], entities)]
    entity = mentions['entity'][order]
    count = np.searchsorted(entity, entity, side='right') - np.searchsorted(entity, entity)
    rank = np.arange(len(entity)) - np.searchsorted(entity, entity)
    chosen = order[_evenly_spread(rank, count, MENTIONS_PER_ENTITY)]
    passage, mention = mentions['passage'][chosen], mentions['mention'][chosen]
    vectors = encode_mentions(encoder, params, prepared, passage, mention)
    mentioned, first, count = np.unique(
        mentions['entity'][chosen], return_index=True, return_counts=True
    )
    return mentioned, np.add.reduceat(vectors, first) / count[:, None].astype(np.float32)


def _evenly_spread(rank, count, most):
    """Which of `count` items, known by ranks, to take: at most `most`, evenly spread."""
    return (count <= most) | (rank * most // count < (rank + 1) * most // count)
