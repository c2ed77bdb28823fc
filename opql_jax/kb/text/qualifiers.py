"""Whether a sentence is about the second where a question asks for the first, and the like."""

import re

# Words of which a thing has one: what is said of the north door is not said of the south door.
_RIVALS = tuple(
    frozenset(words.split())
    for words in (
        'first second third fourth fifth sixth seventh eighth ninth tenth',
        'north south east west',
        'northern southern eastern western',
        'great small',
        'upper lower middle',
    )
)
# In small letters, as 'the New Mill' may be old.
_THE = re.compile(r'\b(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir) ([a-z]+)\b')
# '2.2' of a release.
_VERSION = re.compile(r'(?<![\w.,])\d+(?:\.\d+)+(?![\w%])')
_YEAR = re.compile(r'(?<![\d.,])[12]\d{3}(?![\d%]|[.,]\d)')
_IN_YEAR = re.compile(r'\b[Ii]n ([12]\d{3})\b')
_RANGE = re.compile(r'\b(?:from|between|since|until|before|after|by)\b|\d{4}\s?[–-]')


def has_rival(question: str, sentence: str) -> bool:
    """Whether a sentence has, in place of a word or year of a question, only another one."""
    asked, said = (set(_THE.findall(text)) for text in (question, sentence))
    if any(asked & rivals and said & rivals and not asked & said & rivals for rivals in _RIVALS):
        return True
    versions, others = (set(_VERSION.findall(text)) for text in (question, sentence))
    if versions and others and versions.isdisjoint(others):
        return True
    years = set(_IN_YEAR.findall(question))
    is_other = bool(years and _IN_YEAR.search(sentence)) and not _RANGE.search(sentence)
    return is_other and years.isdisjoint(_YEAR.findall(sentence))
