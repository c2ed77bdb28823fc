"""A virtual knowledge base of open predicate relations, built from entity-linked text: `opql_jax.open('films.kb').ask(...)`."""


def open(kb, **options):
    """Opens the knowledge base in a folder: a `VirtualKB`, see `VirtualKB.open` for the options."""
    from opql_jax.kb.virtual_kb import VirtualKB  # here, as importing the package imports nothing

    return VirtualKB.open(kb, **options)


def index(texts, out, **options):
    """Builds a knowledge base of texts or a table of them in the folder `out`, and opens it; see `index_documents`."""
    from opql_jax.kb.text.index_documents import index_documents  # as above

    index_documents(texts, out, **options)
    return open(out)


def load_encoder(folder='default'):
    """Opens a relation encoder that any English text can use, by default the one that ships with the package: a `TextEncoder`."""
    from opql_jax.models.text_encoder import TextEncoder  # as above

    return TextEncoder.load(folder)
