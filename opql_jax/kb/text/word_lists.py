"""Lists of English words, by their names in word_lists.toml: what all that reads text knows."""

from typing import Any

from opql_jax.core.checkout import load_toml
from opql_jax.retrieval.words import words_of

LISTS: dict[str, Any] = load_toml('kb/text/word_lists.toml')


def any_of(*names: str) -> str:
    """The words of lists, which may be patterns, as one pattern."""
    return '|'.join(word for name in names for word in LISTS[name].split())


def stems(words: str) -> frozenset[str]:
    """The stems of words, see `words_of`."""
    return frozenset(words_of(words))


# Of some verbs that are not regular past and participle, by base; and the stems of all their forms.
VERBS = {base: forms for base, *forms in map(str.split, LISTS['verbs'])}
FORMS = tuple(map(stems, LISTS['verbs']))
# From past to base, and from participle to past.
BASES = {past: base for base, (past, _) in VERBS.items()}
PAST_OF_PARTICIPLE = {participle: past for past, participle in VERBS.values()}
