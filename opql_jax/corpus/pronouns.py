"""Resolves 'he', 'she', 'his' and 'her' to persons whom sentences before name.

Rules, which would rather say nothing than something wrong. A pronoun, 'her' only before a noun,
refers to the person whom its sentence names first, else to the one whom the sentence before names
first, and so on backwards; not to one whom the last pronoun of the other gender referred to, nor to
one whom a title or a pronoun that could mean nobody else has told the other gender of. A text that
says 'he' or 'she' before it names anybody is about somebody whom it does not name, and nothing in
it is resolved. 'It', 'they', 'him' and 'her' as an object are left open. 'Its' and 'their' before a
noun mean what the sentence before begins with, or the one thing that it names.
"""

import bisect
import itertools
import re
from collections.abc import Mapping, Sequence

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.recognition import begins_sentence
from opql_jax.corpus.sentences import sentence_starts
from opql_jax.corpus.spans import VALUES, overlap, starting_in

# Not 'he or she' and 'his/her', which are nobody's.
_PRONOUN = re.compile(
    r'\b(?<!/)(?<!\bor )(?:(?P<he>[Hh]e|[Hh]is)|[Ss]he|[Hh]er(?= (?P<behind>[a-z]+)\b))\b(?!/)'
    r'(?! or (?:s?he|his|her)\b)'
)
# Words after 'her' that go on after an object, as in "saw her in London".
_BEHIND_OBJECT = frozenset(
    'a about an and as at because before but by during for from if in into of on or since so '
    'that the then there this to until when where which while who with after again away back '
    'home not off out over up'.split()
)
# What a name begins with, or stands right before it.
_TITLE = re.compile(
    r'(?:(?P<he>Mr|Sir|Lord|King|Prince|Duke|Count|Baron|Father|Brother|Uncle)|Mrs|Ms|Miss|Lady'
    r'|Queen|Princess|Duchess|Countess'
    r'|Baroness|Dame|Mother|Sister|Aunt)\b\.?'
)
# Sentences back in which a person is looked for.
_SENTENCES = 3
# Persons of a sentence, at most, among whom one is looked for.
_PERSONS = 100


def pronouns(text: str, mentions: Sequence[Mention], kinds: Mapping[str, str]) -> list[Mention]:
    """The first pronoun in each sentence for each person that is not named before it, by start.

    Args:
        mentions: what the text names, by start, disjoint; none of them overlaps a pronoun that is
            found.
        kinds: the kind of each entity, see `recognition.KINDS`.
    """
    named = [mention for mention in mentions if kinds[mention.entity] == 'person']
    found_pronouns = list(_PRONOUN.finditer(text)) if named else []
    if not found_pronouns or found_pronouns[0].start() < named[0].start:
        return []
    starts = sentence_starts(text, [(mention.start, mention.end, 0) for mention in mentions])
    sentence_number = lambda at: bisect.bisect_right(starts, at)
    # The persons whom a sentence refers to, in the order of the text.
    of_sentence: dict[int, dict[str, None]] = {}
    is_he: dict[str, bool] = {}
    for mention in named:
        if title := _title(text, mention):
            is_he.setdefault(mention.entity, title['he'] is not None)
    last: dict[bool, str] = {}  # whom 'he' and 'she' referred to last
    resolved: list[Mention] = []
    next_named = 0
    for pronoun in found_pronouns:
        while next_named < len(named) and (name := named[next_named]).start < pronoun.start():
            of_sentence.setdefault(sentence_number(name.start), {})[name.entity] = None
            next_named += 1
        if overlap(mentions, *pronoun.span()):
            continue
        # 'the bundle of His'.
        is_name = pronoun[0][0].isupper() and not begins_sentence(text, pronoun.start())
        if is_name or pronoun['behind'] in _BEHIND_OBJECT:
            continue
        he, current = pronoun['he'] is not None, sentence_number(pronoun.start())
        may_be = lambda person, he=he: is_he.get(person, he) == he and person != last.get(not he)
        for number in range(current, current - 1 - _SENTENCES, -1):
            persons = itertools.islice(of_sentence.get(number, ()), _PERSONS)
            candidates = list(itertools.islice(filter(may_be, persons), 2))
            if candidates:
                person = last[he] = candidates[0]
                if len(candidates) == 1:
                    is_he[person] = he
                if person not in of_sentence.get(current, ()):
                    resolved.append(Mention(pronoun.start(), pronoun.end(), person))
                    of_sentence.setdefault(current, {})[person] = None
                break
    return resolved


_POSSESSIVE = re.compile(r'\b(?P<its>[Ii]ts|[Tt]heir) [a-z]+\b(?! or )')
_NO_THINGS = frozenset({'person', 'group', 'concept', 'language'}) | VALUES
# Characters at the beginning of a sentence, in which it names what it is about.
_SUBJECT = 5


def possessives(text: str, mentions: Sequence[Mention], kinds: Mapping[str, str]) -> list[Mention]:
    """A sentence's first 'its' or 'their', if it names nothing before that and it is clear."""
    found = list(_POSSESSIVE.finditer(text))
    if not found:
        return []
    starts = sentence_starts(text, [(mention.start, mention.end, 0) for mention in mentions])
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
        if (
            not may_be
            or '\n' in text[before:begin]
            or starting_in(mentions, begin, match.start())
            or (match['its'][0] in 'tT' and len(persons) > 1)
        ):
            continue
        if len(several) == 1 or may_be[0].start - before <= _SUBJECT:
            resolved.append(Mention(*match.span('its'), may_be[0].entity))
    return resolved


def _title(text: str, mention: Mention) -> re.Match[str] | None:
    if title := _TITLE.match(text, mention.start, mention.end):
        return title
    before = re.search(r'(\w+\.?) $', text[max(0, mention.start - 12) : mention.start])
    return _TITLE.fullmatch(before[1]) if before else None
