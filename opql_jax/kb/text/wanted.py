"""What a question asks for, by its question word and the noun that stands with it.

'Who built it' asks for a person, 'the ship sailed to which port' for a port, and 'what was the name
of the inn' for an inn.
"""

import functools
import re
from typing import NamedTuple

from opql_jax.corpus.definitions import GROUP, PERSON, PLACE, WORK
from opql_jax.corpus.words import alternatives
from opql_jax.kb.text import values
from opql_jax.kb.text.word_lists import LISTS, any_of
from opql_jax.retrieval.words import words_of


class Wanted(NamedTuple):
    """What a question asks for.

    Attributes:
        kinds: the kinds of entity that it asks for; none if it does not say.
        nouns: the words that may be the noun that it asks for, as `words.words_of` gives them.
        is_year: whether it asks for a year by that word.
        measures: of which a quantity may be, '' of a count, see `values.number`; none if it does
            not say.
        is_country: whether a place is a country; None if it does not say.
        is_what: whether the noun is one that texts say what they are about by: 'poet', not 'owner'.
    """

    kinds: tuple[str, ...]
    nouns: frozenset[str] = frozenset()
    is_year: bool = False
    measures: tuple[str, ...] = ()
    is_country: bool | None = None
    is_what: bool = False


# Characters of a question that are looked at.
_LONGEST = 2_000
_PREPOSITIONS = f'{any_of("prepositions")}|upon|within|as|besides|based on|according to'
_AUXILIARIES = f'{any_of("auxiliaries")}|be|been|may|might|must|should'
_AUXILIARY = re.compile(rf"\s+(?:{_AUXILIARIES})\b|['’]s\b", re.IGNORECASE)
# 'What Is the Age of', as titles are written.
_IN_CAPITALS = re.compile(r'(?<=\w )(?:Is|Are|Was|Were|Did|Does|Do|Has|Had)\b')
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”')
# Amid a question only in small letters: no 'Doctor Who'.
_WORD = re.compile(
    r'\b(?:who|whom|whose|what|which|where|when|how)\b'
    r'|(?<![^.!?:;] )\b(?i:who|whom|whose|what|which|where|when|how)\b'
)
_CENTURY = re.compile(r'\b\d+(?:st|nd|rd|th)[ -]century\b', re.IGNORECASE)
# What may stand before the word that asks: nothing, or as in "On what" and "Ann wrote it, but who";
# else a clause, as in "In the US, who".
_BEGIN = (
    r'(?:^|[.!?:;]\s+|\bbut\s+|,\s+(?:and|so)\s+)(?:(?:and|but|so|then|also|please|tell me)\s+)?'
)
_FIRST = re.compile(rf'{_BEGIN}(?:(?:{_PREPOSITIONS})\s+)?$', re.IGNORECASE)
_AFTER_CLAUSE = re.compile(
    rf'{_BEGIN}(?:{_PREPOSITIONS}|when|where|while|if)\s+[^.!?]*,\s+(?:(?:{_PREPOSITIONS})\s+)?$',
    re.IGNORECASE,
)
_ENDS = re.compile(r'\W*$')
# "the father of it" rather than a question.
_HEAD = re.compile(
    r'(?:the|a|an|those|all)\s+(?:[\w-]+\s+){0,2}?([\w-]+)(?:\s+\w+e[dn])?\s+(?:of|in|from|by|who'
    r'|whom|that|which|whose|where|with)\b',
    re.IGNORECASE,
)
# "Ada's father" and "written by this person".
_OWNED = re.compile(r"['’]s?(?=\s[\w-]+(?:\s[\w-]+){0,2}\W*$)")
_THIS = re.compile(r'\bthis\b', re.IGNORECASE)
# "what was", and what the noun then begins with: "the", or a name as in "Ada's".
_IS = re.compile(
    r"(?:['’]s|\s+(?:is|are|was|were|became|(?:has|have|had|will|would) (?:been|be)))\s+",
    re.IGNORECASE,
)
# "which of the ships".
_OF_THESE = re.compile(r'\s+of\s+(?:the|these|those|his|her|its|their)\s+', re.IGNORECASE)
_OF_ONE = re.compile(
    r'(?:(?:now|currently|once|originally|also)\s+)?(?:all the|the|an?|his|her|its|their|our|my'
    r'|your|that|this|these|those|some|all|one|two|three|four|five)\s+'
    rf"|(?=(?:(?!(?:{_PREPOSITIONS})\b)[\w.&-]+\s+){{0,5}}?[\w.&-]+?(?:['’]s|(?<=s)['’])\s)",
    re.IGNORECASE,
)
_ENDS_NOUN = re.compile(
    rf'(?:{_AUXILIARIES}|{_PREPOSITIONS}|and|or|than|like|the|an?|that|this|these|those|who|whom'
    r'|whose|which|where|when|what|he|she|it|they|we|you|I)\Z',
)
_NOUN_WORD = re.compile(r"\s*([\w-]+)(['’]s\b|['’](?!\w))?")
_MOST_WORDS = 6
# 'the name of the' stands before the noun.
_NAME_OF = re.compile(
    r'\s*(?:given to|of|for)\s+(?:(?:the|an?|this|his|her|its|their)\s+)?', re.IGNORECASE
)
_NAMES = frozenset('name names title titles'.split())
# Stemmed nouns for the same kinds.
_SYNONYMS = dict.fromkeys(words_of('movie movies'), 'film')
_YEAR = re.compile('years?')
_NUMBER, _PERSONS = ('quantity', 'date'), ('person', 'organisation', 'group')
# Nouns, as patterns, and the kinds of what they are for.
_NOUNS = tuple(
    (re.compile('|'.join([*lists, *nouns['words'].split()]), re.IGNORECASE), tuple(nouns['kinds']))
    for nouns in LISTS['nouns']
    for lists in [map(alternatives, nouns.get('lists', '').split())]
)
# What adjectives and nouns measure.
_MEASURES = {
    word: tuple(measures) for words, *measures in LISTS['asked_measures'] for word in words.split()
}
_HOW = re.compile(rf'\s+({"|".join(_MEASURES)})\b', re.IGNORECASE)
_TAKES_TIME = re.compile(r'\s+(?:did|does|do|has|have|had|ago|will|must|can)\b', re.IGNORECASE)
_SAID_IN_MANY_WAYS = re.compile('|'.join((PERSON, PLACE, GROUP, WORK)))
_COUNTRY = ('country', 'countries')
# Places that countries are not; others may be.
_WITHIN_COUNTRIES = re.compile(
    'city|cities|towns?|villages?|count(?:y|ies)|rivers?|lakes?|mountains?|streets?|boroughs?'
    '|suburbs?|districts?|parish|hamlets?|capital|hometown|birthplace|ports?|address'
)


