"""A virtual knowledge base of open predicate relations, built from entity-linked text: `opql_jax.open('films.kb').ask(...)`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opql_jax.kb.virtual_kb import VirtualKB


def open(kb: str | os.PathLike, **options) -> VirtualKB:
    """Opens the knowledge base in a folder, see `VirtualKB.open`."""
    from opql_jax.kb.virtual_kb import VirtualKB  # which imports JAX

    return VirtualKB.open(kb, **options)
