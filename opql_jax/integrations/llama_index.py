"""A knowledge base of plain text as a retriever of LlamaIndex (extra `llama-index`).

For example:

    from opql_jax.integrations.llama_index import OPQLRetriever
    retriever = OPQLRetriever('films.kb', similarity_top_k=5)
    retriever.retrieve('who starred in the films directed by Christopher Nolan?')
"""

from __future__ import annotations

import asyncio
import os

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from opql_jax.integrations import folder_of, known, opened
from opql_jax.kb.text.retrieve import Retrieved
from opql_jax.kb.virtual_kb import VirtualKB


class OPQLRetriever(BaseRetriever):
    """Documents that answer a question of one or several hops, best first.

    A node has the text of a passage, its offsets in the document, and as metadata `source` (the id
    of the document), `title`, `why` it was found, and `evidence` (start and end, in the text, of
    the sentence that suits the question best). Its score is the probability that it is evidence,
    which can be compared between questions: `SimilarityPostprocessor` leaves out what has a lower
    one than its `similarity_cutoff`. The pickle of a retriever holds the folder of its knowledge
    base, which is opened again.

    Attributes:
        similarity_top_k: documents for each question; may be set between questions.
    """

    def __init__(self, kb: VirtualKB | str | os.PathLike, similarity_top_k: int = 5, **options):
        """Takes a knowledge base or its folder; `options` are LlamaIndex's."""
        super().__init__(**options)
        self._kb = opened(kb)
        self.similarity_top_k = similarity_top_k

    def __reduce__(self):
        return OPQLRetriever, (folder_of(self._kb), self.similarity_top_k)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = query_bundle.query_str
        return list(map(_node, self._kb.retrieve(asked, self.similarity_top_k, read=True)))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(found: Retrieved) -> NodeWithScore:
    said = known(source=found.document, title=found.title, why=found.why, evidence=found.sentence)
    place = {'start_char_idx': found.start, 'end_char_idx': found.end}
    node = TextNode(id_=found.document, text=found.text, metadata=said, **place)
    return NodeWithScore(node=node, score=found.probability)
