"""Builds the tables of a prepared folder from documents: entities, passages and pairs."""

import itertools
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.extension import BaseCorpus
from opql_jax.corpus.linking import link_documents
from opql_jax.corpus.pairs import mine_pairs


def build_tables(
    directory: str | os.PathLike,
    documents: Collection[Document],
    vocab: EntityVocab,
    split: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    base: BaseCorpus | None = None,
    drop_above_rate: float = 1.0,
    nested: bool = False,
) -> dict:
    """Writes entities, passages and pairs.parquet into a folder, the same bytes for the same input.

    Documents, with unique ids, are read as a stream and more than once; entities that they never
    mention stay, with count 0. `split` maps `splitting.split_batch` over batches, in order.
    Passages of the extended corpus `base` come first, `vocab` begins with its entities, and pairs,
    counts and rates are of both. Returns the `dropped_entities` and `counts` of
    `tables.PreparedManifest`. InputError: the corpus is empty, has no pair, or names an entity that
    the vocabulary lacks. For `drop_above_rate` and `nested` see `MentionLinker`.
    """
    directory = Path(directory)
    if not len(documents):
        raise InputError('empty corpus: there is no document to prepare')
    if not len(vocab):
        raise InputError('empty entity vocabulary: no name to link')
    linked, dropped = link_documents(documents, vocab, drop_above_rate, nested, base)
    before = base.manifest.counts if base else None
    unlinked = before.documents_without_mentions if before else 0

    def count_unlinked(batches):
        for batch in batches:
            nonlocal unlinked
            unlinked += int(np.count_nonzero(np.diff(batch['mentions'].offsets) == 0))
            yield batch

    first = base.passages.to_batches() if base else ()
    batches = itertools.chain(first, split(count_unlinked(linked)))
    tables.write_table(directory / 'passages.parquet', batches, tables.PASSAGES)
    # Their texts are left on disk.
    passages = pq.read_table(directory / 'passages.parquet', columns=['title_entity', 'mentions'])

    entities = passages['mentions'].combine_chunks().flatten().field('entity').to_numpy()
    mentioned = np.bincount(entities, minlength=len(vocab))
    vocab.save(directory / 'entities.parquet', mentioned.tolist())

    mined, path = mine_pairs(passages), directory / 'pairs.parquet'
    rows = tables.write_table(path, mined, tables.PAIRS)
    if not rows:
        frequent = ', '.join(f'{vocab.names[e]!r} ({share:.0%})' for e, share in dropped.items())
        left_out = f'; too frequent for drop_above_rate: {frequent}' if frequent else ''
        raise InputError(
            f'no pair in {len(documents)} documents: no passage mentions two entities; '
            f'check that the entity names are spelled as in the text{left_out}'
        )
    columns = pq.read_table(path, columns=['topic', 'target', 'is_title'])
    topic, target = (tables.numbers(columns[name]) for name in ('topic', 'target'))
    shares = {vocab.keys[entity]: round(share, 4) for entity, share in dropped.items()}
    counts = dict(
        documents=len(documents) + (before.documents if before else 0),
        documents_without_mentions=unlinked,
        passages=len(passages),
        mentions=len(entities),
        entities=len(vocab),
        entities_mentioned=int(np.count_nonzero(mentioned)),
        pair_rows=rows,
        title_pair_rows=pc.sum(columns['is_title']).as_py(),
        pairs=1 + int(np.count_nonzero(np.diff(topic) | np.diff(target))),
    )
    shares = (base.manifest.dropped_entities if base else {}) | shares
    return {'dropped_entities': shares, 'counts': counts}
