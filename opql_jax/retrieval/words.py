"""The words that passages and questions are compared by: folded, stemmed, content words."""

import functools
import re
import unicodedata

_WORD = re.compile(r'\w+')
_FUNCTION_WORDS = frozenset(
    'the a an of in on at to for by from and or is was were are be been being who whom whose '
    'which what when where why how did does do that this it its he his she her they their with '
    'as than not no also both into during'.split()
)
_VOWEL = re.compile('[aeiouy]')


def words_of(text: str) -> list[str]:
    """The stems of a text's words, in order, without accents, case and function words."""
    plain = (
        text
        if text.isascii()
        else ''.join(c for c in unicodedata.normalize('NFKD', text) if not unicodedata.combining(c))
    )
    return [_stem(word) for word in _WORD.findall(plain.casefold()) if word not in _FUNCTION_WORDS]


@functools.lru_cache(1 << 18)
def _stem(word: str) -> str:
    """A word's stem: one of 'directed', 'directing', 'directs'; it need not be a word."""
    if len(word) > 3 and word.endswith('s') and not word.endswith(('ss', 'us', 'is')):
        word = word[:-3] + 'y' if word.endswith('ies') and len(word) > 4 else word[:-1]
    for ending in ('ing', 'ed'):
        if (
            word.endswith(ending)
            and len(word) - len(ending) > 2
            and _VOWEL.search(word[: -len(ending)])
        ):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in 'lsz':
                word = word[:-1]
            break
    if len(word) > 4 and word.endswith(('er', 'or')):
        word = word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith('e') else word
