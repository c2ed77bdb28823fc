"""Whether texts are English, by their frequent words."""

import re
from collections.abc import Sequence

from opql_jax.corpus.words import word_list

# Fewest words to tell a language by, and the least share of its frequent ones (prose has .3 to .5).
JUDGED_FROM, FREQUENT_SHARE = 50, 0.05
# Characters of a text that are looked at to tell its language.
JUDGED_CHARACTERS = 100_000
_ENGLISH = word_list('english')
_OTHER = word_list('other_languages')
_WORD = re.compile(r'\w+')


def other_language(texts: Sequence[str]) -> str:
    """Why texts are not English, as shares of words; '' if they seem English or are too short."""
    count = latin = english = other = 0
    for text in texts:
        words = words_of_language(text)
        count += len(words)
        latin += sum(word.isascii() for word in words)
        english += sum(word in _ENGLISH for word in words)
        other += sum(word in _OTHER for word in words)
    is_other = latin < count / 2 or (other > english and other > FREQUENT_SHARE * count)
    if count < JUDGED_FROM or not is_other:
        return ''
    return (
        f'of its {count} words {latin / count:.0%} are in Latin letters, {english / count:.0%} '
        f'frequent words of English and {other / count:.0%} of other languages'
    )


def words_of_language(text: str) -> list[str]:
    """The words of the beginning of a text, in lower case."""
    return _WORD.findall(text[:JUDGED_CHARACTERS].lower())
