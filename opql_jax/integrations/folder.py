"""The folder of a knowledge base, by which retrievers are written and read."""

import os

from opql_jax.kb.virtual_kb import VirtualKB


def folder_of(kb: VirtualKB) -> str:
    """The absolute path of the folder of a knowledge base."""
    return os.path.abspath(kb.folder.path)
