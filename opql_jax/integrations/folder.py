"""The folder of a knowledge base, by which retrievers are written and read."""

import os

from opql_jax.core.errors import InputError
from opql_jax.kb.virtual_kb import VirtualKB


def folder_of(kb: VirtualKB) -> str:
    """The absolute path of the folder of a knowledge base; InputError if it was not opened from one."""
    if kb.folder is None:
        raise InputError('this knowledge base was not opened from a folder')
    return os.path.abspath(kb.folder.path)
