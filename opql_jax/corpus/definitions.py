"""How a text defines its subject: 'American comedy film' in "Duck Soup is an American comedy ...".

The noun of a definition is better evidence of a kind than the name is: there are films called
'Laura', 'Fargo' and '1984'.
"""

import re
from collections.abc import Iterator

from opql_jax.corpus.words import alternatives, word_list

# The characters of a text in which its subject is defined.
_BEGINNING = 400
_IS_A = re.compile(
    r'\b(?:is|was|are|were)\s+(?:(?:both|either|one|some)\s+(?:of\s+)?)?(?:an?|the|two|three)\s+'
)
# Other continuations of a defining sentence: where, by whom, of what.
_IS_SAID_TO_BE = re.compile(
    rf'{_IS_A.pattern}|\b(?:is|was|are|were)\s+(?:one|part|born|located|situated|founded'
    r'|established|formed|built|fought|awarded|designed|released)\b'
)
# The first characters of a text, which hold its subject and the verb of its definition.
_OPENING = 1000
# Full stops that end no sentence: 'John F. Kennedy', 'St. Louis', but not before a pronoun; so
# 'Vitamin C. Scurvy is ...' goes on.
_FULL_STOP = (
    r'(?:(?<=\b[A-Z])|(?<=\b(?:St|Mt|Dr|Mr|Ms|Jr|Sr|Lt))|(?<=\b(?:Mrs|Gen|Col)))\.'
    r'(?!\s(?:He|She|It|They|This|That|These|There|His|Her|Its|Their|In|The)\b)'
)
_IN_BRACKETS = r'(?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,400}\)\s*)?'
# The name that a text begins with, brackets and commas after it, and the verb that defines it.
_SUBJECT = re.compile(
    r'(?P<before>\W{0,2})(?:(?:The|An?)\s+)?'
    r'(?P<name>[^\W_a-z](?:[^.,;:!?()\n]|:(?=\s[^\W_a-z])|,(?=\s[A-Z][a-z])'
    rf'|[!?](?=["”’\']*\s[a-z])|{_FULL_STOP}){{0,80}}?)'
    rf'[\s"”’\']*{_IN_BRACKETS}(?P<aside>,\s(?![A-Z][a-z])[^.;:!?()\n]{{1,80}}?(?'
    rf':\s{_IN_BRACKETS})?)?'
    r',?(?:\s|(?<=["”’\']))(?=(?:is|was|are|were)\s)'
)
_WORD = re.compile(r'[^\W_](?:[\w’\'-]*\w)?')
_AND = re.compile(r',?\s+and\s+|,\s+|\s+')
# Maximum number of words of a definition; longer ones are not noun phrases.
_MOST_WORDS = 10
_ENDS = word_list('after_nouns')
_NO_NAMES = _ENDS | word_list('no_subjects')
_SMALL = frozenset('a an and as at but by for from in nor of on or the to with'.split())
_BEHIND_PARTICIPLES = frozenset('as at between by for from in near of on to under with'.split())
# Lower-case words that no name contains.
_OF_CLAUSES = frozenset('that which who has have had'.split())
_PARTICIPLE = re.compile(
    r'(?:co-)?(?:\w{2,}(?:ed|ing)|written|made|born|known|set|shot|built|held|sung|produced)|\w+ly'
)


def definition(text: str) -> Iterator[tuple[int, int]]:
    """The characters of the words by which a text's beginning says what its subject is, or none."""
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
    # Participles at the end belong to what follows ("film written by"), unlike "animated film".
    while words and _PARTICIPLE.fullmatch(text[slice(*words[-1])]):
        words.pop()
    yield from words


def subject(text: str) -> str | None:
    """The name that a text begins with and defines, else None: 'Laura' of "Laura is a film"."""
    found = _SUBJECT.match(text, 0, _OPENING)
    if not found or not _IS_SAID_TO_BE.match(text, found.end(), _OPENING):
        return None
    first, *others = found['name'].split()
    if first[0].islower():
        return None
    quoted = any(mark in found['before'] for mark in '"“`')
    # "Born in Oslo, Ada was a singer": the subject follows the comma.
    is_behind = bool(others) and others[0] in _BEHIND_PARTICIPLES
    is_participle = is_behind and _PARTICIPLE.fullmatch(first.lower())
    begins_phrase = first.lower() in _NO_NAMES
    has_comma = found['aside'] or ',' in found['name']
    if has_comma and not quoted and (begins_phrase or is_participle):
        return None
    is_title = bool(others) and all(word[0].isupper() or word in _SMALL for word in others)
    if (begins_phrase and not (quoted or is_title)) or not _OF_CLAUSES.isdisjoint(others):
        return None
    return found['name'].strip()


_GUIDE = (
    '(?:[\\w-]+ ){0,2}(?:guide|handbook|manual|tutorial|documentation|reference|overview|primer'
    '|introduction|readme|faq)'
)


def guides_to(title: str, name: str) -> bool:
    """Whether a title calls a text a guide to something of that name, as 'Ada user guide' does."""
    name = f'(?:the )?{re.escape(name)}'
    guide = rf"{name}(?:['’]s?)?:? {_GUIDE}|(?:(?:an?|the) )?{_GUIDE} (?:to|of|for) {name}"
    return re.fullmatch(guide, title, re.I) is not None


# Nouns for things of a kind, as patterns.
PERSON, PLACE, GROUP, WORK = map(alternatives, ('persons', 'places', 'groups', 'works'))
_KINDS = {'person': PERSON, 'place': PLACE, 'organisation': GROUP, 'work': WORK}


def defined_kind(text: str) -> str | None:
    """The kind of what a text defines its subject as, of `recognition.KINDS`, if the noun tells."""
    words = [text[start:end] for start, end in definition(text)]
    tells = lambda nouns: words and re.fullmatch(nouns, words[-1], re.I)
    return next((kind for kind, nouns in _KINDS.items() if tells(nouns)), None)
