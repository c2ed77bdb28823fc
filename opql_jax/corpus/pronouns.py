"""Resolves 'he', 'she', 'his' and 'her' to persons named before, by rules that rather stay silent.

A pronoun ('her' only before a noun) means the only candidate in its sentence, else the only one in
the sentence before, and so on backwards. Of several candidates it means the one of whom the
sentence goes on to speak (by a pronoun, or by what the person "is"), else the first if only that
one is known to be of the gender, else nobody. Candidates are neither the speaker, nor of the other
gender, nor whom the last pronoun of the other gender meant. Genders are told by words beside a name
("his wife Ann"), first names, and pronouns that can mean nobody else. If 'he' or 'she' comes before
any name, the text is about somebody whom it does not name, and nothing is resolved. 'It', 'they',
'him' and 'her' as an object stay open. 'Its' and 'their' before a noun mean what the sentence
before begins with, or the only thing that it names.
"""

import bisect
import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.corpus.recognition import begins_sentence
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import VALUES, covering, overlap, starting_in
from opql_jax.corpus.speakers import Turn
from opql_jax.corpus.words import word_list

# Not 'he or she' and 'his/her', which are nobody's.
_PRONOUN = re.compile(
    r'\b(?<!/)(?<!\bor )(?:(?P<he>[Hh]e|[Hh]is)|[Ss]he|[Hh]er(?= (?P<behind>[a-z]+)\b))\b(?!/)'
    r'(?! or (?:s?he|his|her)\b)'
)
_BEHIND_OBJECT = word_list('behind_objects')
_NAMES_OF_MEN, _NAMES_OF_WOMEN = word_list('names_of_men'), word_list('names_of_women')
# Gendered nouns and titles.
_HE = (
    'Mr|Sir|Lord|Father|Brother|Uncle|[Kk]ing|[Pp]rince|[Dd]uke|[Cc]ount|[Bb]aron|[Ee]mperor'
    '|(?:grand)?(?:father|son)|husband|brother|uncle|nephew|widower|fisherman|businessman'
)
_SHE = (
    'Mrs|Ms|Miss|Lady|Dame|Mother|Sister|Aunt|[Qq]ueen|[Pp]rincess|[Dd]uchess|[Cc]ountess'
    '|[Bb]aroness|[Ee]mpress|(?:grand)?(?:mother|daughter)|wife|sister|aunt|niece|widow|actress'
    '|businesswoman'
)
_GENDERED = rf'(?:(?P<he>{_HE})|(?:{_SHE}))\b'
# As the first word of a name or the one before it, and behind it: "Ann, his wife", "Ann is the
# niece of".
_TITLE = re.compile(rf'{_GENDERED}\.?')
_NOUN = re.compile(rf'(?:,| is| was) (?:an?|the|his|her|their) (?:[a-z]+ )?{_GENDERED}(?! [A-Z])')
# Behind what a sentence is about.
_IS = re.compile(r'(?: \([^()\n]{0,200}\))?,? (?:is|was) ')
# A name of unknown kind that may be a person.
_FULL_NAME = re.compile(r'[A-Z][^\W\d_]+ [A-Z][^\W\d_]+')
_ARTICLE = re.compile(r'\b[Tt]he $')
# How many sentences back to look for a person.
_SENTENCES = 3
# Maximum number of persons considered per sentence.
_PERSONS = 100


def pronouns(
    text: str, mentions: Sequence[Mention], kinds: Mapping[str, str], said: Sequence[Turn] = ()
) -> list[Mention]:
    """The pronouns that refer to persons whom their sentence does not name before.

    One for each person and sentence at most, by start. `mentions` are what the text names, by
    start, disjoint, none overlapping a pronoun; `kinds` those of entities (`recognition.KINDS`);
    `said` who says what (`speakers.turns`), where a mention begins with each speaker's name.
    """
    named = [mention for mention in mentions if _may_be_person(text, mention, kinds)]
    found_pronouns = list(_PRONOUN.finditer(text)) if named else []
    if not found_pronouns or found_pronouns[0].start() < named[0].start:
        return []
    starts = sentence_starts(text, mentions)
    sentence_number = lambda at: bisect.bisect_right(starts, at)
    is_he: dict[str, bool] = {}
    for mention in named:
        if (he := _gender(text, mention)) is not None:
            is_he.setdefault(mention.entity, he)
    entity_at = {mention.start: mention.entity for mention in mentions}
    places: list[_Pronoun] = []
    for pronoun in found_pronouns:
        start, end = pronoun.span()
        # 'the bundle of His'.
        is_name = pronoun[0][0].isupper() and not begins_sentence(text, start)
        if is_name or pronoun['behind'] in _BEHIND_OBJECT or overlap(mentions, start, end):
            continue
        turn = covering(said, start)
        speaker = entity_at.get(turn.name_start) if turn else None
        he = pronoun['he'] is not None
        places.append(_Pronoun(start, end, he, sentence_number(start), speaker))
    persons = []
    for mention in named:
        number = sentence_number(mention.start)
        is_first = mention.start == starts[number - 1]
        is_topic = is_first and _IS.match(text, mention.end) is not None
        persons.append(_Person(mention.entity, mention.start, number, is_topic))
    _meant(places, persons, is_he)  # finds genders, which help earlier pronouns too
    return _meant(places, persons, is_he)


