"""Comparisons and questions of yes or no, answered by plain questions about each of the things that they name.

'Which film is older, Night Ferry or Dawn Ferry?' asks when each was released, and compares the dates; 'Was Night Ferry directed by Ingrid
Solberg?' asks who directed it, and looks whether that is she. What asks in which way is a table of patterns, see `_read_choice` and those
below it, over a text in which names are marks: 'which film is older, @0 or @1'. The plain questions are answered by whatever answers such.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opql_jax.corpus.definitions import GROUP, PERSON, PLACE, WORK
from opql_jax.corpus.name_resolution import fold
from opql_jax.corpus.question_linking import written_as_names
from opql_jax.corpus.spans import VALUES
from opql_jax.kb import paths, values
from opql_jax.kb.answers import Answer
from opql_jax.kb.values import DATE, country
from opql_jax.retrieval.words import words_of

if TYPE_CHECKING:
    from opql_jax.corpus.questions import Question
    from opql_jax.kb.paths import Fact, Path
    from opql_jax.kb.virtual_kb import VirtualKB
    from opql_jax.kb.weighted_entities import Member

# Answers to a plain question that are looked at, and the least probability of one that counts.
_LOOKED_AT, _LEAST = 5, 0.05
# What the probability of a 'no' is multiplied by if the place that was found may lie in the one that is asked for.
_MAY_LIE_IN = 0.5
# Another value speaks against the one that is asked for if that has less than this share of its probability.
_RIVAL = 0.5
# What the probability of an answer is multiplied by if its sentence does not name what it is to be said of: if it is about something else, as
# far as one can tell, and if that stands some sentences before.
_OF_ANOTHER, _FAR = 0.3, 0.6
# What it is multiplied by if a question wants a fact confirmed whose words the sentence does not have.
_OTHER_WORDS = 0.5
# Paths to an answer that are looked at for the one that supports it best.
_PATHS = 3
# How a sentence begins that is about what the one before names.
_GOES_ON = re.compile(r'(?:it|its|he|his|she|her|they|their|this|these|the (?=[a-z]))\b', re.IGNORECASE)
_MOST_NAMES, _MOST_CHARACTERS = 4, 400
# What may stand in names that the text lacks, or has in another form, tried in this order where a question is not understood otherwise.
_JOINTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[ .:'’&-]{1,3}|,? (?:of|de|du|di|da|del|della|der|van|von|la|le|y)(?: (?:the|la|der|den))? ",
        r"[ .,:'’&-]{1,3}|,? (?:(?!(?:and|or|is|are|was|were)\b)[a-zà-ÿ]{1,4}[ '’]+){1,3}",
        r"[ .,:'’&-]{1,3}|,? (?:(?!(?:or|is|are|was|were)\b)[a-zà-ÿ]{1,4}[ '’]+){1,3}",
    )
)


class Name(NamedTuple):
    """The characters `[start, end)` of a name in a question, and the entity that it is, -1 if none, with its kind."""

    start: int
    end: int
    entity: int = -1
    kind: str = ''


class Side(NamedTuple):
    """One of the things that a question asks about.

    Attributes:
        name: as the question has it.
        entity: its id, or -1.
        questions: a plain question about it, in one or several wordings, of which the likeliest answer counts.
    """

    name: str
    entity: int
    questions: tuple[str, ...]


class Comparison(NamedTuple):
    """A question that answers of plain questions answer together.

    Attributes:
        sides: one or two.
        how: 'least' or 'most' of two values is chosen; or yes if they are the 'same', 'different', the first 'less' or 'more' than the
            second; or yes if the value of each side 'is' `asked`, or is 'less' or 'more' than that.
        measure: what is compared, 'date', 'number', 'country' or 'name'.
        asked: the value that the question names.
        exclusive: whether another value than that means no.
        is_place: whether what is asked for is a place, in which the one that is found may lie.
        now: whether it asks of the present.
    """

    sides: tuple[Side, ...]
    how: str
    measure: str
    asked: str = ''
    exclusive: bool = False
    is_place: bool = False
    now: bool = False


class Found(NamedTuple):
    """What answers a plain question best: the whole answer, the entity of it, its name and probability, and the last fact it rests on."""

    answer: Answer
    entity: int
    name: str
    probability: float
    fact: Fact | None


class Verdict(NamedTuple):
    """What a comparison comes to.

    Attributes:
        said: 'yes', 'no', the place of the chosen side among `sides`, or None if nothing states it.
        probability: that it is right.
        answers: to the plain questions that it rests on.
        note: what was found about each side, in words.
    """

    said: str | int | None
    probability: float
    answers: tuple[Answer, ...]
    note: str


# ---- What is asked ----

_NOUNS = f'{WORK}|{GROUP}|{PLACE}|{PERSON}|magazines?|rivers?|mountains?|bridges?|buildings?|towers?|ships?|documentar(?:y|ies)'
_IS = r'(?:is|are|was|were)'
_FIRST = r'first|earlier|earliest|sooner'
_LAST = r'last|later|latest|more recently|most recently'
_OLD, _YOUNG = r'older|oldest|elder|eldest', r'younger|youngest|newer|newest|more recent|most recent'
_LESS_DATE = re.compile(rf'\b(?:{_FIRST}|{_OLD})\b')
_MORE_DATE = re.compile(rf'\b(?:{_LAST}|{_YOUNG})\b')
# Adjectives of numbers, and what asks for them.
_SIZES = {
    'larger bigger greater largest biggest greatest': ('most', 'How large is {x}?'),
    'smaller smallest': ('least', 'How large is {x}?'),
    'taller tallest': ('most', 'How tall is {x}?'),
    'higher highest': ('most', 'How high is {x}?'),
    'lower lowest': ('least', 'How high is {x}?'),
    'longer longest': ('most', 'How long is {x}?'),
    'shorter shortest': ('least', 'How long is {x}?'),
    'deeper deepest': ('most', 'How deep is {x}?'),
    'shallower': ('least', 'How deep is {x}?'),
    'heavier heaviest': ('most', 'How heavy is {x}?'),
    'lighter lightest': ('least', 'How heavy is {x}?'),
    'wider broader widest': ('most', 'How wide is {x}?'),
    'narrower': ('least', 'How wide is {x}?'),
    'faster fastest': ('most', 'How fast is {x}?'),
    'slower slowest': ('least', 'How fast is {x}?'),
}
_SIZE = {word: (how, asks) for words, (how, asks) in _SIZES.items() for word in words.split()}
_ADJECTIVE = '|'.join(_SIZE)
_MEASURE = 'population|area|height|length|width|depth|weight|capacity|speed|budget|running time|elevation|size|duration'
_MANY = {'more': 'most', 'most': 'most', 'less': 'least', 'fewer': 'least', 'fewest': 'least'}
# Base, past and participle of verbs that are not regular.
_VERBS = {
    base: (past, participle)
    for base, past, participle in (
        verb.split()
        for verb in (
            'write wrote written,sing sang sung,draw drew drawn,make made made,build built built,begin began begun,win won won'
            ',lead led led,give gave given,take took taken,buy bought bought,sell sold sold,hold held held,come came come'
            ',become became become,die died died,shoot shot shot,teach taught taught,run ran run,lose lost lost,find found found'
            ',bring brought brought,leave left left,meet met met,beat beat beaten,star starred starred,open opened opened'
            ',happen happened happened,premiere premiered premiered,fight fought fought,break broke broken,fall fell fallen'
        ).split(',')
    )
}
_FORMS = tuple(frozenset(words_of(' '.join((base, *forms)))) for base, forms in _VERBS.items())
# Words that a sentence need not have.
_ANY_WORDS = frozenset(
    words_of('who what which where when why located situated based country nationality profession type thing from be is in')
)
_BASES = {past: base for base, (past, _) in _VERBS.items()}
_PAST_OF_PARTICIPLE = {participle: past for past, participle in _VERBS.values()}
# What is mostly done to a thing once, by one.
_ONCE = frozenset(
    'direct write author compose design found invent paint build develop discover publish establish create construct kill marry'
    ' directed wrote authored composed designed founded invented painted built developed discovered published established created'
    ' constructed killed married born buried die died located situated based set released opened completed begin began start started end'
    ' ended premiered launched happen happened close closed take open sink sank'.split()
)
_NAMES_OF_MANY = re.compile(
    r'(?:.+s|child|son|daughter|brother|sister|sibling|members?|student|friend|part|actor|star|producer|writer|employee|player)$'
)
_COUNTRY = ('What country is {x} from?', 'What is the nationality of {x}?')
_LOCATED = ('In which country is {x} located?', 'What country is {x} in?')


@dataclasses.dataclass(frozen=True)
class _Marked:
    """A question in small letters in which names are '@0', '@1', ...; what they are, and whether it is of both."""

    text: str
    names: tuple[Name, ...]
    said: tuple[str, ...]

    def side(self, mark: str | int, *asks: str, role: str = '') -> Side:
        """A side by its mark, asked in such words, where {x} stands for it or for who has a role in it."""
        name, of = self.names[int(mark)], self.said[int(mark)]
        bare = re.sub(r'^[Tt]he ', '', of)
        x = f'the {role} of {of}' if role else of
        return Side(bare, name.entity, tuple(ask.format(x=x) for ask in asks))

    def is_date(self, mark: str | int) -> bool:
        return values.date(self.said[int(mark)]) is not None

    def kind(self, mark: str | int) -> str:
        return self.names[int(mark)].kind


def names_of(text: str, linked: Sequence[Name]) -> list[Name]:
    """The names of a question, by start: those that were linked, longer where the words before belong to them, and others that look like some."""
    names = list(linked)
    if len(text) > _MOST_CHARACTERS:
        return names
    dates = [match.span() for match in DATE.finditer(text)]
    for start, end in [*dates, *written_as_names(text)]:
        over = [name for name in names if name.start < end and start < name.end]
        if not over:
            names.append(Name(start, end))
        elif start < over[0].start and over[0].end >= end and len(over) == 1:
            names[names.index(over[0])] = Name(start, over[0].end)  # 'The Mask of [Fu Manchu]' is not he
    return sorted(names)


def parse(text: str, names: Sequence[Name]) -> Comparison | None:
    """What a question compares or wants confirmed; None if it does neither, or in a way that is out of reach.

    Args:
        text: the question.
        names: those in it, see `names_of`.
    """
    if len(text) > _MOST_CHARACTERS:
        return None
    for joint in (None, *_JOINTS):
        joined = list(names) if joint is None else _joined(text, names, joint)
        if 1 <= len(joined) <= _MOST_NAMES:
            marked = _mark(text, joined)
            for read in (_read_choice, _read_same, _read_order, _read_both, _read_fact):
                if found := read(marked):
                    return found
    return None


def _joined(text: str, names: Sequence[Name], joint: re.Pattern) -> list[Name]:
    """The names with those made one between which there are no words but such as stand in names."""
    found: list[Name] = []
    for name in names:
        if found and joint.fullmatch(text[found[-1].end : name.start]):
            found[-1] = Name(found[-1].start, name.end)
        else:
            found.append(name)
    return found


def _mark(text: str, names: Sequence[Name]) -> _Marked:
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
        rf"(?<![\w'])(?<!'s )(?<!' )(?:the )?(?:both )?(?:{_NOUNS})s?(?: (?=@)|, (?=@\d,? and))",
        lambda found: 'both ' * ('both ' in found[0]),
        plain,
    )
    return _Marked(plain.replace(' ,', ','), tuple(names), tuple(said))


class _Pair(NamedTuple):
    """Two names that are joined: their marks, by which word, what of them is meant if not themselves, and the text with X in their place."""

    left: str
    right: str
    word: str
    role: str
    text: str


_ROLE = r'([a-z]+(?: (?!(?:who|that|which|whose|born|died|is|was|are|were)\b)[a-z]+)?)'
_PAIRS = tuple(
    re.compile(pattern)
    for pattern in (
        rf'(?:the )?{_ROLE} of @(\d),? (and|or) (?:the )?\1 of @(\d)',
        rf"@(\d)'s? {_ROLE},? (and|or) @(\d)'s? \2\b",
        r'(?:both )?(?:the )?(?:both )?([a-z]+)s of (?:both )?@(\d),? (and|or) @(\d)',
        r"(?:both )?@(\d)(?:'s?)?,? (and|or) @(\d)(?:'s?(?!\w))?",
    )
)
_NO_ROLE = re.compile(rf'(?:.* )?(?:which|who|what|one|{_IS}|did|do|does|between)\b.*')


def _pair(text: str) -> _Pair | None:
    for number, pattern in enumerate(_PAIRS):
        for found in pattern.finditer(text):
            groups = found.groups()
            if number == 0:
                role, left, word, right = groups
            elif number == 1:
                left, role, word, right = groups
            elif number == 2:
                role, left, word, right = groups
            else:
                (left, word, right), role = groups, ''
            if _NO_ROLE.fullmatch(role):
                continue
            return _Pair(left, right, word, role, f'{text[: found.start()]}X{text[found.end() :]}')
    return None


def _read_choice(marked: _Marked) -> Comparison | None:
    """'which film is older, @0 or @1', 'did @0 or @1 die first', 'which film has the director who was born earlier, @0 or @1'."""
    pair = _pair(marked.text)
    if not pair:
        return None
    text = re.sub(r'(?: one)? of (?:the|these) two(?: [a-z]+)?\b', '', pair.text)
    if wh := re.fullmatch(r'(?:(?:between|of|out of)(?: the two)? X[,:]? )(.*)', text):
        text = wh[1]
    elif wh := re.fullmatch(r'(.*?)[,:;]? ?X', text):
        text = wh[1] if pair.word == 'or' else ''
    elif wh := re.fullmatch(r'(which|who|what)(?: one)? of X (.*)', text):
        text = f'{wh[1]} {wh[2]}'
    elif wh := re.fullmatch(r'((?:which|who|what)(?: [a-z]+){0,2}), ?X, ?(.*)', text):
        text = f'{wh[1]} {wh[2]}'
    elif pair.word == 'and' or not re.match(rf'(?:{_IS}|did|does|do|has|had|have) X ', text):
        return None
    role, noun, rest = pair.role, '', ''
    if aux := re.fullmatch(rf'({_IS}|did|does|do|has|had|have) X (.*)', text):
        rest = aux[2] if aux[1] in ('did', 'does', 'do') else f'{aux[1]} {aux[2]}'
        asks_base = aux[1] in ('did', 'does', 'do')
    elif wh := re.fullmatch(r'(?:which|what|who|whose)\b ?(.*)', text):
        rest, asks_base = wh[1], False
        if of := re.fullmatch(
            rf'(?:({_NOUNS}|[a-z]+) )?(?:has|have|had|with) (?:the|an?) {_ROLE} (?:who |that |which |whose )?(.*)', rest
        ):
            noun, role, rest = of[1] or '', of[2], of[3]
            if adjective := re.fullmatch(rf'({_OLD}|{_YOUNG}) ([a-z]+)', role):
                role, rest = adjective[2], f'is {adjective[1]}'
            elif taken := re.fullmatch(rf'([a-z]+) (born|died|{_IS})', role):
                role, rest = taken[1], f'{taken[2]} {rest}'
        if of := re.fullmatch(rf'(?:({_NOUNS}|[a-z]+) )?(?:has|have|had) (?:the|an?) ({_OLD}|{_YOUNG}) ([a-z]+)', wh[1]):
            noun, role, rest = of[1] or '', of[3], f'is {of[2]}'
        elif of := re.fullmatch(rf"(?:({_NOUNS})?(?:'s| whose) )?([a-z]+) ((?:{_IS}|died|has|came)\b.*)", rest):
            if text.startswith('whose') or of[1] or "'s " in rest or ' whose ' in rest:
                noun, role, rest = of[1] or '', of[2], of[3]
            else:
                noun, rest = of[2], of[3]
        elif of := re.fullmatch(rf'({_NOUNS}) (.*)', rest):
            noun, rest = of[1], of[2]
    else:
        return None
    if role and re.fullmatch(rf'(?:.* )?(?:{_MEASURE}|{_ADJECTIVE}|more|most|less|fewer)', role):
        role, rest = '', f'has {role} {rest}'.strip()
    dimension = _dimension(' '.join(rest.split()), asks_base, noun, text.startswith('who '), _kind(marked, pair, role))
    if not dimension:
        return None
    how, measure, asks = dimension
    role = re.sub(r's$', '', role) if pair.role and pair.role.endswith('s') else role
    return Comparison((marked.side(pair.left, *asks, role=role), marked.side(pair.right, *asks, role=role)), how, measure)


def _kind(marked: _Marked, pair: _Pair, role: str) -> str:
    """The kind of what two names, or who has a role in them, are of."""
    if role:
        return 'person' if re.fullmatch(PERSON, role) else ''
    kinds = [kind for kind in (marked.kind(pair.left), marked.kind(pair.right)) if kind]
    return kinds[0] if len(set(kinds)) == 1 else ''


def _dimension(rest: str, is_base: bool, noun: str, is_who: bool, kind: str) -> tuple[str, str, tuple[str, ...]] | None:
    """What a comparison is of: which of two values is chosen, their measure, and what asks for one.

    Args:
        rest: the question without its names and question word: 'was born first', 'is older'.
        is_base: whether its verb is in the base form, 'die first'.
        noun: what the question calls the things, may be ''.
        is_who: whether it asks for persons.
        kind: of the things, may be ''.
    """
    if size := re.fullmatch(rf'{_IS}(?: the| a)? ({_ADJECTIVE})(?: (?:{_NOUNS}|one))?', rest):
        how, ask = _SIZE[size[1]]
        if size[1].startswith('short') and (kind == 'person' or is_who):
            ask = 'How tall is {x}?'
        return how, 'number', (ask,)
    if size := re.fullmatch(rf'(?:has|have|had)(?: the| a)? ({_ADJECTIVE}) ({_MEASURE})', rest):
        return _SIZE[size[1]][0], 'number', (f'What is the {size[2]} of {{x}}?',)
    if many := re.fullmatch(rf'(?:has|have|had)(?: the)? ({"|".join(_MANY)}) ((?:[a-z]+ ){{0,2}}[a-z]+)', rest):
        ask = (
            'How many people live in {x}?'
            if many[2] in ('people', 'inhabitants', 'residents')
            else f'How many {many[2]} does {{x}} have?'
        )
        return _MANY[many[1]], 'number', (ask,)
    if re.fullmatch(r'(?:last|lasted|ran|run|is|was)(?: for)? longer', rest):
        return 'most', 'number', ('How long did {x} last?',)
    earlier, later = _LESS_DATE.search(rest), _MORE_DATE.search(rest)
    if bool(earlier) == bool(later):
        return None
    word = (earlier or later)[0]  # type: ignore[index]
    words = _LESS_DATE.pattern if earlier else _MORE_DATE.pattern
    said = ' '.join(re.sub(rf'(?:\bthe )?{words}(?: one\b)?(?: to\b)?', ' ', rest).split())
    is_age = bool(re.fullmatch(f'{_OLD}|{_YOUNG}', word)) or said in ('come', 'came')
    said = '' if said in ('come', 'came') else said
    ask = _when(said, is_base)
    if re.fullmatch(rf'(?:{_IS})?(?: (?:{_NOUNS}|person|one))?', said):
        asks = _began(f'{noun} {said}', kind, is_who) if is_age else ()
    else:
        asks = (ask,) if ask else ()
    return ('least' if earlier else 'most', 'date', asks) if asks else None


def _when(said: str, is_base: bool) -> str:
    """What asks for the date of something that is said: 'was born', 'died', or, in the base form, 'die'; '' if there is no telling."""
    if is_base and (active := re.fullmatch(r'(?!come out)((?:[a-z]+ ){0,3}[a-z]+)', said)):
        return f'When did {{x}} {active[1]}?'
    if re.fullmatch(r'(?:came|come) out|(?:was |were )?come out|(?:was|were|got|be) released', said):
        return 'When was {x} released?'
    if passive := re.fullmatch(
        rf'(?:(?:{_IS}|got|be) (?:be )?)?([a-z]+(?:ed|en|born|wn|lt|de|ung|gun))((?: [a-z]+){{0,3}})', said
    ):
        verb, tail = passive.groups()
        if verb == 'died':
            return f'When did {{x}} die{tail}?'
        return f'When was {{x}} {verb}{tail}?'
    if past := re.fullmatch(r'([a-z]+)((?: [a-z]+){0,3})', said):
        if past[1] in _BASES:
            return f'When did {{x}} {_BASES[past[1]]}{past[2]}?'
    return 'When was {x} born?' if said in ('was born', 'born', 'is born') else ''


def _began(said: str, kind: str, is_who: bool) -> tuple[str, ...]:
    """What asks since when something is there, by the noun that it is called by, else by its kind."""
    if is_who or re.search(rf'\b(?:{PERSON})\b', said) or kind == 'person':
        return ('When was {x} born?',)
    if re.search(rf'\b(?:{WORK}|documentary|documentaries)\b', said) or kind == 'work':
        return ('When was {x} released?', 'When was {x} published?')
    if re.search(rf'\b(?:{GROUP}|magazines?|newspapers?)\b', said) or kind == 'organisation':
        return ('When was {x} founded?',)
    if re.search(r'\b(?:bridges?|buildings?|towers?|church|castle|ships?|stations?)\b', said):
        return ('When was {x} built?', 'When was {x} opened?')
    return ('When was {x} founded?', 'When was {x} released?', 'When was {x} built?')


def _read_same(marked: _Marked) -> Comparison | None:
    """'are @0 and @1 from the same country', 'do both @0 and @1 have directors of the same nationality'."""
    pair = _pair(marked.text)
    if not pair or pair.word != 'and':
        return None
    found = re.fullmatch(
        rf'({_IS}|do|does|did|have|has) X,? (.*?)(?:the |an? )?\b(same|different|identical) ([a-z]+(?: [a-z]+)?)', pair.text
    )
    if not found:
        return None
    aux, between, word, noun = found.groups()
    between = ' '.join(re.sub(r'\b(?:both|all|each|come|originate|also|share|located|situated|lie)\b', ' ', between).split())
    noun = re.sub(r'^(?:nationalities)$', 'nationality', re.sub(r'^(countr)ies$', r'\1y', noun))
    role = pair.role
    if of := re.fullmatch(
        r'(?:have|has)(?: the)? ([a-z]+?)s?(?: (?:who|that|which)(?: are| were| come| came)?)? ((?:[a-z]+ )?(?:from|of|in|with|on))',
        between,
    ):
        role, between = of[1], of[2]
    role = re.sub(r's$', '', role) if role.endswith('s') and pair.role else role
    measure, asks = 'name', ()
    is_place_of_event = re.fullmatch(r'([a-z]+) (in|on|at)', between)
    if re.fullmatch('country|nationality', noun) and not is_place_of_event:
        measure = 'country'
        is_there = between in ('in', 'within') or 'located in' in found[2] or 'situated in' in found[2]
        asks = _LOCATED if is_there else _COUNTRY
        if between not in ('', 'from', 'of', 'in', 'have', 'with', 'within', 'having'):
            return None
    elif by := re.fullmatch(r'([a-z]+) by', between):
        asks = (f'Who {_PAST_OF_PARTICIPLE.get(by[1], by[1])} {{x}}?',)
    elif is_place_of_event:
        verb = is_place_of_event[1]
        measure = 'date' if noun in ('year', 'day', 'date', 'decade', 'century') else 'country' if noun == 'country' else 'name'
        asks = (
            (f'When did {{x}} {verb}?' if aux == 'did' else f'When was {{x}} {verb}?',)
            if measure == 'date'
            else (f'In which {noun} did {{x}} {verb}?' if aux == 'did' else f'In which {noun} was {{x}} {verb}?',)
        )
    elif between in ('', 'have', 'has', 'of', 'with', 'having'):
        asks = (f'Who is the {noun} of {{x}}?' if re.fullmatch(PERSON, noun) else f'What is the {noun} of {{x}}?',)
    elif between in ('in', 'from'):
        asks = (f'In which {noun} is {{x}}?',) if between == 'in' else (f'Which {noun} is {{x}} from?',)
    if not asks or (measure == 'date' and noun in ('decade', 'century')):
        return None
    sides = marked.side(pair.left, *asks, role=role), marked.side(pair.right, *asks, role=role)
    how = 'different' if word == 'different' else 'same'
    return Comparison(sides, how, 'year' if measure == 'date' and noun == 'year' else measure)


def _read_order(marked: _Marked) -> Comparison | None:
    """'was @0 born before @1', 'is @0 older than @1', 'did @0 open after 1990'."""
    found = re.fullmatch(
        rf'({_IS}|did|does|has) @(\d) (.*?)\b(before|after|(?:{_OLD}|{_YOUNG}|{_FIRST}|{_LAST}|{_ADJECTIVE}) than) @(\d)(?: (?:{_IS}|did|does|has|had)(?: [a-z]+)?)?',
        marked.text,
    )
    if not found:
        return None
    aux, left, said, word, right = found.groups()
    word = {'before': 'earlier', 'after': 'later'}.get(word, word.removesuffix(' than'))
    rest = f'{said.strip()} {word}' if aux in ('did', 'does') else f'{aux} {said.strip()} {word}'
    kinds = {marked.kind(left), marked.kind(right)} - {''}
    dimension = _dimension(' '.join(rest.split()), aux in ('did', 'does'), '', False, kinds.pop() if len(kinds) == 1 else '')
    if not dimension:
        return None
    how, measure, asks = dimension
    how = {'least': 'less', 'most': 'more'}[how]
    if marked.is_date(right):
        return (
            Comparison((marked.side(left, *asks),), how, measure, asked=marked.said[int(right)]) if measure == 'date' else None
        )
    return Comparison((marked.side(left, *asks), marked.side(right, *asks)), how, measure)


def _read_both(marked: _Marked) -> Comparison | None:
    """'were @0 and @1 directed by @2': the question about each of them."""
    pair = _pair(marked.text)
    if not pair or pair.word != 'and' or pair.role:
        return None
    text = re.sub(r'\b(?:both|all|each) ', '', pair.text)
    if not re.match(r'(?:are|were|did|do|have) X ', text):
        return None
    text = re.sub(r'^are', 'is', re.sub(r'^were', 'was', re.sub(r'^do\b', 'does', text)))
    singular = re.sub(rf'(?<=X )((?:[a-z]+ )*?)((?:{PERSON}|{WORK}|[a-z]+)s)$', lambda m: f'a {m[1]}{m[2][:-1]}', text)
    each = [_read_fact(dataclasses.replace(marked, text=singular.replace('X', f'@{mark}'))) for mark in (pair.left, pair.right)]
    if not all(each):
        return None
    left, right = each
    return left._replace(sides=(*left.sides, *right.sides))  # type: ignore[union-attr]


def _read_fact(marked: _Marked) -> Comparison | None:
    """'was @0 directed by @1', 'is @0 the director of @1', 'did @0 die in @1', 'was the director of @0 born in @1', 'is @0 french'."""
    if re.search(r'\b(?:same|different|or|not|never|how|why)\b', marked.text):
        return None
    if found := _read_plain_fact(marked):
        return found
    for pattern in (rf'\b(?:the )?{_ROLE} of @(?P<mark>\d)', rf"@(?P<mark>\d)'s? {_ROLE}"):
        if of := re.search(pattern, marked.text):
            role, number = next(group for group in of.groups() if not group.isdigit()), int(of['mark'])
            said = (*marked.said[:number], f'the {role} of {marked.said[number]}', *marked.said[number + 1 :])
            text = f'{marked.text[: of.start()]}@{number}{marked.text[of.end() :]}'
            if found := _read_plain_fact(dataclasses.replace(marked, text=text, said=said)):
                return found
    return None


def _read_plain_fact(marked: _Marked) -> Comparison | None:
    text, verb = marked.text, r'([a-z]+)'
    is_now = bool(re.match(r'(?:is|are|does|do)\b', text))

    def fact(subject: str, ask: str | tuple[str, ...], asked: str, once: bool, measure: str = 'name', is_place: bool = False):
        asks = (ask,) if isinstance(ask, str) else ask
        value = marked.said[int(asked[1:])] if asked.startswith('@') else asked
        return Comparison((marked.side(subject, *asks),), 'is', measure, re.sub(r'^[Tt]he ', '', value), once, is_place, is_now)

    if found := re.fullmatch(rf'{_IS} @(\d) (?:[a-z]+ly )?{verb} by @(\d)', text):
        past = _PAST_OF_PARTICIPLE.get(found[2], found[2])
        return fact(found[1], f'Who {past} {{x}}?', f'@{found[3]}', past in _ONCE)
    if found := re.fullmatch(rf'(did|does) @(\d) {verb} @(\d)', text):
        base, who, whom = found[3], found[2], found[4]
        if base in ('marry', 'wed'):
            return fact(who, 'Who did {x} marry?', f'@{whom}', True)
        if base in ('star', 'feature'):
            return fact(who, 'Who stars in {x}?', f'@{whom}', False)
        wh = 'What' if marked.kind(who) in ('place', 'work') else 'Who'
        return fact(whom, f'{wh} {_past(base)} {{x}}?', f'@{who}', base in _ONCE)
    for pattern in (
        rf'{_IS} @(?P<b>\d) (?P<the>the|an?) (?P<n>(?:[a-z-]+ )?[a-z]+) of @(?P<a>\d)',
        rf'{_IS} (?P<the>the) (?P<n>(?:[a-z-]+ )?[a-z]+) of @(?P<a>\d) @(?P<b>\d)',
        rf"{_IS} @(?P<a>\d)'s? (?P<n>(?:[a-z-]+ )?[a-z]+) @(?P<b>\d)",
        rf"{_IS} @(?P<b>\d) @(?P<a>\d)'s? (?P<n>(?:[a-z-]+ )?[a-z]+)",
    ):
        if found := re.fullmatch(pattern, text):
            noun, is_the = found['n'], found.groupdict().get('the', 'the') == 'the'
            is_person = re.fullmatch(rf'(?:[a-z-]+ )?(?:{PERSON}|[a-z]+(?:er|or|ist))', noun)
            ask = f'Who is the {noun} of {{x}}?' if is_person else f'What is the {noun} of {{x}}?'
            return fact(found['a'], ask, f'@{found["b"]}', is_the and not _NAMES_OF_MANY.match(noun))
    if found := re.fullmatch(rf'({_IS}|did|does) @(\d)(?: {verb}(?: [a-z]+)??)? (in|on|at|near|from|to|for|with) @(\d)', text):
        aux, subject, done, prep, value = found.groups()
        aux = {'are': 'is', 'were': 'was'}.get(aux, aux)
        once = done in _ONCE
        asked = f'@{value}'
        if marked.is_date(value):
            return fact(subject, f'When {aux} {{x}} {done}?', asked, once, 'date') if done and prep in ('in', 'on') else None
        if prep == 'from' and not done:
            return fact(subject, ('Where is {x} from?', *_COUNTRY), asked, True, 'name', is_place=True)
        if prep in ('in', 'on', 'at', 'near'):
            in_country = _LOCATED if country(marked.said[int(value)]) else ()
            if not done:
                if {marked.kind(value), marked.kind(subject)} & {'work', 'person'}:
                    return None  # who is in a film
                asks: tuple[str, ...] = ('Where is {x} located?', *in_country)
            elif done in ('located', 'situated', 'lie', 'stand'):
                asks, once = (f'Where {aux} {{x}} {done}?', *in_country), True
            else:
                asks = (f'Where {aux} {{x}} {done}?',)
            return fact(subject, asks, asked, once or not done, 'name', is_place=prep != 'near')
        if done:
            return fact(subject, f'Who {aux} {{x}} {done} {prep}?', asked, done == 'married')
        return None
    if found := re.fullmatch(rf'{_IS} @(\d) (?:an? )?@(\d)(?: [a-z]+)?', text):
        return fact(found[1], _COUNTRY, f'@{found[2]}', True, 'country') if country(marked.said[int(found[2])]) else None
    if found := re.fullmatch(rf'{_IS} @(\d) (an? )?((?:[a-z-]+ ){{0,2}}[a-z-]+)', text):
        word = found[3].split()[-1]
        if country(found[3]):
            return fact(found[1], _COUNTRY, found[3], True, 'country')
        if found[2]:
            is_work = re.fullmatch(f'{WORK}|{GROUP}|{PLACE}', word)
            return fact(found[1], 'What type of thing is {x}?' if is_work else 'What is the profession of {x}?', word, False)
    return None


def _past(base: str) -> str:
    if base in _VERBS:
        return 'founded' if base == 'found' else _VERBS[base][0]
    if base.endswith('e'):
        return f'{base}d'
    return f'{base[:-1]}ied' if re.search(r'[^aeiou]y$', base) else f'{base}ed'


# ---- What the answers say ----

Answerer = Callable[[list[str]], list[Answer]]
# What the probability of an answer is multiplied by if the text has not the name that is asked about, but a part of it.
_PART_OF_NAME = 0.5
_NEGATED = re.compile(
    r'\b(?:not(?! only)|never|nor|neither|denie[sd]|denying|deny|refuse[sd]|declined|rejected|falsely|wrongly|mistakenly|allegedly'
    r"|supposedly|rumou?red|unlike|instead of|rather than)\b|n['’]t\b",
    re.IGNORECASE,
)
# What is said between a name and its verb: ', who was never married,'.
_ASIDE = re.compile(r', (?:who|which|whose|where|whom)\b[^,]*,|\([^()]*\)')
_NO_LONGER = re.compile(r'\b(?:no longer|former|formerly|previously|until|once|ex-\w+|then-\w+)\b', re.IGNORECASE)


def answer(question: Question, kinds: Sequence[str], plain: Answerer) -> Answer | None:
    """The answer to a question that compares, or wants a fact confirmed: 'yes', 'no' or one of its names; None if it does neither.

    There are no entities in it, and a note, if the text does not state what decides.

    Args:
        question: with its names as topics.
        kinds: of the entities.
        plain: answers plain questions; an answer without entities says that there is none.
    """
    linked = [
        Name(start, end, entity, kinds[entity] if entity >= 0 else '')
        for (start, end), entity in zip(question.topics, question.entities)
    ]
    comparison = parse(question.text, names_of(question.text, linked))
    if comparison is None:
        return None
    verdict = decide(comparison, plain)
    if verdict.said is None:
        nothing = np.zeros(0, np.int64), np.zeros(0, np.float32), ()
        return Answer(*nothing, parts=verdict.answers, note=f'the text does not decide this: {verdict.note}')
    entity, phrases = -1, (str(verdict.said),)
    if isinstance(verdict.said, int):
        side = comparison.sides[verdict.said]
        entity, phrases = (side.entity, ()) if side.entity >= 0 else (-1, (side.name,))
    probabilities = np.array([verdict.probability], np.float32)
    one = np.ones(1, np.float32)
    return Answer(np.array([entity]), one, (), probabilities, phrases=phrases, parts=verdict.answers, note=verdict.note)


def decide(comparison: Comparison, answer: Answerer) -> Verdict:
    """What a comparison comes to.

    Args:
        comparison: see `parse`.
        answer: answers plain questions; an answer without entities says that there is none.
    """
    asked = [question for side in comparison.sides for question in side.questions]
    answers = dict(zip(asked, answer(asked), strict=True))
    found = [_best(comparison, side, [answers[question] for question in side.questions]) for side in comparison.sides]
    note = '; '.join(f'{side.name}: {one.name if one else "not stated"}' for side, one in zip(comparison.sides, found))
    rests_on = tuple(one.answer if one else answers[side.questions[0]] for side, one in zip(comparison.sides, found))
    if not all(found):
        return Verdict(None, 0.0, rests_on, note)
    known: list[Found] = [one for one in found if one]
    if comparison.how in ('least', 'most', 'same', 'different') or (len(known) == 2 and not comparison.asked):
        said, probability = _of_two(comparison, *known)
        return Verdict(said, probability, rests_on, note)
    each = [_confirm(comparison, one, answer) for one in known]
    probabilities = [probability for _, probability in each]
    if all(said == 'yes' for said, _ in each):
        return Verdict('yes', float(np.prod(probabilities)), rests_on, note)
    if any(said == 'no' for said, _ in each):
        return Verdict('no', max(probability for said, probability in each if said == 'no'), rests_on, note)
    return Verdict(None, 0.0, rests_on, note)


def _best(comparison: Comparison, side: Side, answers: Sequence[Answer]) -> Found | None:
    """The likeliest of the answers that is a value of the right kind; of those to a question about one fact, what it names comes first."""
    candidates: list[Found] = []
    for answer in answers:
        for place, member in enumerate(answer):
            if place == _LOOKED_AT:
                break
            probability = (member.probability or 0.0) * (_PART_OF_NAME if side.entity < 0 else 1)
            if probability >= _LEAST and _is_value(comparison.measure, member):
                supports = [
                    (_support(answer, path) * _wording(comparison, answer, path), path[-1])
                    for path in answer.paths(member.id, _PATHS)
                    if path
                ]
                support, fact = max(supports, key=lambda pair: pair[0], default=(1.0, None))
                candidates.append(Found(answer, member.id, member.name, probability * support, fact))
    if comparison.measure == 'country':
        candidates = [one for one in candidates if country(one.name)] or candidates
    best = max(candidates, key=lambda one: one.probability, default=None)
    if best is not None and comparison.asked:
        asked = [one for one in candidates if _is_asked(comparison, one.name)]
        least = best.probability * (_RIVAL if comparison.exclusive else 0)
        return max((one for one in asked if one.probability >= least), key=lambda one: one.probability, default=best)
    return best


def _wording(comparison: Comparison, answer: Answer, path: Path) -> float:
    """Less than 1 if a question wants a fact confirmed, and the sentence of what was found has no word of it: who directed has not written."""
    text, topics = answer.question.text, answer.question.topics
    asked = set(
        words_of(''.join(text[end:start] for (_, end), (start, _) in itertools.pairwise([(0, 0), *topics, (len(text), 0)])))
    )
    asked -= _ANY_WORDS
    for forms in _FORMS:
        asked |= forms if asked & forms else set()
    sentence = path[-1].sentence
    has = sentence is None or not asked or comparison.how != 'is' or not asked.isdisjoint(words_of(sentence))
    return 1.0 if has else _OTHER_WORDS


def _support(answer: Answer, path: Path) -> float:
    """How much the sentences of a path let its end be said of what a question asks about, in 0 .. 1: wholly if each has both names."""
    kb, text = answer.kb, answer.question.text
    if path[0].topic in {kb.vocab.names[entity] for entity in answer.question.entities}:
        return float(np.prod([_says(kb, fact) for fact in path]))
    names = [text[start:end] for start, end in answer.question.topics]
    return 1.0 if _is_about(kb, path[-1], names) else _OF_ANOTHER


def _is_about(kb: VirtualKB, fact: Fact, names: Sequence[str]) -> bool:
    """Whether the sentence of a fact's target has one of some names, or goes on about what a sentence before it names."""
    if fact.passage is None:
        return True
    (passage,) = kb.prepared.passages.slice(fact.passage, 1).to_pylist()
    place = passage['text'].find(said := paths.target_sentence(kb, fact))
    starts = [start for start in passage['sentence_starts'] if start <= place]
    while starts and _GOES_ON.match(said) and not any(name in said for name in names):
        said = passage['text'][starts[-2] : starts[-1]].strip() if len(starts) > 1 else passage['title']
        starts.pop()
    return any(name in said for name in names)


