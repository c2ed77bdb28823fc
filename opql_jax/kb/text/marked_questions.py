"""Questions with marks for names, 'which film is older, @0 or @1', and patterns over these."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from opql_jax.corpus.definitions import GROUP, PERSON, PLACE, WORK
from opql_jax.corpus.question_linking import written_as_names
from opql_jax.kb.text import values
from opql_jax.kb.text.values import DATE

# Longer questions are not parsed.
MOST_CHARACTERS = 400
# Questions with more names are not parsed.
_MOST_NAMES = 4
# What may stand in names that the text lacks, or has in another form, tried in this order where a
# question is not understood otherwise.
JOINTS = tuple(
    re.compile(pattern)
    for pattern in (
        (
            r"[ .:'’&-]{1,3}|,? (?:of|de|du|di|da|del|della|der|van|von|la|le|y)(?: (?:the|la|der"
            r'|den))? '
        ),
        r"[ .,:'’&-]{1,3}|,? (?:(?!(?:and|or|is|are|was|were)\b)[a-zà-ÿ]{1,4}[ '’]+){1,3}",
        r"[ .,:'’&-]{1,3}|,? (?:(?!(?:or|is|are|was|were)\b)[a-zà-ÿ]{1,4}[ '’]+){1,3}",
    )
)
# Nouns for things; what a question may call whatever it names; and its auxiliary verb.
THING = (
    f'{WORK}|{GROUP}|{PLACE}|magazines?|rivers?|lakes?|mountains?|bridges?|buildings?|towers?'
    '|ships?|documentar(?:y|ies)'
)
NOUNS = f'{THING}|{PERSON}'
IS = r'(?:is|are|was|were)'
# What asks for the country of a person or work, and of a place.
COUNTRY = ('What country is {x} from?', 'What is the nationality of {x}?')
LOCATED = ('In which country is {x} located?', 'What country is {x} in?')


class Name(NamedTuple):
    """The characters `[start, end)` of a name in a question, its entity, -1 if none, and kind."""

    start: int
    end: int
    entity: int = -1
    kind: str = ''


class Side(NamedTuple):
    """One of the things that a question asks about, and wordings of a plain question about it."""

    name: str
    entity: int
    questions: tuple[str, ...]


class Comparison(NamedTuple):
    """A question that answers of plain questions answer together.

    Attributes:
        sides: one or two.
        how: 'least' or 'most' of two values is chosen; or yes if they are the 'same', 'different',
            the first 'less' or 'more' than the second; or yes if the value of each side 'is'
            `asked`, or is 'less' or 'more' than that; or that side 'which' has it is chosen.
        measure: what is compared, 'date', 'number', 'country' or 'name'.
        units: of which measures the numbers may be, see `values.number`; the first that both sides
            have counts. () allows any.
        asked: the value that the question names.
        exclusive: whether another value than that means no.
        described: the words that stand before the value in what is confirmed, or in its sentence
            if that is a country: 'chess' of 'Is she a chess player?'.
        place: the noun of the places that are compared, or 'place' if one is asked for, in which
            the one that is found may lie; '' of what is no place.
        now: whether it asks of the present.
    """

    sides: tuple[Side, ...]
    how: str
    measure: str
    units: tuple[str, ...] = ()
    asked: str = ''
    exclusive: bool = False
    described: frozenset[str] = frozenset()
    place: str = ''
    now: bool = False


@dataclasses.dataclass(frozen=True)
class Marked:
    """A question in small letters with names as '@0', '@1', ..., these, and if it is of both."""

    text: str
    names: tuple[Name, ...]
    said: tuple[str, ...]

    def side(self, mark: str | int, *asks: str, role: str = '') -> Side:
        """A side by its mark, asked in words where {x} stands for it or who has a role in it."""
        name, of = self.names[int(mark)], self.said[int(mark)]
        bare = re.sub(r'^[Tt]he ', '', of)
        x = f'the {role} of {of}' if role else of
        return Side(bare, name.entity, tuple(ask.format(x=x) for ask in asks))

    def sides(self, pair: Pair, asks: Sequence[str] = (), role: str = '') -> tuple[Side, Side]:
        """Both of a pair; a role that is said of both, 'directors of', is one of each."""
        role = role.removesuffix('s') if pair.role else role
        return self.side(pair.left, *asks, role=role), self.side(pair.right, *asks, role=role)

    def is_date(self, mark: str | int) -> bool:
        return values.date(self.said[int(mark)]) is not None

    def kind(self, mark: str | int) -> str:
        return self.names[int(mark)].kind


def names_of(text: str, linked: Sequence[Name]) -> list[Name]:
    """A question's names, by start: those linked, if need be longer, and what looks like one."""
    names = list(linked)
    if len(text) > MOST_CHARACTERS:
        return names
    dates = [match.span() for match in DATE.finditer(text)]
    for start, end in [*dates, *written_as_names(text)]:
        over = [name for name in names if name.start < end and start < name.end]
        if not over:
            names.append(Name(start, end))
        elif start < over[0].start and over[0].end >= end and len(over) == 1:
            # 'The Mask of [Fu Manchu]' is not he.
            names[names.index(over[0])] = Name(start, over[0].end)
    return sorted(names)


