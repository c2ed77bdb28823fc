"""Extending a prepared corpus with new documents: its entities and passages keep their ids."""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab


@dataclasses.dataclass(frozen=True)
class BaseCorpus:
    """A prepared corpus (`tables.PASSAGES`) with whose entities and passages a larger begins."""

    vocab: EntityVocab
    passages: pa.Table
    manifest: tables.PreparedManifest

    def extend(
        self, vocab: EntityVocab, documents: Sequence[Document]
    ) -> tuple[EntityVocab, list[Document]]:
        """This vocabulary and then what is new in `vocab`, and the documents with its keys.

        An entity is known by its key or, where no document carries links, by name or alias.
        InputError: a document id is there already.
        """
        known = set(pc.unique(self.passages['doc_id']).to_pylist())
        for document in documents:
            if document.id in known:
                raise InputError(
                    f'document id {document.id!r} is known already: give only new documents'
                )
        by_name = all(document.mentions is None for document in documents)
        find = self.vocab.get if by_name else self.vocab.id_of_key.get
        ids = [find(key) for key in vocab.keys]
        new = [row for row, entity in enumerate(ids) if entity is None]
        extend = lambda own, column: [*own, *(column[row] for row in new)]
        columns = ('keys', 'names', 'aliases', 'kinds')
        larger = EntityVocab(*(extend(getattr(self.vocab, c), getattr(vocab, c)) for c in columns))
        key_of: dict[str | None, str] = {
            key: key if entity is None else self.vocab.keys[entity]
            for key, entity in zip(vocab.keys, ids)
        }
        renamed = [
            dataclasses.replace(d, title_entity=key_of.get(d.title_entity, d.title_entity))
            for d in documents
        ]
        return larger, renamed

    def mention_counts(self) -> tuple[collections.Counter[int], int]:
        """How many documents mention each entity, dropped or not, and how many there are."""
        documents = self.manifest.counts.documents
        lists = self.passages['mentions'].combine_chunks()
        of_passage = self.passages['doc_id'].combine_chunks().dictionary_encode().indices.to_numpy()
        document = np.repeat(of_passage, pc.list_value_length(lists).to_numpy())
        both = np.stack([document, lists.flatten().field('entity').to_numpy()])
        counts = collections.Counter(np.unique(both, axis=1)[1].tolist())
        for key, share in self.manifest.dropped_entities.items():
            counts[self.vocab.id_of_key[key]] = round(share * documents)
        return counts, documents