@functools.lru_cache(1 << 10)
def wanted_by(text: str) -> Wanted:
    """What a question asks for; nothing if it does not say."""
    text = ' '.join(text[:_LONGEST].split())
    if text.isupper() or _IN_CAPITALS.search(text):
        text = text.lower()
    text = _CENTURY.sub('', _QUOTED.sub('_', text))
    asks = list(_WORD.finditer(text))
    follows = lambda pattern: lambda word: pattern.search(text[: word.start()])
    word = (
        next((word for word in filter(follows(_FIRST), asks) if _asks_first(text, word)), None)
        or next((word for word in reversed(asks) if _asks_amid(text, word)), None)
        or next(filter(follows(_AFTER_CLAUSE), asks), None)
    )
    if word is None and (head := _HEAD.match(text)):
        return _of_noun([head[1]])
    if not asks and (named := _OWNED.search(text) or _THIS.search(text)):
        return _of_noun(_noun(text, named.end()))
    word = word or next(iter(asks), None)
    return _of_word(text, word) if word else Wanted(())


def _asks_first(text: str, word: re.Match) -> bool:
    """Whether a first word asks: of 'When Ann left, who came' another does."""
    is_clause = word[0].lower() in ('when', 'where') and not _AUXILIARY.match(text, word.end())
    return not is_clause or not _WORD.search(text, word.end())


