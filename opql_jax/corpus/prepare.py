"""From documents to the tables of a prepared directory.

`split_batch` is a pure function of an Arrow record batch, so it runs the same in a loop here, in a pool of processes (`pool`)
or inside a cluster engine that maps over batches (`spark`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core.batch_cache import BatchCache
from opql_jax.core.processes import map_ordered
from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError, Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.extension import Earlier
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.pairs import mine_pairs
from opql_jax.corpus.passages import split_document

BATCH_DOCUMENTS = 1024

LINKED = pa.schema(
    [
        ('id', pa.string()),
        ('title', pa.string()),
        ('title_entity', pa.int32()),
        ('text', pa.string()),
        ('mentions', pa.list_(tables.MENTION)),
    ]
)


def vocab_from_documents(documents: Iterable[Document]) -> EntityVocab:
    """The entities that documents name: title entities and linked mentions, in order of appearance.

    An entity is called by the title of the first document about it, otherwise by its most frequent
    mention; the other surface forms are its aliases, most frequent first. When no document has any link,
    every title is an entity (see `about_titles`).
    """
    documents = list(documents)
    linked = any(d.mentions or d.title_entity is not None for d in documents)
    titles: dict[str, str] = {}
    surfaces: dict[str, collections.Counter[str]] = {}
    for document in documents:
        about = document.title_entity if linked else document.title
        if about is not None:
            titles.setdefault(about, document.title)
            surfaces.setdefault(about, collections.Counter())
        for mention in document.mentions or ():
            surface = document.text[mention.start : mention.end]
            surfaces.setdefault(mention.entity, collections.Counter())[surface] += 1
    names, aliases = [], []
    for key, counts in surfaces.items():
        forms = sorted(counts, key=lambda form: (-counts[form], form))
        names.append(titles.get(key) or forms[0])
        aliases.append([form for form in forms if form != names[-1]])
    return EntityVocab(list(surfaces), names, aliases)


def about_titles(documents: Iterable[Document], vocab: EntityVocab) -> list[Document]:
    """Documents that state no title entity are about the one their title names, if there is one."""
    found = []
    for document in documents:
        entity = vocab.get(document.title) if document.title_entity is None else None
        found.append(document if entity is None else dataclasses.replace(document, title_entity=vocab.keys[entity]))
    return found


def link_documents(
    documents: Collection[Document],
    vocab: EntityVocab,
    drop_above_rate: float = 1.0,
    earlier: Earlier | None = None,
    nested: bool = False,
) -> tuple[Iterator[pa.RecordBatch], dict[int, float]]:
    """Gives every document mentions by entity id.

    Mentions that a document carries are kept, their keys turned into ids. A document whose mentions are None
    is linked by the names of the vocabulary.

    Args:
        documents: the whole corpus, or what it has besides `earlier`; gone through twice, so they need not be in memory.
        vocab: the entities.
        drop_above_rate, nested: see `MentionLinker`; they concern the documents linked by name.
        earlier: the corpus that this one extends.

    Returns:
        Batches of `LINKED` in document order, and the dropped entities with their share of documents.

    Raises:
        CorpusError: a mention's or title's entity is not in the vocabulary, which may come only with its batch; names document
            and field. An id is used more than once.
    """
    ids, repeated, unlinked = set(), [], []
    for document in documents:
        if document.id in ids:
            repeated.append(document.id)
        ids.add(document.id)
        if document.mentions is None:
            unlinked.append(_title_id(vocab, document))
    if repeated:
        raise CorpusError(f'document id {repeated[0]!r} is used more than once ({len(set(repeated))} ids are)')
    dropped, found = {}, iter(())
    if unlinked:
        linked = MentionLinker(vocab, drop_above_rate=drop_above_rate, nested=nested).link_all(
            (document.text for document in documents if document.mentions is None),
            unlinked,
            earlier.mentioned_in() if earlier else ({}, 0),
        )
        dropped, found = linked.dropped, iter(linked.mentions)
    return (_linked_batch(some, vocab, found) for some in _runs(documents, BATCH_DOCUMENTS)), dropped


def _runs(items: Iterable, size: int) -> Iterator[list]:
    items = iter(items)
    while run := list(itertools.islice(items, size)):
        yield run


def _linked_batch(documents: Sequence[Document], vocab: EntityVocab, found: Iterator[list[tuple]]) -> pa.RecordBatch:
    """A `LINKED` batch; of documents without mentions these are the next that were found."""
    mentions = []
    for document in documents:
        if document.mentions is None:
            mentions.append(next(found))
        else:
            given = sorted(enumerate(document.mentions), key=lambda pair: pair[1].start)
            mentions.append([(m.start, m.end, _key_id(vocab, document, f'mentions[{i}].entity', m.entity)) for i, m in given])
    arrays = [
        pa.array([d.id for d in documents], pa.string()),
        pa.array([d.title for d in documents], pa.string()),
        pa.array([_title_id(vocab, d) for d in documents], pa.int32()),
        pa.array([d.text for d in documents], pa.string()),
        mention_array(mentions),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LINKED)


def _title_id(vocab: EntityVocab, document: Document) -> int:
    return -1 if document.title_entity is None else _key_id(vocab, document, 'title_entity', document.title_entity)


def _key_id(vocab: EntityVocab, document: Document, field: str, key: str) -> int:
    found = vocab.id_of_key.get(key)
    if found is None:
        raise CorpusError(f'document {document.id!r}: {field}: unknown entity id {key!r}')
    return found


def mention_array(mentions: Sequence[Sequence[tuple[int, int, int]]]) -> pa.ListArray:
    """Lists of `(start, end, entity)` as an Arrow column of lists of `tables.MENTION`."""
    flat = np.array([m for row in mentions for m in row], np.int32).reshape(-1, 3)
    offsets = np.cumsum([0] + [len(row) for row in mentions], dtype=np.int32)
    items = pa.StructArray.from_arrays([pa.array(flat[:, i].copy()) for i in range(3)], fields=list(tables.MENTION))
    return pa.ListArray.from_arrays(pa.array(offsets), items)


def split_batch(
    batch: pa.RecordBatch, count_tokens: Callable[[str], int], max_tokens: int, title_prefix: str
) -> pa.RecordBatch:
    """Cuts the documents of a `LINKED` batch into passages, a `tables.PASSAGES` batch in order.

    See `split_document` for the arguments and errors.
    """
    passages = []
    for row in batch.to_pylist():
        mentions = [(m['start'], m['end'], m['entity']) for m in row['mentions']]
        document = Document(row['id'], row['title'], row['text'])
        passages += split_document(document, mentions, row['title_entity'], count_tokens, max_tokens, title_prefix)
    columns = [[getattr(p, field.name) for p in passages] for field in tables.PASSAGES]
    arrays = [pa.array(column, field.type) for column, field in zip(columns[:-1], tables.PASSAGES)]
    return pa.RecordBatch.from_arrays([*arrays, mention_array(columns[-1])], schema=tables.PASSAGES)


def write_corpus(
    directory: str | os.PathLike,
    documents: Collection[Document],
    vocab: EntityVocab,
    count_tokens: Callable[[str], int],
    *,
    max_tokens: int = 128,
    title_prefix: str = 'missing',
    pair_mode: str = 'title',
    drop_above_rate: float = 1.0,
    nested: bool = False,
    earlier: Earlier | None = None,
    processes: int | None = 1,
    parts: Path | None = None,
) -> dict:
    """Writes entities.parquet, passages.parquet and pairs.parquet, the same bytes for the same input.

    Args:
        directory: the prepared directory; made if need be, the three files are replaced.
        documents: the corpus, read as a stream and more than once; ids are unique.
        vocab: the entities; those never mentioned stay, with count 0.
        count_tokens: the number of tokens of a string.
        max_tokens: the most tokens a passage may have.
        title_prefix: 'missing', 'always' or 'never', see `split_document`.
        pair_mode: 'title' or 'all', see `mine_pairs`.
        drop_above_rate, nested: see `MentionLinker`.
        earlier: the corpus that this one extends: its passages come first, and `vocab` begins with its entities. Pairs,
            counts and rates are of both together.
        processes: that cut documents into passages; None for one per core. With more than one, `count_tokens` must be
            something that can be sent to another process.
        parts: a folder of passages cut with these settings, which exists: those of a batch of documents are kept there, and
            where an earlier run left them they are not made again; None keeps none.

    Returns:
        JSON values for the manifest: the settings above, `counts` (documents, documents_without_mentions,
        passages, mentions, entities, entities_mentioned, pair_rows, title_pair_rows, pairs) and
        `dropped_entities` (`{key: share of documents}`).

    Raises:
        CorpusError: the corpus is empty, has no pair, or names an entity that the vocabulary lacks.
    """
    directory = Path(directory)
    if not len(documents):
        raise CorpusError('empty corpus: there is no document to prepare')
    if not len(vocab):
        raise CorpusError('empty entity vocabulary: no name to link')
    linked, dropped = link_documents(documents, vocab, drop_above_rate, earlier, nested)
    without = 0

    def counted(batches):
        nonlocal without
        for batch in batches:
            without += int(np.count_nonzero(np.diff(batch['mentions'].offsets) == 0))
            yield batch

    split = functools.partial(split_batch, count_tokens=count_tokens, max_tokens=max_tokens, title_prefix=title_prefix)
    new = map_ordered(BatchCache(split, parts) if parts else split, counted(linked), processes)
    batches = itertools.chain(earlier.passages.to_batches() if earlier else (), new)
    tables.write_table(directory / 'passages.parquet', batches, tables.PASSAGES)
    # Their texts are left on disk.
    passages = pq.read_table(directory / 'passages.parquet', columns=['title_entity', 'mentions'])

    entities = passages['mentions'].combine_chunks().flatten().field('entity').to_numpy()
    mentioned = np.bincount(entities, minlength=len(vocab))
    vocab.save(directory / 'entities.parquet', mentioned.tolist())

    tally = _PairTally()
    rows = tables.write_table(directory / 'pairs.parquet', tally(mine_pairs(passages, pair_mode)), tables.PAIRS)
    if not rows:
        frequent = ', '.join(f'{vocab.names[e]!r} ({share:.0%})' for e, share in dropped.items())
        raise CorpusError(
            f'no pair in {len(documents)} documents: no passage mentions two entities'
            f'{", one of them its title entity" if pair_mode == "title" else ""}; check that the entity names are '
            'spelled as in the text'
            f'{f"; not linked, as more documents mention them than drop_above_rate allows: {frequent}" if frequent else ""}'
        )
    before = earlier.manifest if earlier else {'dropped_entities': {}, 'counts': collections.Counter()}
    return {
        'max_tokens': max_tokens,
        'title_prefix': title_prefix,
        'pair_mode': pair_mode,
        'drop_above_rate': drop_above_rate,
        'nested': nested,
        'dropped_entities': before['dropped_entities'] | {vocab.keys[e]: round(share, 4) for e, share in dropped.items()},
        'vocabulary': vocab.hash(),
        'counts': {
            'documents': before['counts']['documents'] + len(documents),
            'documents_without_mentions': before['counts']['documents_without_mentions'] + without,
            'passages': len(passages),
            'mentions': len(entities),
            'entities': len(vocab),
            'entities_mentioned': int(np.count_nonzero(mentioned)),
            'pair_rows': rows,
            'title_pair_rows': tally.title_rows,
            'pairs': tally.pairs,
        },
    }


class _PairTally:
    """Counts the title rows and the different (topic, target) pairs of a sorted stream of batches."""

    def __init__(self):
        self.title_rows = self.pairs = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = (-1, -1)
        for batch in batches:
            topic, target = batch['topic'].to_numpy(), batch['target'].to_numpy()
            if len(topic):
                new = (np.diff(topic) != 0) | (np.diff(target) != 0)
                self.pairs += int(new.sum()) + ((int(topic[0]), int(target[0])) != last)
                last = int(topic[-1]), int(target[-1])
                self.title_rows += batch['is_title'].true_count
            yield batch