def _says(kb: VirtualKB, fact: Fact) -> float:
    if fact.sentence is None or not fact.topic_span or not fact.target_span:
        return 1.0
    said = paths.target_sentence(kb, fact)
    start = fact.sentence.find(said)
    if start <= fact.topic_span[0] < start + len(said):
        return 1.0
    if fact.topic_span[0] > start or _is_name_first(said):
        return _OF_ANOTHER
    return 1.0 if _GOES_ON.match(said) and not fact.sentence[:start].endswith('… ') else _FAR


def _is_name_first(said: str) -> bool:
    """Whether a sentence begins with a name: with a capital that is no common word's."""
    spans = written_as_names(said)
    return bool(spans) and spans[0][0] == 0


def _is_value(measure: str, member: Member) -> bool:
    if measure in ('date', 'year'):
        return values.date(member.name) is not None
    return values.number(member.name) is not None if measure == 'number' else member.kind not in VALUES


def _of_two(comparison: Comparison, left: Found, right: Found) -> tuple[str | int | None, float]:
    """What two values come to, and how probable both are."""
    how, measure = comparison.how, comparison.measure
    probability = left.probability * right.probability
    if _is_negated(left, comparison) or _is_negated(right, comparison):
        return None, 0.0
    if how in ('same', 'different'):
        same = _same_value(measure, left.name, right.name)
        return None if same is None else ('yes' if same == (how == 'same') else 'no'), probability
    order = values.compare(measure, left.name, right.name)
    if not order:
        return None, 0.0
    if how in ('less', 'more'):
        return 'yes' if (order < 0) == (how == 'less') else 'no', probability
    return int((order > 0) == (how == 'least')), probability


