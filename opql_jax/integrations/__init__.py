"""Knowledge bases of plain text in other programs: LangChain, LlamaIndex and MCP."""

import os
from typing import Any

import opql_jax


def opened(kb: Any) -> Any:
    """A knowledge base, which may be given by its folder."""
    return opql_jax.open(kb) if isinstance(kb, str | os.PathLike) else kb


def known(**metadata: Any) -> dict[str, Any]:
    """The metadata of a document, as far as it is known."""
    return {name: value for name, value in metadata.items() if value is not None}


def folder_of(kb: Any) -> str:
    """The absolute path of a knowledge base, which stands for it where a retriever is pickled."""
    return os.path.abspath(kb.folder.path)
