"""Embeddings of entities that came after the entity table was trained, fitted to it."""

import numpy as np

from opql_jax.corpus.pairs import mention_tables
from opql_jax.data.prepared import Prepared
from opql_jax.models.bulk_encoding import encode_mentions

# Mentions of which the embedding of a new entity is made, and entities by which it is fitted to the entity table.
EMBEDDING_MENTIONS, FITTED_ENTITIES = 16, 512


def embeddings(encoder, params, prepared: Prepared, entities: np.ndarray) -> np.ndarray:
    """Rows for entities that the entity table E lacks, from what the encoder makes of their masked mentions.

    E was trained to be retrieved by these vectors, m = W_e^T h_start, but does not lie where they do: m is several times
    as long and far from all of E in one direction. So E's mean is taken, and the part in which the mean vector of an entity
    differs from that of all, times the factor that fits E best (least squares over some entities of E).

    Args:
        encoder: the relation encoder.
        params: its parameters and E, `{'encoder', 'entity_table' [n, d_e]}`.
        prepared: where the entities are mentioned.
        entities: ids [m], rising, none of them in E.

    Returns:
        [m, d_e] float32; E's mean for an entity without a mention.
    """
    table = np.asarray(params['entity_table'])
    mentions, _ = mention_tables(prepared.passages)
    mentions = {name: mentions[name].to_numpy() for name in ('passage', 'mention', 'entity')}
    known = np.unique(mentions['entity'])
    known = known[known < len(table)]
    known = known[_spread(np.arange(len(known)), len(known), FITTED_ENTITIES)]
    of, vectors = _mention_means(encoder, params['encoder'], prepared, mentions, np.append(known, entities))
    fitted = of < len(table)
    center, e_mean = vectors[fitted].mean(0), table[of[fitted]].mean(0)
    differs = vectors - center
    factor = (differs[fitted] * (table[of[fitted]] - e_mean)).sum() / (differs[fitted] ** 2).sum()
    rows = np.tile(e_mean, (len(entities), 1))
    rows[np.searchsorted(entities, of[~fitted])] += max(factor, 0) * differs[~fitted]
    return rows


def _mention_means(encoder, params, prepared, mentions, entities):
    """Those of the entities (given in rising order) that are mentioned [n], and their mean mention vectors [n, d_e]."""
    order = np.argsort(mentions['entity'], kind='stable')
    order = order[np.isin(mentions['entity'][order], entities)]
    entity = mentions['entity'][order]
    count = np.searchsorted(entity, entity, side='right') - np.searchsorted(entity, entity)
    rank = np.arange(len(entity)) - np.searchsorted(entity, entity)
    chosen = order[_spread(rank, count, EMBEDDING_MENTIONS)]
    passage, mention = mentions['passage'][chosen], mentions['mention'][chosen]
    vectors = encode_mentions(encoder, params, prepared, passage, mention)
    of, first, count = np.unique(mentions['entity'][chosen], return_index=True, return_counts=True)
    return of, np.add.reduceat(vectors, first) / count[:, None].astype(np.float32)


def _spread(rank, count, most):
    """Which items to take so that they are `most` of `count` at most and evenly spread, given the rank of each."""
    return (count <= most) | (rank * most // count < (rank + 1) * most // count)
