"""Whether a sentence is about the second where a question asks for the first, and the like."""

import re
from collections.abc import Iterator

from opql_jax.kb.text.wanted import wanted_by
from opql_jax.kb.text.word_lists import LISTS, any_of, stems
from opql_jax.retrieval.words import words_of

# Words of which a thing has one: what is said of the north door is not said of the south door.
_RIVALS = tuple(frozenset(words.split()) for words in LISTS['rivals'])
# What makes a role another one: who is mayor is not the deputy mayor.
_LESSER = re.compile(rf'\b(?:{any_of("lesser")})(?= [a-z]|-[a-z])')
# In small letters, as 'the New Mill' may be old.
_THE = re.compile(r'\b(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir) ([a-z]+)\b')
# '2.2' of a release.
_VERSION = re.compile(r'(?<![\w.,])\d+(?:\.\d+)+(?![\w%])')
# 'the 13th', and 'room 102'.
_ORDINAL = re.compile(r'\b\d+(?:st|nd|rd|th)\b')
_MONTH = any_of('months')
_DATE = re.compile(
    rf'\b(?:{_MONTH}) \d+(?:st|nd|rd|th)?'
    rf'|\b\d+(?:st|nd|rd|th)?(?: of)? (?:{_MONTH}|centur(?:y|ies))\b'
)
_NUMBERED = re.compile(r'\b([a-z]{4,}) (\d{1,3}|\d{5,})\b', re.IGNORECASE)
_YEAR = re.compile(r'(?<![\d.,])[12]\d{3}(?![\d%]|[.,]\d)')
_IN_YEAR = re.compile(r'\b[Ii]n ([12]\d{3})\b')
_RANGE = re.compile(r'\b(?:from|between|since|until|before|after|by)\b|\d{4}\s?[–-]')
# What asks for what is so now or was so before, and what a sentence says that was or is.
_ASKS_NOW = re.compile(
    r'\b(?:current|currently|(?<!was )(?<!were )(?<!is )present(?! at)|now|today|nowadays)\b'
)
_ASKS_BEFORE = re.compile(
    r'\b(?:earlier|before(?! the\b| an?\b| it\b| this\b| that\b)|previous|previously|former'
    r'|formerly|originally)\b'
)
_WAS_FIRST = re.compile(r'\b(?:first|original|former|previous|earlier)\b')
_IS_NOW = re.compile(r'\b(?:now|currently|at present|today|still|these days)\b')
_IS = re.compile(r"\b(?:is|are|has|have|present|current)\b|['’]s\b")
_WAS = re.compile(
    r'\b(?:was|were|had|before|earlier|former(?:ly)?|previous(?:ly)?|until|used to|then|once|ago'
    r'|replac\w+|succe\w+|followed|took over)\b',
    re.IGNORECASE,
)
# 'Fewer than in 2014' says nothing of 2014.
_COMPARED = re.compile(r'\b(?:than|unlike|as) (?:in |that of |those of )?(?=[12]\d{3}\b)')
# Whom a question names beside whom it asks for: 'Who was captain before Holt?'
_BESIDE = re.compile(
    r'\b(?:before|(?<!named )(?<!called )after|besides|except|than|succeed(?:ed)?|replaced?'
    r'|followed?|preceded?|beat|beaten'
    r'|defeated?) (?P<name>[A-Z][\w’-]*(?: [A-Z][\w’-]*)*)'
)
# Characters that are looked at.
_LONGEST = 2_000
# "the tower of the church", "Ann Low's tall ship": what is owned in small letters, and by whom.
_OWNER = r'(?:[A-Z][\w-]*(?:(?: (?:of|the|de|van|von|al))? [A-Z][\w-]*)*|[a-z]{3,}(?: [a-z]{3,})?)'
_OF = re.compile(
    r'(?<![\w-])(?P<owned>[a-z]{3,}) of (?:(?:the|an?|his|her|its|their|our|my) )?'
    rf'(?P<owner>{_OWNER})'
)
_OWNED = re.compile(rf"(?P<owner>{_OWNER})(?:['’]s|(?<=s)['’]) (?:[a-z-]+ )?(?P<owned>[a-z]{{3,}})")


def is_of_other_owner(question: str, sentence: str) -> bool:
    """Whether a sentence has what a question asks about only as another's.

    Of "the marrow of Dodd weighed more than Crisp's leek" nothing is known of Crisp's marrow. The
    owners have to be two names, or both none: 'the village' may be a name's, and so may 'the USA'.
    """
    said = list(_owners(sentence))
    for owned, owner, is_name in _owners(question):
        others = [words for thing, words, named in said if thing == owned and named == is_name]
        if others and all(map(owner.isdisjoint, others)):
            return True
    return False


def _owners(text: str) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Each thing that a text says is of an owner: its stem, the owner's, whether a name."""
    # Of many things, as 'Museum' of 'the Lace Museum'.
    is_noun = lambda word: bool(wanted_by(f'which {word.lower()}').kinds)
    for pattern in (_OF, _OWNED):
        for found in pattern.finditer(text[:_LONGEST]):
            (owned,), is_name = words_of(found['owned']) or ('',), found['owner'][0].isupper()
            words = [word for word in found['owner'].split(' ') if not (is_name and is_noun(word))]
            owner = stems(' '.join(words))
            if owned and owner and not found['owner'].isupper():
                yield owned, owner, is_name


def has_rival(question: str, sentence: str) -> bool:
    """Whether a sentence has, in place of a word or year of a question, only another one."""
    if set(_LESSER.findall(question)) - set(_LESSER.findall(sentence)):
        return True
    asked, said = (set(_THE.findall(text)) for text in (question, sentence))
    if any(asked & rivals and said & rivals and not asked & said & rivals for rivals in _RIVALS):
        return True
    undated = [_DATE.sub(' ', text) for text in (question, sentence)]
    for pattern in (_VERSION, _ORDINAL):
        numbers, others = (set(pattern.findall(text)) for text in undated)
        if numbers and others and numbers.isdisjoint(others):
            return True
    numbered, others = (set(_NUMBERED.findall(text.lower())) for text in undated)
    if any(one not in others and one[0] in dict(others) for one in numbered):
        return True
    if _is_of_other_time(question, sentence):
        return True
    years = set(_IN_YEAR.findall(question))
    if compared := {sentence[found.end() :][:4] for found in _COMPARED.finditer(sentence)}:
        if years and years <= compared and all(sentence.count(year) == 1 for year in years):
            return True
    is_other = bool(years and _IN_YEAR.search(sentence)) and not _RANGE.search(sentence)
    return is_other and years.isdisjoint(_YEAR.findall(sentence))


def _is_of_other_time(question: str, sentence: str) -> bool:
    """Whether a sentence says what was first, and a question asks what is now, or the reverse."""
    if _ASKS_NOW.search(question):
        is_now = _IS_NOW.search(sentence) or _IS.search(sentence)
        return bool(_WAS_FIRST.search(sentence)) and not is_now
    is_before = _WAS.search(sentence)
    return bool(_ASKS_BEFORE.search(question) and _IS_NOW.search(sentence)) and not is_before


def is_named_beside(question: str, name: str) -> bool:
    """Whether a question names somebody beside whom it asks for: Holt of 'Who led before Holt?'."""
    words = stems(name)
    others = (stems(found['name']) for found in _BESIDE.finditer(question))
    return any(other and other <= words for other in others)
