"""A knowledge base of plain text as a retriever of LlamaIndex (extra `llama-index`).

from opql_jax.integrations.llama_index import OPQLRetriever
retriever = OPQLRetriever(opql_jax.open('films.kb'), k=5)
retriever.retrieve('who starred in the films directed by Christopher Nolan?')
"""

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class OPQLRetriever(BaseRetriever):
    """Documents that answer a question of one or several hops, best first.

    The metadata of a node are its `title`, and `why` it was found, in words.
    """

    def __init__(self, kb, k: int = 5, **options):
        """Takes a knowledge base of plain text, as `opql_jax.open` gives it, the number of documents, and options of LlamaIndex."""
        super().__init__(**options)
        self._kb, self._k = kb, k

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(id_=found.document, text=found.text, metadata={'title': found.title, 'why': found.why}),
                score=found.score,
            )
            for found in self._kb.retrieve(query_bundle.query_str, self._k)
        ]
