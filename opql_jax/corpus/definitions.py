"""What a text says that its subject is: 'American', 'romantic', 'comedy', 'film' of "Casablanca is an American romantic comedy film by ..."."""

import re
from collections.abc import Iterator

# The characters of a text in which its subject is defined.
_BEGINNING = 400
_IS_A = re.compile(r'\b(?:is|was|are|were)\s+(?:(?:both|either|one|some)\s+(?:of\s+)?)?(?:an?|the|two|three)\s+')
_WORD = re.compile(r'[^\W_](?:[\w’\'-]*\w)?')
_AND = re.compile(r',?\s+and\s+|,\s+|\s+')
# The most words of a definition; longer ones are no noun phrase any more.
_MOST_WORDS = 10
# A phrase goes on with these, and its noun has gone before.
_ENDS = frozenset(
    'about after against as at based before by during for from in into near of on one only or starring than that the to under where which who'
    ' whose with a an its his her their it he she they is was are were has had'.split()
)
_PARTICIPLE = re.compile(r'\w{2,}(?:ed|ing)|written|made|born|known|set|shot|built|held|sung|produced')


def definition(text: str) -> Iterator[tuple[int, int]]:
    """The characters of the words by which the beginning of a text says what its subject is; none if it does not say so."""
    found = _IS_A.search(text, 0, _BEGINNING)
    if not found:
        return
    at, words = found.end(), []
    while len(words) < _MOST_WORDS and (word := _WORD.match(text, at)):
        if word[0].lower() in _ENDS:
            break
        words.append(word.span())
        between = _AND.match(text, word.end())
        if not between:
            at = word.end()
            break
        at = between.end()
    # "film written and directed by": of the end of the phrase, participles belong to what follows, unlike in "animated film".
    while words and _PARTICIPLE.fullmatch(text[slice(*words[-1])]):
        words.pop()
    yield from words
