"""Whether a text gives a name the role that a question asks for: mayor, author, or daughter.

'The mayor fell in and was pulled out by Ann' has a mayor and Ann, who is none. So an answer is not
sure if the role stands in its passage, but nowhere with the name.
"""

import re
from collections.abc import Iterator

from opql_jax.corpus.pronouns import is_mans_name, is_mans_word
from opql_jax.kb.text.word_lists import LISTS, any_of, stems
from opql_jax.retrieval.words import words_of

# Roles of a person whom a text names after 'by', or after the last of these words.
_ROLES = tuple(re.compile(rf'\b(?:co-?)?(?:{role})\b', re.IGNORECASE) for role in LISTS['roles'])
# 'written, directed by and starring ', and what begins the next role.
_DOES = re.compile(
    r'\b(?:(?:(?:co-)?[a-z]+(?:ed|en|wn|lt)|by|starring|featuring|stars|features)'
    r'(?:,? and |,? or |, | ))+',
    re.IGNORECASE,
)
_BY = re.compile(r'\b(?:by|starring|featuring|stars|features)\b', re.IGNORECASE)
_ENDS = re.compile(r'[.;:] | (?:by|from) ')
# "Who is the owner of", "Who was Ada's brother".
_WHO_IS = re.compile(
    r"\bwho(?:m)?(?: (?:is|was|are|were|became)|['’]s)"
    r"(?P<rest>(?: (?:the|an?|its|his|her|their|our|my) |[^?]{0,80}['’]s? "
    r'| (?=(?:[a-z-]+ ){1,3}of\b))[^?,]*)',
    re.IGNORECASE,
)
# 'Who was her father married to?' asks for no father.
_ASKS_ANOTHER = re.compile(r' [a-z]+(?:ed|en|wn|nt|lt) (?:by|to|with|from|after)\W*$')
# What is no role: 'Who is the man who', 'Who is it married to'.
_NO_ROLE = re.compile(r'man|men|wom[ae]n|person|people|ones?|boys?|girls?|\w+ed|\w+ing')
_OF = re.compile(
    r'\b(?:of|at|in|for|on|to|from|when|while|that|who|now|before|after|during|between|with|by|under'
    r'|since|until|today)\b'
)
_WORD = re.compile(r'[\w-]+|[^\w\s]')
_KIN, _FAMILIES = (tuple(map(stems, LISTS[name])) for name in ('kin', 'families'))
# What else somebody is to somebody: "the rival of Low", "Low's rival".
_SOMEBODYS = any_of('somebodys')
_OF_KIN = re.compile(rf"\b(?:({_SOMEBODYS}) of [A-Z]|['’]s ({_SOMEBODYS})\b)")
# What a wife may be called, too.
_SPOUSES = stems('wife wives husband widow married marry partner')
_PARENTS, _PARENT_TOO = stems('mother mum mom father dad'), stems('wife wives husband widow')
# What may stand between a role and the name of who has it: 'The owner of the inn is Ann', 'mayor
# Ann', 'the mayor, Ann', 'its captain since 1902 was Ann'.
_TITLE = r'(?:(?:Mr|Mrs|Ms|Dr|Sir|Dame|Lady|Lord)\.?\s+)?'
_ROLE_FIRST = re.compile(
    r"(?:['\"”)]*,?\s*(?:by\s+)?[('\"“]*"  # at once, or 'directed by'
    r'|[^.;]*?,\s*(?:(?:the|an?)\s+(?:[\w-]+\s+)?)?'
    r'|[^.;]*?\b(?:is|was|are|were|be|been|named|called|became|remains?|as|:)\s+'
    r'(?:now |then |again )?(?:(?:the |an? )(?:[\w-]+ ){0,2})?'
    rf'|\s+(?:of|at|in|for)(?:\s+the)?(?:\s+[A-Z][\w&-]*)+\s+){_TITLE}'
)
# Between a name and its role: 'Ann, the owner', 'Ann was elected mayor', 'Ann, a young baker'.
_ANY = r'(?!(?:with|and|met|whose|by|to|for|from|whom|but|or|in|of|at)\b)[\w-]+\s+'
_IS = (
    r'(?:is|was|are|were|be|been|has|had|became|becomes|remained|remains|served|serves|worked|works'
    r'|acted|acts|appointed|elected|named|made|chosen|hired|crowned|as|its|his|her|their|our|the|an?'
    r'|also|then|now|once|later)\s+'
)
_NAME_FIRST = re.compile(
    rf"(?:['’]s)?(?:\s*\([^()]*\))?(?:(?:,|\s+[–—-])?(?:\s+(?:who|which))?\s+(?:{_IS})*(?:{_ANY}){{0,2}}"
    rf'|,\s+(?:{_ANY}){{0,5}})'
)
# Kin as a name is called: 'his daughter, Ann', also before a last name, and 'Ann, her mother'.
_KIN_BEFORE = re.compile(
    r'([\w-]+)(?:,| (?:is|was|named|called))?\s+(?:(?-i:[A-Z])[\w-]+\s+){0,3}$'
)
_KIN_AFTER = re.compile(r',? (?:(?:is|was) )?(?:his|her|their|the) ([\w-]+)')
# Roles below others: an assistant director is no director.
_LESSER = re.compile(rf'\b(?:(?:{any_of("lesser")})[ -]|under-)$', re.IGNORECASE)
# Characters between a role and a name that belong together, at most.
_NEAR = 120


