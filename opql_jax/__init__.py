"""A virtual knowledge base of open predicate relations: `opql_jax.open('films.kb').ask(...)`.

It is built from entity-linked text.
"""


def open(kb, **options):
    """Opens the knowledge base in a folder: a `VirtualKB`, see `open_kb` for the options."""
    from opql_jax.kb.open_kb import open_kb  # here, as importing the package imports nothing

    return open_kb(kb, **options)


def index(texts, out, **options):
    """Builds a knowledge base in the folder `out`, and opens it.

    `texts` are what `as_sources` takes, such as strings, documents or a table; `options` are those
    of `index_text`.
    """
    from opql_jax.datasets.text_records import as_sources  # as above
    from opql_jax.kb.text.index_text import index_text

    index_text(as_sources(texts), out, **options)
    return open(out)


def load_encoder(folder='default'):
    """Opens a relation encoder for any English text, by default the one in the package."""
    from opql_jax.models.text_encoder import TextEncoder  # as above

    return TextEncoder.load(folder)
