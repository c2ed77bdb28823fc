"""Lists of words of English, by their names in words.toml."""

from opql_jax.core.checkout import load_toml

_LISTS = load_toml('corpus/words.toml')


def word_list(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_LISTS[name].split())


def alternatives(name: str) -> str:
    """The words of a list, which may be patterns, as one pattern."""
    return '|'.join(_LISTS[name].split())