def has_role(question: str, name: str, sentence: str) -> bool:
    """Whether a sentence that gives a name a role gives it one that the question asks for.

    'Who wrote it?' is not answered by Ann in 'directed by Ann and written by Bob'.
    """
    asked = [role for role in _ROLES if role.search(question)]
    known = (
        [_roles(sentence[: place.start()]) for place in places_of(name, sentence)] if asked else []
    )
    return not known or any(not roles or any(role in asked for role in roles) for roles in known)


def places_of(name: str, sentence: str) -> Iterator[re.Match]:
    """Where a sentence has a name, or the last word of it."""
    return re.finditer(rf'{re.escape(name)}|\b{re.escape(name.split(" ")[-1])}\b', sentence)


def _roles(before: str) -> list[re.Pattern]:
    """The roles of a name, by the text before it; none if unknown."""
    said = [match for match in _DOES.finditer(before) if _BY.search(match[0])]
    if not said or _ENDS.search(before, said[-1].end()):
        return []
    return [role for role in _ROLES if role.search(said[-1][0])]


def may_hold(question: str, name: str, text: str) -> bool:
    """Whether a text may say that a name has the role, or is the kin, that a question asks for.

    False if the role is in the text, but nowhere with the name, or the name is other kin there.
    """
    if not (asked := _asked_role(question)):
        return True
    stem, whole = words_of(asked)[-1], list(re.finditer(re.escape(name), text))
    places = whole or list(places_of(name, text))
    kin = next((of for of in _KIN if stem in of), None)
    if kin is not None and (called := _kin_of(places, text)):
        if kin <= _SPOUSES:
            return any(one <= _SPOUSES for one in called)
        # 'Ted Falk and his wife Liv' may be his parents.
        return kin in called or (kin <= _PARENTS and any(one <= _PARENT_TOO for one in called))
    # The forms of the role; 'may' is none of 'mayor'.
    is_form = lambda word: word == asked or (word != stem and words_of(word)[-1:] == [stem])
    roles = [word for word in _WORD.finditer(text) if is_form(word[0].lower())]
    if not roles:
        return True
    is_lesser = lambda said, end: _LESSER.search(said, max(end - _NEAR, 0), end) is not None
    if not is_lesser(question, question.lower().index(asked)):
        roles = [role for role in roles if not is_lesser(text, role.start())]
    return any(_belong(role, place, text) for role in roles for place in places)


def is_of_other_sex(question: str, name: str) -> bool:
    """Whether a question asks for a mother or the like, and a name is a man's, or the reverse."""
    return {is_mans_word(_asked_role(question)), is_man(name)} == {True, False}


def is_man(name: str) -> bool | None:
    """Whether a name is a man's, by its title or first name; None if unknown."""
    is_man = is_mans_word(name.split(' ')[0])
    return is_mans_name(name) if is_man is None else is_man


def asks_kin(question: str) -> bool:
    """Whether a question asks who is somebody's kin."""
    asked = words_of(_asked_role(question))
    return any(not kin.isdisjoint(asked) for kin in _KIN)


def names_kin(question: str, passages: str) -> bool:
    """Whether passages have words for the kin that a question names: 'the mother of Ann Low'."""
    said = set(words_of(passages))
    asked = [kin for found in _OF_KIN.finditer(question) for kin in words_of(found[1] or found[2])]
    known = [next((words for words in _FAMILIES if kin in words), {kin}) for kin in asked]
    return all(not said.isdisjoint(words) for words in known)


def _asked_role(question: str) -> str:
    """The role or kin that 'who is' asks for, in small letters; '' of other questions."""
    if not (found := _WHO_IS.search(question)) or _ASKS_ANOTHER.search(found['rest']):
        return ''
    owned = re.split(r"['’]s?(?= )", found['rest'])[-1]
    words = [word for word in _WORD.findall(_OF.split(owned)[0].lower()) if words_of(word)]
    return words[-1] if words and not _NO_ROLE.fullmatch(words[-1]) else ''


def _belong(role: re.Match, name: re.Match, text: str) -> bool:
    """Whether a role and a name in a text belong together; 'Ann (chair)' only that way."""
    if text[role.start() - 1 : role.start()] == '(' and text[role.end() : role.end() + 1] == ')':
        return text[name.end() : role.start()] == ' ('
    if role.end() <= name.start() <= role.end() + _NEAR:
        return bool(_ROLE_FIRST.fullmatch(text, role.end(), name.start()))
    if name.end() <= role.start() <= name.end() + _NEAR:
        return bool(_NAME_FIRST.fullmatch(text, name.end(), role.start()))
    return False


def _kin_of(places: list[re.Match], text: str) -> list[frozenset[str]]:
    """What kin a name is called where it stands: 'his daughter, Ann' and 'Ann, her mother'."""
    found = []
    for place in places:
        before = _KIN_BEFORE.search(text[max(place.start() - _NEAR, 0) : place.start()])
        after = _KIN_AFTER.match(text, place.end())
        for word in filter(None, (before, after)):
            found += [kin for kin in _KIN if kin.issuperset(words_of(word[1]) or ('',))]
    return found
