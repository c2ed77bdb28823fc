"""The step of recipes that makes a knowledge base of plain text."""

from opql_jax.kb.text.index_text import index_text


def index(source: str, kb: str) -> None:
    """`opql index`, of one file of documents."""
    index_text([source], kb)
