"""Lists of words of English, by their names in words.toml."""

import importlib.resources
import tomllib

_LISTS = tomllib.loads((importlib.resources.files(__package__) / 'words.toml').read_text('utf-8'))


def word_list(name: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(_LISTS[name].split())
