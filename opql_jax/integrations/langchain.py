"""A knowledge base of plain text as a retriever of LangChain (extra `langchain`).

from opql_jax.integrations.langchain import OPQLRetriever
retriever = OPQLRetriever(kb=opql_jax.open('films.kb'), k=5)
retriever.invoke('who starred in the films directed by Christopher Nolan?')
"""

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever


class OPQLRetriever(BaseRetriever):
    """Documents that answer a question of one or several hops, best first.

    The metadata of a document are its `title`, its `score`, and `why` it was found, in words.

    Attributes:
        kb: a knowledge base of plain text, as `opql_jax.open` gives it.
        k: documents for each question.
    """

    kb: Any
    k: int = 5

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(
                page_content=found.text,
                id=found.document,
                metadata={'title': found.title, 'score': found.score, 'why': found.why},
            )
            for found in self.kb.retrieve(query, self.k)
        ]
