"""Whether a sentence is about the second where a question asks for the first, and the like."""

import re

# Words of which a thing has one: what is said of the north door is not said of the south door.
_RIVALS = tuple(
    frozenset(words.split())
    for words in (
        'first second third fourth fifth sixth seventh eighth ninth tenth',
        'north south east west',
        'northern southern eastern western',
        'great large big grand small little',
        'upper lower middle',
        'left right',
        'inner outer',
        'old new',
        'older younger elder',
    )
)
# In small letters: New York is no new one.
_WORD = re.compile(r'\b[a-z]+\b')
# '2.2' of a release.
_VERSION = re.compile(r'(?<![\w.,])\d+(?:\.\d+)+(?![\w%])')
_YEAR = re.compile(r'(?<![\d.,])[12]\d{3}(?![\d%]|[.,]\d)')


def has_rival(question: str, sentence: str) -> bool:
    """Whether a sentence has, in place of a word or year of a question, only another of its kind.

    A year between two of the sentence is one of them.
    """
    asked, said = (set(_WORD.findall(text)) for text in (question, sentence))
    if any(asked & rivals and said & rivals and not asked & said & rivals for rivals in _RIVALS):
        return True
    versions, others = (set(_VERSION.findall(text)) for text in (question, sentence))
    if versions and others and versions.isdisjoint(others):
        return True
    years, known = ([int(year) for year in _YEAR.findall(text)] for text in (question, sentence))
    return bool(years and known) and not any(min(known) <= year <= max(known) for year in years)
