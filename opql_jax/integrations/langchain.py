"""A knowledge base of plain text as a retriever of LangChain (extra `langchain`).

For example:

    from opql_jax.integrations.langchain import OPQLRetriever
    retriever = OPQLRetriever(kb='films.kb', k=5)
    retriever.invoke('who starred in the films directed by Christopher Nolan?', k=2)
"""

from __future__ import annotations

from typing import Annotated, Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import run_in_executor
from pydantic import BeforeValidator, PlainSerializer

from opql_jax.integrations import folder_of, known, opened
from opql_jax.kb.text.retrieve import Retrieved


class OPQLRetriever(BaseRetriever):
    """Documents that answer a question of one or several hops, best first.

    A document has its passage as `page_content`, and as metadata `source` (the id of the document),
    `title`, `score` (the probability that it is evidence, which can be compared between questions),
    `why` it was found, `start_index` (where the passage begins in the document) and `evidence`
    (start and end, in `page_content`, of the sentence that suits the question best). The JSON form
    and the pickle of a retriever hold the folder of its knowledge base, which is opened again.

    Attributes:
        kb: a knowledge base of plain text, or its folder.
        k: documents for each question. Calls may give another.
        score_threshold: documents with a lower score are left out. Calls may give another.
    """

    kb: Annotated[Any, BeforeValidator(opened), PlainSerializer(folder_of)]
    k: int = 5
    score_threshold: float = 0.0

    def __reduce__(self):
        return OPQLRetriever.model_validate, (self.model_dump(),)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun | None = None,
        k: int | None = None,
        score_threshold: float | None = None,
    ) -> list[Document]:
        least = self.score_threshold if score_threshold is None else score_threshold
        found = self.kb.retrieve(query, self.k if k is None else k, read=True)
        return [_document(one) for one in found if one.probability >= least]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        return await run_in_executor(None, self._get_relevant_documents, query, **options)


def _document(found: Retrieved) -> Document:
    metadata = known(
        source=found.document,
        title=found.title,
        score=found.probability,
        why=found.why,
        start_index=found.start,
        evidence=found.sentence,
    )
    return Document(page_content=found.text, id=found.document, metadata=metadata)