def join_names(text: str, names: Sequence[Name], joint: re.Pattern) -> list[Name]:
    """The names with those made one between which there are no words but such as stand in names."""
    found: list[Name] = []
    for name in names:
        if found and joint.fullmatch(text[found[-1].end : name.start]):
            found[-1] = Name(found[-1].start, name.end)
        else:
            found.append(name)
    return found


def mark_names(text: str, names: Sequence[Name]) -> Marked:
    """The question in small letters with marks for names, without quotes and nouns beside names."""
    pieces, place, said = [], 0, []
    for number, name in enumerate(names):
        before = text[place : name.start].lower()
        article = re.search(r'(?:^|\s)(the)\s+["“]?$', before)
        if article and number + name.start:  # 'the Night Ferry' is asked for so
            before = before[: article.start(1)] + before[article.end(1) :]
        pieces += [before, f'@{number}']
        said.append(('the ' if article else '') + ' '.join(text[name.start : name.end].split()))
        place = name.end
    plain = ''.join([*pieces, text[place:].lower()]).replace('’', "'")
    plain = ' '.join(re.sub(r'["“”«»\[\]]|(?:[?.!]\s*)+$', ' ', plain).split())
    plain = re.sub(
        rf"(?<![\w'])(?<!'s )(?<!' )(?:the )?(?:both )?(?:{NOUNS})s?(?: (?=@)|, (?=@\d,? and))",
        lambda found: 'both ' * ('both ' in found[0]),
        plain,
    )
    return Marked(plain.replace(' ,', ','), tuple(names), tuple(said))


def readings(text: str, names: Sequence[Name]) -> Iterator[Marked]:
    """A short question with marks: with its names, then with some of them made one (`JOINTS`)."""
    if len(text) > MOST_CHARACTERS:
        return
    for joint in (None, *JOINTS):
        joined = list(names) if joint is None else join_names(text, names, joint)
        if 1 <= len(joined) <= _MOST_NAMES:
            yield mark_names(text, joined)


class Pair(NamedTuple):
    """Two joined names: marks, joining word, the role that is meant, the text with X for both."""

    left: str
    right: str
    word: str
    role: str
    text: str


ROLE = r'([a-z]+(?: (?!(?:who|that|which|whose|born|died|is|was|are|were)\b)[a-z]+)?)'
_LEFT, _JOINED, _RIGHT = r'@(?P<left>\d)', r',? (?P<word>and|or)', r'@(?P<right>\d)'
_PAIRS = tuple(
    re.compile(pattern)
    for pattern in (
        rf'(?:the )?(?P<role>{ROLE}) of {_LEFT}{_JOINED} (?:the )?(?P=role) of {_RIGHT}',
        rf"{_LEFT}'s? (?P<role>{ROLE}){_JOINED} {_RIGHT}'s? (?P=role)\b",
        rf'(?:both )?(?:the )?(?:both )?(?P<role>[a-z]+)s of (?:both )?{_LEFT}{_JOINED} {_RIGHT}',
        rf"(?P<role>)(?:both )?{_LEFT}(?:'s?)?{_JOINED} {_RIGHT}(?:'s?(?!\w))?",
    )
)
_NO_ROLE = re.compile(rf'(?:.* )?(?:which|who|what|one|{IS}|did|do|does|between)\b.*')


def find_pair(text: str) -> Pair | None:
    """The first two names joined by 'and' or 'or', as '@0 or @1'; None if none are."""
    for found in (found for pattern in _PAIRS for found in pattern.finditer(text)):
        if not _NO_ROLE.fullmatch(found['role']):
            rest = f'{text[: found.start()]}X{text[found.end() :]}'
            return Pair(found['left'], found['right'], found['word'], found['role'], rest)
    return None