def _confirm(comparison: Comparison, found: Found, answer: Answerer) -> tuple[str | None, float]:
    """Whether what was found is what a question names: 'yes', 'no' or None, and how probable that is."""
    is_negated = _is_negated(found, comparison)
    if comparison.how in ('less', 'more'):
        order = values.compare('date', found.name, comparison.asked)
        said = None if is_negated or not order else 'yes' if (order < 0) == (comparison.how == 'less') else 'no'
        return said, found.probability
    if _is_asked(comparison, found.name):
        return (None if is_negated else 'yes'), found.probability
    if is_negated or not comparison.exclusive:
        return None, 0.0
    if comparison.measure == 'country':
        return ('no' if country(found.name) and country(comparison.asked) else None), found.probability
    if not comparison.is_place:
        return 'no', found.probability
    if country(found.name):
        return ('no' if country(comparison.asked) else None), found.probability
    asked = answer([f'Where is {comparison.asked} located?'])
    if any(_same_name(member.name, found.name) for one in asked for member in list(one)[:_LOOKED_AT]):
        return None, 0.0  # the place that is asked for lies in the one that was found
    further = answer([f'Where is {found.name} located?', f'In which country is {found.name} located?'])
    within = [(member.name, member.probability or 0.0) for one in further for member in list(one)[:_LOOKED_AT]]
    if at := [probability for name, probability in within if _is_asked(comparison, name)]:
        return 'yes', found.probability * max(at)
    if country(comparison.asked):
        at = [probability for name, probability in within if country(name)]
        return ('no' if at else None), found.probability * max(at, default=0.0)
    return 'no', found.probability * _MAY_LIE_IN


