"""The words that passages and questions are compared by: folded, stemmed, content words."""

import functools
import re

from opql_jax.corpus.name_resolution import without_accents

_WORD = re.compile(r'\w+')
_FUNCTION_WORDS = frozenset(
    'the a an of in on at to for by from and or is was were are be been being who whom whose '
    'which what when where why how did does do that this it its he his she her they their with '
    'as than not no also both into during'.split()
)
_VOWEL = re.compile('[aeiouy]')


def words_of(text: str) -> list[str]:
    """The stems of a text's words, in order, without accents, case and function words."""
    plain = without_accents(text).casefold()
    return [_stem(word) for word in _WORD.findall(plain) if word not in _FUNCTION_WORDS]


@functools.lru_cache(1 << 18)
def _stem(word: str) -> str:
    """A word's stem: one of 'directed', 'directing', 'directs'; it need not be a word."""
    if len(word) > 3 and word.endswith('s') and not word.endswith(('ss', 'us', 'is')):
        word = word[:-3] + 'y' if word.endswith('ies') and len(word) > 4 else word[:-1]
    for ending in ('ing', 'ed'):
        stem = word[: -len(ending)]
        if word.endswith(ending) and len(stem) > 2 and _VOWEL.search(stem):
            word = stem
            if word[-1] == word[-2] and word[-1] not in 'lsz':
                word = word[:-1]
            break
    if len(word) > 4 and word.endswith(('er', 'or')):
        word = word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith('e') else word