def _asks_amid(text: str, word: re.Match) -> bool:
    """Whether a word amid a question asks: 'born in which year', 'hosted by whom'."""
    if word[0] == 'what' or _ENDS.match(text, word.end()):
        return True
    if word[0] == 'which':  # else it begins a clause, as in 'which was built'
        return bool(_of_noun(_noun(text, word.end())).kinds)
    return word[0] == 'how' and bool(_HOW.match(text, word.end()))


def _of_word(text: str, word: re.Match) -> Wanted:
    """What a question word asks for, with the noun after it."""
    said = word[0].lower()
    if said in ('who', 'whom', 'whose'):
        return Wanted(_PERSONS)
    if said == 'where':
        return Wanted(('place', 'organisation'))
    if said == 'when':
        return Wanted(('date',))
    if said == 'how':
        return _of_measure(text, word.end())
    begin = word.end()
    is_of_one = False
    if of_these := _OF_THESE.match(text, begin):
        begin = of_these.end()
    elif is_ := _IS.match(text, begin):
        of_one = _OF_ONE.match(text, is_.end())
        if not of_one:  # "what was Ann"
            return Wanted(())
        begin, is_of_one = of_one.end(), True
    found = _of_noun(_noun(text, begin), only_small=is_of_one)
    # "What country is he from": a nationality says so, too.
    if found.kinds == ('place',) and re.match(r'\s+country\b.*\bfrom\W*$', text[word.end() :]):
        return found._replace(kinds=('place', 'group'))
    return found


def _of_measure(text: str, start: int) -> Wanted:
    """What 'how' asks for, by the text after it."""
    if not (measure := _HOW.match(text, start)):
        return Wanted(())
    word = measure[1].lower()
    if word == 'many':  # "how many square kilometres"
        counted = _noun(text, measure.end())
        units = (values.number(f'1 {unit}') for unit in (' '.join(counted), *counted))
        return Wanted(_NUMBER, measures=(next((of[1] for of in units if of and of[1]), ''),))
    if word == 'much':
        return Wanted(_NUMBER)
    is_time = word == 'long' and _TAKES_TIME.match(text, measure.end())
    return Wanted(('quantity',), measures=('time',) if is_time else _MEASURES[word])


def _noun(text: str, start: int) -> list[str]:
    """The words of the noun that begins at a place of a text; of 'name of the inn' the inn's."""
    words: list[str] = []
    owner: list[str] = []
    while len(words) < _MOST_WORDS and (word := _NOUN_WORD.match(text, start)):
        if _ENDS_NOUN.match(word[1]):
            break
        start = word.end()
        words = [*words, word[1]]
        if word[2]:  # "Ada's father"
            owner, words = words, []
    if words and words[-1].lower() in _NAMES:
        of = _NAME_OF.match(text, start)
        return _noun(text, of.end()) if of else owner or words
    return words


def _of_noun(words: list[str], only_small: bool = False) -> Wanted:
    """What is asked for by the words of a noun; `only_small`: names among them do not count."""
    small = [word for word in words if not word[0].isupper()]
    nouns = frozenset(_SYNONYMS.get(word, word) for word in words_of(' '.join(small[-3:])))
    found = Wanted((), nouns)
    for word in words:
        is_name = word[0].isupper() and (bool(small) or (only_small and len(words) > 1))
        kinds = () if is_name else next((of for noun, of in _NOUNS if noun.fullmatch(word)), ())
        if kinds:  # of 'film studio' the last
            word = word.lower()
            found = Wanted(
                kinds,
                nouns,
                bool(_YEAR.fullmatch(word)),
                _MEASURES.get(word, ('',) if kinds == _NUMBER else ()),
                word in _COUNTRY or (False if _WITHIN_COUNTRIES.fullmatch(word) else None),
                not _SAID_IN_MANY_WAYS.fullmatch(word),
            )
        elif found.kinds:
            break
    return found
