"""New documents for a corpus that was prepared before: entities and passages that were there keep their ids."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from opql_jax.corpus.documents import CorpusError, Document
from opql_jax.corpus.entities import EntityVocab


@dataclasses.dataclass(frozen=True)
class Earlier:
    """The prepared corpus that a larger one begins with.

    Attributes:
        vocab: its entities.
        passages: its `tables.PASSAGES`.
        manifest: of its folder.
    """

    vocab: EntityVocab
    passages: pa.Table
    manifest: dict

    def extended(self, vocab: EntityVocab, documents: Sequence[Document]) -> tuple[EntityVocab, list[Document]]:
        """The vocabulary of the larger corpus: the earlier entities as they were, then the new ones of `vocab`.

        An entity is an earlier one if it has its key. Where no document carries links, keys are but names, so that the
        name or alias of an earlier entity is that entity too.

        Args:
            vocab, documents: what a reader gave for the new text.

        Returns:
            The vocabulary, and the documents with the keys it has.

        Raises:
            CorpusError: a document is in the earlier corpus already.
        """
        known = set(pc.unique(self.passages['doc_id']).to_pylist())
        for document in documents:
            if document.id in known:
                raise CorpusError(
                    f'document id {document.id!r} is in the folder that is extended already: give the new documents only'
                )
        by_name = all(document.mentions is None for document in documents)
        find = self.vocab.get if by_name else self.vocab.id_of_key.get
        ids = [find(key) for key in vocab.keys]
        new = [row for row, found in enumerate(ids) if found is None]
        extend = lambda earlier, column: [*earlier, *(column[row] for row in new)]
        larger = EntityVocab(
            extend(self.vocab.keys, vocab.keys),
            extend(self.vocab.names, vocab.names),
            extend(self.vocab.aliases, vocab.aliases),
        )
        key_of: dict[str | None, str] = {
            key: key if found is None else self.vocab.keys[found] for key, found in zip(vocab.keys, ids)
        }
        renamed = [
            dataclasses.replace(document, title_entity=key_of.get(document.title_entity, document.title_entity))
            for document in documents
        ]
        return larger, renamed

    def mentioned_in(self) -> tuple[collections.Counter[int], int]:
        """In how many of its documents each entity was found, those included that were then left out for being in too many;
        and how many documents it has."""
        documents = self.manifest['counts']['documents']
        lists = self.passages['mentions'].combine_chunks()
        of_passage = self.passages['doc_id'].combine_chunks().dictionary_encode().indices.to_numpy()
        document = np.repeat(of_passage, pc.list_value_length(lists).to_numpy())
        both = np.stack([document, lists.flatten().field('entity').to_numpy()])
        counts = collections.Counter(np.unique(both, axis=1)[1].tolist())
        for key, share in self.manifest['dropped_entities'].items():
            counts[self.vocab.id_of_key[key]] = round(share * documents)
        return counts, documents