class _Pronoun(NamedTuple):
    """A pronoun: its characters, gender, the number of its sentence, and who says it, if known."""

    start: int
    end: int
    he: bool
    sentence: int
    speaker: str | None


class _Person(NamedTuple):
    """A mention of a person by name, and whether its sentence says what the person is or was."""

    entity: str
    start: int
    sentence: int
    is_topic: bool


def _meant(
    places: Sequence[_Pronoun], named: Sequence[_Person], is_he: dict[str, bool]
) -> list[Mention]:
    """Resolves pronouns; adds to `is_he` the genders that they reveal."""
    # The persons whom a sentence refers to, in the order of the text, and whether it is about them.
    of_sentence: dict[int, dict[str, bool]] = {}
    last: dict[bool, str] = {}  # whom 'he' and 'she' referred to last
    open_ones: set[tuple[int, bool]] = set()  # sentences that speak of a 'he' or 'she' unknown
    resolved: list[Mention] = []
    next_named = 0
    for pronoun in places:
        while next_named < len(named) and (name := named[next_named]).start < pronoun.start:
            of_sentence.setdefault(name.sentence, {}).setdefault(name.entity, name.is_topic)
            next_named += 1
        he, current = pronoun.he, pronoun.sentence
        no_candidates = (pronoun.speaker, last.get(not he))
        candidates: list[str] = []
        for number in range(current, current - 1 - _SENTENCES, -1):
            if (number, he) in open_ones:
                break
            candidates = [
                person
                for person in itertools.islice(of_sentence.get(number, ()), _PERSONS)
                if is_he.get(person, he) == he and person not in no_candidates
            ]
            topics = [person for person in candidates if of_sentence[number][person]]
            known = [person for person in candidates if person in is_he]
            if len(topics) == 1:
                candidates = topics
            elif known == candidates[:1]:
                candidates = known
            if candidates:
                break
        if len(candidates) != 1:
            open_ones.add((current, he))
            continue
        person = last[he] = candidates[0]
        is_he[person] = he
        if person not in of_sentence.setdefault(current, {}):
            resolved.append(Mention(pronoun.start, pronoun.end, person))
            of_sentence[current][person] = True
    return resolved


_POSSESSIVE = re.compile(r'\b(?P<its>[Ii]ts|[Tt]heir) [a-z]+\b(?! or )')
_NO_THINGS = frozenset({'person', 'group', 'concept', 'language'}) | VALUES
# A sentence is about a name that starts within this many characters.
_SUBJECT = 5


def possessives(text: str, mentions: Sequence[Mention], kinds: Mapping[str, str]) -> list[Mention]:
    """A sentence's first 'its' or 'their', if it names nothing before that and it is clear."""
    found = list(_POSSESSIVE.finditer(text))
    if not found:
        return []
    starts = sentence_starts(text, mentions)
    resolved: list[Mention] = []
    last = -1
    for match in found:
        number = bisect.bisect_right(starts, match.start()) - 1
        if number in (0, last):
            continue
        last = number
        begin, before = starts[number], starts[number - 1]
        named = starting_in(mentions, before, begin)
        may_be = [mention for mention in named if kinds[mention.entity] not in _NO_THINGS]
        several = {mention.entity for mention in may_be}
        persons = {mention.entity for mention in named if kinds[mention.entity] == 'person'}
        if '\n' in text[before:begin] or starting_in(mentions, begin, match.start()):
            continue
        if not may_be or (match['its'][0] in 'tT' and len(persons) > 1):
            continue
        if len(several) == 1 or may_be[0].start - before <= _SUBJECT:
            resolved.append(Mention(*match.span('its'), may_be[0].entity))
    return resolved


def _may_be_person(text: str, mention: Mention, kinds: Mapping[str, str]) -> bool:
    is_full = _FULL_NAME.fullmatch(text, mention.start, mention.end)
    if (kind := kinds[mention.entity]) != UNKNOWN_KIND:
        # spaCy takes some persons for firms.
        is_first_name = is_full and kind == 'organisation' and _is_mans_name(is_full[0]) is not None
        return kind == 'person' or bool(is_first_name)
    return bool(is_full) and not _ARTICLE.search(text, max(0, mention.start - 5), mention.start)


def _gender(text: str, mention: Mention) -> bool | None:
    """Whether a person is 'he', by the words beside a mention or a first name; None if unknown."""
    before = re.search(r'(\w+\.?) $', text[max(0, mention.start - 15) : mention.start])
    told = (
        _TITLE.match(text, mention.start, mention.end)
        or (_TITLE.fullmatch(before[1]) if before else None)
        or _NOUN.match(text, mention.end)
    )
    if told:
        return told['he'] is not None
    return _is_mans_name(mention.entity)


def _is_mans_name(name: str) -> bool | None:
    """Whether a person's name begins with the first name of a man; None if that is unknown."""
    first = unicodedata.normalize('NFKD', name.split(' ')[0]).encode('ascii', 'ignore').decode()
    is_mans = first.lower() in _NAMES_OF_MEN
    return is_mans if is_mans or first.lower() in _NAMES_OF_WOMEN else None
