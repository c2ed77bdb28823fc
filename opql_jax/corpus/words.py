"""Lists of words of English, by their names in words.toml."""

from opql_jax.core.checkout import load_toml

_LISTS = load_toml('corpus/words.toml')


def word_list(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_LISTS[name].split())
