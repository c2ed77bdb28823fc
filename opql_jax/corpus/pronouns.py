"""Whom the pronouns of a text mean: 'her' of "Her mother came from Ulm" after a sentence about Ada Lovelace.

Rules, which would rather say nothing than something wrong: 'he', 'she', 'his' and a 'her' before a noun mean the person whom their
sentence names first, else the one whom the sentence before names first, and so on backwards. A person who was 'she' once is not 'he'
later. What 'it', 'they', 'him' and 'her' as an object mean is left open.
"""

import bisect
import re
from collections.abc import Mapping, Sequence

from opql_jax.corpus.documents import Mention
from opql_jax.corpus.sentences import sentence_starts

_PRONOUN = re.compile(r'\b(?:(?P<he>he|his)|she|her(?= (?P<behind>[a-z]+)\b))\b', re.IGNORECASE)
# Words after 'her' that go on after an object, as in "saw her in London".
_BEHIND_OBJECT = frozenset(
    'a about an and as at because before but by during for from if in into of on or since so that the then there this to until when where'
    ' which while who with after again away back home not off out over up'.split()
)
# In a name or right before it.
_TITLE = re.compile(
    r'\b(?:(?P<he>Mr|Sir|Lord|King|Prince|Duke|Count|Baron|Father|Brother|Uncle)|(?:Mrs|Ms|Miss|Lady|Queen|Princess|Duchess|Countess'
    r'|Baroness|Dame|Mother|Sister|Aunt))\b'
)
# Sentences back in which a person is looked for.
_SENTENCES = 3


def pronouns(text: str, mentions: Sequence[Mention], kinds: Mapping[str, str]) -> list[Mention]:
    """The pronouns that mean persons whom their sentence does not name before.

    Args:
        text: any text.
        mentions: what it names, by start, disjoint.
        kinds: the kind of each entity, see `recognition.KINDS`.

    Returns:
        A mention for each person and sentence at most, by start. None overlaps those given.
    """
    named = [mention for mention in mentions if kinds[mention.entity] == 'person']
    starts = sentence_starts(text, [(mention.start, mention.end, 0) for mention in mentions]) if named else []
    sentence = lambda at: bisect.bisect_right(starts, at)
    of_sentence: dict[int, dict[str, None]] = {}  # the persons whom a sentence means, in the order of the text
    is_he: dict[str, bool] = {}
    for mention in named:
        if title := _TITLE.search(text, max(0, mention.start - 10), mention.end):
            is_he.setdefault(mention.entity, title['he'] is not None)
    ends = [mention.end for mention in mentions]
    found: list[Mention] = []
    before = 0
    for pronoun in _PRONOUN.finditer(text) if named else ():
        while before < len(named) and named[before].start < pronoun.start():
            of_sentence.setdefault(sentence(named[before].start), {})[named[before].entity] = None
            before += 1
        i = bisect.bisect_right(ends, pronoun.start())
        if (i < len(mentions) and mentions[i].start < pronoun.end()) or pronoun['behind'] in _BEHIND_OBJECT:
            continue
        he, here = pronoun['he'] is not None, sentence(pronoun.start())
        for place in range(here, here - 1 - _SENTENCES, -1):
            among = [person for person in of_sentence.get(place, ()) if is_he.get(person, he) == he]
            if among:
                if len(among) == 1:
                    is_he[among[0]] = he
                if among[0] not in of_sentence.get(here, ()):
                    found.append(Mention(pronoun.start(), pronoun.end(), among[0]))
                    of_sentence.setdefault(here, {})[among[0]] = None
                break
    return found
