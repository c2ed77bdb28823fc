"""The reader of documents that were read before.

The next version of a knowledge base of plain text is made of them.
"""

import dataclasses
import pathlib
import shutil
from typing import ClassVar

from opql_jax.core.batch_cache import MapBatches
from opql_jax.corpus import tables
from opql_jax.corpus.documents import Document, write_documents
from opql_jax.datasets.plain_text import link_names


@dataclasses.dataclass(frozen=True)
class StoredText:
    """Documents without links, as `PlainText.documents` gives them; at least one, each id once.

    Attributes:
        source: where they come from, for messages.
        rejected: the `rejected.jsonl` of the version before, which is taken over.
        cache, processes, map_batches: see `PlainText`.
    """

    paths: ClassVar = ('documents', 'source', 'rejected', 'cache', 'processes', 'map_batches')
    documents: tuple[Document, ...]
    source: str
    rejected: pathlib.Path
    cache: pathlib.Path
    processes: int | None = 1
    map_batches: MapBatches | None = None

    def files(self):
        return {}

    def read(self, rejected_path):
        shutil.copyfile(self.rejected, rejected_path)
        write_documents(rejected_path.with_name(tables.DOCUMENTS_FILE), self.documents)
        return link_names(
            self.documents, self.cache, self.source, None, self.processes, self.map_batches
        )

    def questions(self, vocab, rejected_path):
        return {}
