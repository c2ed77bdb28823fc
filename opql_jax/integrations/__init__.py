"""Knowledge bases of plain text in other programs: LangChain, LlamaIndex and MCP."""

import os


def folder_of(kb) -> str:
    """The absolute path of the folder of a knowledge base, by which retrievers are written."""
    return os.path.abspath(kb.folder.path)