def _is_asked(comparison: Comparison, name: str) -> bool:
    """Whether a value is the one that a question names."""
    asked = comparison.asked
    if comparison.how != 'is':
        return True
    if comparison.measure == 'date':
        return values.lies_in(name, asked)
    if (nation := country(asked)) and nation == country(name):
        return True
    return _same_name(name, asked)


def _same_name(left: str, right: str) -> bool:
    """Whether two spellings are of one name: alike, or one the end of the other, as a surname is."""
    one, other = fold(left).split(), fold(right).split()
    if len(one) > len(other):
        one, other = other, one
    return bool(one) and (one == other[-len(one) :] or one == other)


def _same_value(measure: str, left: str, right: str) -> bool | None:
    if measure == 'country':
        nations = country(left), country(right)
        if all(nations):
            return nations[0] == nations[1]
        return True if _same_name(left, right) else None if any(nations) else False
    if measure == 'year':
        years = values.date(left), values.date(right)
        return int(years[0][0]) == int(years[1][0]) if all(years) else None  # type: ignore[index]
    if measure == 'date':
        return values.compare('date', left, right) == 0
    return _same_name(left, right)


def _is_negated(found: Found, comparison: Comparison) -> bool:
    """Whether the sentence that states a value says that it is not so, or, asked of the present, that it was so once."""
    fact = found.fact
    if fact is None or fact.sentence is None:
        return False
    text = fact.sentence
    if fact.topic_span and fact.target_span:
        start = min(fact.topic_span[0], fact.target_span[0])
        end = max(fact.topic_span[1], fact.target_span[1])
        start = max(text.rfind(mark, 0, start) for mark in ('. ', '; ')) + 1
        text = _ASIDE.sub(' ', text[start:end])
    return bool(_NEGATED.search(text) or (comparison.now and _NO_LONGER.search(text)))
