"""What a question compares, and the plain questions that ask for the values.

'Which film is older, Night Ferry or Dawn Ferry?'.
"""

import re
from collections.abc import Sequence

from opql_jax.corpus.definitions import GROUP, PERSON, PLACE, WORK
from opql_jax.kb.text.fact_questions import read_both, read_each, read_fact
from opql_jax.kb.text.marked_questions import (
    COUNTRY,
    IS,
    LOCATED,
    NOUNS,
    ROLE,
    Comparison,
    Marked,
    Name,
    Pair,
    Side,
    find_pair,
    readings,
)
from opql_jax.kb.text.word_lists import BASES, LISTS, PAST_OF_PARTICIPLE

_FIRST = r'first|earlier|earliest|sooner'
_LAST = r'last|later|latest|more recently|most recently'
_OLD, _YOUNG = (
    r'older|oldest|elder|eldest',
    r'younger|youngest|newer|newest|more recent|most recent',
)
_LESS_DATE = re.compile(rf'\b(?:{_FIRST}|{_OLD})\b')
_MORE_DATE = re.compile(rf'\b(?:{_LAST}|{_YOUNG})\b')
# Adjectives of numbers, and the questions for these numbers.
_SIZE = {
    word: (how, f'How {asked} is {{x}}?')
    for words, how, asked in LISTS['sizes']
    for word in words.split()
}
_ADJECTIVE = '|'.join(_SIZE)
_MEASURE = (
    'population|area|height|length|width|depth|weight|capacity|speed|budget'
    '|running time|elevation|size|duration'
)
# Of which measures the values are that are asked for so, see `Comparison.units`.
_UNITS = {word: units for words, *units in LISTS['compared_measures'] for word in words.split()}
# The noun for the things that a question compares, as short as possible, and where its verb begins.
_NOUN_PHRASE = r'(?:(?:@\d|[a-z-]+) ){0,4}?[a-z-]+'
_VERB = rf'{IS}|has|have|had|contains?|{"|".join(BASES)}|[a-z]+ed(?!.* (?:{IS}|has|have|had)\b)'
_MANY = {'more': 'most', 'most': 'most', 'less': 'least', 'fewer': 'least', 'fewest': 'least'}


def parse(text: str, names: Sequence[Name]) -> Comparison | None:
    """What a question compares or wants confirmed; None if neither, or out of reach.

    Args:
        text: the question.
        names: those in it, see `names_of`.
    """
    for marked in readings(text, names):
        for read in (_read_choice, _read_which, _read_same, _read_order, read_both, read_fact):
            if found := read(marked):
                return found
    return None


def _read_choice(marked: Marked) -> Comparison | None:
    """Questions which of two is older, first, or the like.

    'which film is older, @0 or @1', 'did @0 or @1 die first', 'which film has the director who was
    born earlier, @0 or @1'.
    """
    pair = find_pair(marked.text)
    if not pair or not (text := _without_pair(pair)):
        return None
    role, noun, rest = pair.role, '', ''
    if aux := re.fullmatch(rf'({IS}|did|does|do|has|had|have) X (.*)', text):
        rest = aux[2] if aux[1] in ('did', 'does', 'do') else f'{aux[1]} {aux[2]}'
        asks_base = aux[1] in ('did', 'does', 'do')
    elif wh := re.fullmatch(r'(?:which|what|who|whose)\b ?(.*)', text):
        rest, asks_base = wh[1], False
        if of := re.fullmatch(
            rf'(?:({_NOUN_PHRASE}) )?(?:has|have|had|with) (?:the|an?) {ROLE} (?:who |that |which '
            r'|whose )?(.*)',
            rest,
        ):
            noun, role, rest = of[1] or '', of[2], of[3]
            if adjective := re.fullmatch(rf'({_OLD}|{_YOUNG}) ([a-z]+)', role):
                role, rest = adjective[2], f'is {adjective[1]}'
            elif taken := re.fullmatch(rf'([a-z]+) (born|died|{IS})', role):
                role, rest = taken[1], f'{taken[2]} {rest}'
        if of := re.fullmatch(
            rf'(?:({NOUNS}|[a-z]+) )?(?:has|have|had) (?:the|an?) ({_OLD}|{_YOUNG}) ([a-z]+)', wh[1]
        ):
            noun, role, rest = of[1] or '', of[3], f'is {of[2]}'
        elif of := re.fullmatch(
            rf"(?:({NOUNS})?(?:'s| whose) )?({_NOUN_PHRASE}) ((?:{_VERB})\b.*)", rest
        ):
            if text.startswith('whose') or of[1] or "'s " in rest or ' whose ' in rest:
                noun, role, rest = of[1] or '', of[2], of[3]
            else:
                noun, rest = of[2], of[3]
        elif of := re.fullmatch(rf'({NOUNS}) (.*)', rest):
            noun, rest = of[1], of[2]
    else:
        return None
    if role and re.fullmatch(rf'(?:.* )?(?:{_MEASURE}|{_ADJECTIVE}|more|most|less|fewer)', role):
        role, rest = '', f'has {role} {rest}'.strip()
    is_who, kind = text.startswith('who '), _kind(marked, pair.left, pair.right, role)
    if not (dimension := _dimension(' '.join(rest.split()), asks_base, noun, is_who, kind)):
        return None
    how, measure, asks = dimension
    return Comparison(marked.sides(pair, asks, role), how, measure, units=_units(asks))


def _without_pair(pair: Pair) -> str:
    """A question without the two that it chooses from, '' if it does not.

    Or, if it has no question word, with X for them: 'is X older'.
    """
    text = re.sub(r'(?: one)? of (?:the|these) two(?: [a-z]+)?\b', '', pair.text)
    if wh := re.fullmatch(
        rf'(?:between|of|out of)(?: the)?(?: two)?(?: {_NOUN_PHRASE})?? X[,:]? (.*)', text
    ):
        return wh[1]
    if wh := re.fullmatch(r'(.*?)[,:;]? ?X', text):
        return wh[1] if pair.word == 'or' else ''
    if wh := re.fullmatch(r'(which|who|what)(?: one)? of X (.*)', text):
        return f'{wh[1]} {wh[2]}'
    if wh := re.fullmatch(r'((?:which|who|what)(?: [a-z]+){0,2}), ?X, ?(.*)', text):
        return f'{wh[1]} {wh[2]}'
    is_aux = re.match(rf'(?:{IS}|did|does|do|has|had|have) X ', text)
    return text if pair.word == 'or' and is_aux else ''


def _read_which(marked: Marked) -> Comparison | None:
    """Questions of which of two a fact is true: 'which novel is by @2, @0 or @1'."""
    pair = find_pair(marked.text)
    of_both = r'(?:which|who|what)(?: one)?(?: of (?:them|these|those))?(?: [a-z]+){0,3}?'
    if not pair or pair.role:
        return None
    found = re.fullmatch(rf'{of_both} ({IS}) (.+)', _without_pair(pair))
    if not found:
        return None
    said = re.sub(r'^by (?=@)', 'written by ', found[2])
    fact = read_each(marked, pair, f'{found[1]} X {said}')
    return fact and fact._replace(how='which')


def _kind(marked: Marked, left: str, right: str, role: str = '') -> str:
    """The kind of what two names, or who has a role in them, are of."""
    if role:
        return 'person' if re.fullmatch(PERSON, role) else ''
    kinds = {marked.kind(left), marked.kind(right)} - {''}
    return kinds.pop() if len(kinds) == 1 else ''


def _dimension(
    rest: str, is_base: bool, noun: str, is_who: bool, kind: str
) -> tuple[str, str, tuple[str, ...]] | None:
    """What a comparison is of: which of two values is chosen, their measure, and what asks for one.

    Args:
        rest: the question without its names and question word: 'was born first', 'is older'.
        is_base: whether its verb is in the base form, 'die first'.
        noun: what the question calls the things, may be ''.
        is_who: whether it asks for persons.
        kind: of the things, may be ''.
    """
    if size := re.fullmatch(rf'{IS}(?: the| a)? ({_ADJECTIVE})(?: (?:{NOUNS}|one))?', rest):
        how, ask = _SIZE[size[1]]
        if size[1].startswith('short') and (kind == 'person' or is_who):
            ask = 'How tall is {x}?'
        return how, 'number', (ask,)
    if size := re.fullmatch(rf'(?:has|have|had)(?: the| a)? ({_ADJECTIVE}) ({_MEASURE})', rest):
        return _SIZE[size[1]][0], 'number', (f'What is the {size[2]} of {{x}}?',)
    if many := re.fullmatch(
        rf'(?:has|have|had)(?: the)? ({"|".join(_MANY)}) ((?:[a-z]+ ){{0,2}}[a-z]+)', rest
    ):
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
    if re.fullmatch(rf'(?:{IS})?(?: (?:{NOUNS}|person|one))?', said):
        asks = _began(f'{noun} {said}', kind, is_who) if is_age else ()
    else:
        asks = (ask,) if ask else ()
    return ('least' if earlier else 'most', 'date', asks) if asks else None


def _when(said: str, is_base: bool) -> str:
    """What asks for the date of what is said; '' if unknown.

    'was born', 'died', or, in the base form, 'die'.
    """
    if is_base and (active := re.fullmatch(r'(?!come out)((?:[a-z]+ ){0,3}[a-z]+)', said)):
        return f'When did {{x}} {active[1]}?'
    if re.fullmatch(
        r'(?:came|come) out|(?:was |were )?come out|(?:was|were|got|be) released', said
    ):
        return 'When was {x} released?'
    participle = r'[a-z]+(?:ed|en|born|wn|lt|de|ung|gun)'
    tail = r'((?: [a-z]+){0,3})'
    if passive := re.fullmatch(rf'(?:(?:{IS}|got|be) (?:be )?)?({participle}){tail}', said):
        if passive[1] == 'died':
            return f'When did {{x}} die{passive[2]}?'
        return f'When was {{x}} {passive[1]}{passive[2]}?'
    past = re.fullmatch(rf'([a-z]+){tail}', said)
    if past and past[1] in BASES:
        return f'When did {{x}} {BASES[past[1]]}{past[2]}?'
    return 'When was {x} born?' if said in ('was born', 'born', 'is born') else ''


def _began(said: str, kind: str, is_who: bool) -> tuple[str, ...]:
    """What asks since when something is there, by its noun, else by its kind."""
    if is_who or re.search(rf'\b(?:{PERSON})\b', said) or kind == 'person':
        return ('When was {x} born?',)
    if re.search(rf'\b(?:{WORK}|documentary|documentaries)\b', said) or kind == 'work':
        return ('When was {x} released?', 'When was {x} published?')
    if re.search(rf'\b(?:{GROUP}|magazines?|newspapers?)\b', said) or kind == 'organisation':
        return ('When was {x} founded?',)
    if re.search(r'\b(?:bridges?|buildings?|towers?|church|castle|ships?|stations?)\b', said):
        return ('When was {x} built?', 'When was {x} opened?')
    return ('When was {x} founded?', 'When was {x} released?', 'When was {x} built?')


def _read_same(marked: Marked) -> Comparison | None:
    """Questions whether two share something, such as a country.

    As 'are @0 and @1 from the same country' and 'do both @0 and @1 have directors of the same
    nationality'.
    """
    pair = find_pair(marked.text)
    if not pair or pair.word != 'and':
        return None
    found = re.fullmatch(
        rf'({IS}|do|does|did|have|has) X,? (.*?)(?:the |an? )?\b(same|different'
        r'|identical) ([a-z]+(?: [a-z]+)?)',
        pair.text,
    )
    if not found:
        return None
    aux, between, word, noun = found.groups()
    between = ' '.join(
        re.sub(
            r'\b(?:both|all|each|come|originate|also|share|located|situated|lie)\b', ' ', between
        ).split()
    )
    noun = {'nationalities': 'nationality', 'countries': 'country'}.get(noun, noun)
    role = pair.role
    if of := re.fullmatch(
        r'(?:have|has)(?: the)? ([a-z]+?)s?(?: (?:who|that|which)(?: are| were| come'
        r'| came)?)? ((?:[a-z]+ )?(?:from|of|in|with|on))',
        between,
    ):
        role, between = of[1], of[2]
    measure, asks = 'name', ()
    event = re.fullmatch(r'([a-z]+) (in|on|at)', between)
    if re.fullmatch('country|nationality', noun) and not event:
        if between not in ('', 'from', 'of', 'in', 'have', 'with', 'within', 'having'):
            return None
        is_there = between in ('in', 'within') or re.search('(?:locat|situat)ed in', found[2])
        measure, asks = 'country', LOCATED if is_there else COUNTRY
    elif by := re.fullmatch(r'([a-z]+) by', between):
        asks = (f'Who {PAST_OF_PARTICIPLE.get(by[1], by[1])} {{x}}?',)
    elif event:
        if noun in ('decade', 'century'):
            return None
        measures = {'year': 'year', 'day': 'date', 'date': 'date', 'country': 'country'}
        measure = measures.get(noun, 'name')
        when = 'When' if measure in ('date', 'year') else f'In which {noun}'
        asks = (f'{when} {"did" if aux == "did" else "was"} {{x}} {event[1]}?',)
    elif between in ('', 'have', 'has', 'of', 'with', 'having'):
        asks = (f'{"Who" if re.fullmatch(PERSON, noun) else "What"} is the {noun} of {{x}}?',)
    elif between == 'in':
        asks = (f'In which {noun} is {{x}}?',)
    elif between == 'from':
        asks = (f'Which {noun} is {{x}} from?',)
    if not asks:
        return None
    how = 'different' if word == 'different' else 'same'
    place = 'country' if measure == 'country' else noun if re.fullmatch(PLACE, noun) else ''
    return Comparison(marked.sides(pair, asks, role), how, measure, place=place)


def _read_order(marked: Marked) -> Comparison | None:
    """'was @0 born before @1', 'is @0 older than @1', 'did @0 open after 1990'."""
    found = re.fullmatch(
        rf'({IS}|did|does|has) @(\d) (.*?)\b(before|after|(?:{_OLD}|{_YOUNG}|{_FIRST}|{_LAST}'
        rf'|{_ADJECTIVE}) than) @(\d)(?: (?:{IS}|did|does|has|had)(?: [a-z]+)?)?',
        marked.text,
    )
    if not found:
        return None
    aux, left, said, word, right = found.groups()
    word = {'before': 'earlier', 'after': 'later'}.get(word, word.removesuffix(' than'))
    is_base = aux in ('did', 'does')
    rest = ' '.join(f'{"" if is_base else aux} {said} {word}'.split())
    if not (dimension := _dimension(rest, is_base, '', False, _kind(marked, left, right))):
        return None
    how, measure, asks = dimension
    how = {'least': 'less', 'most': 'more'}[how]
    sides: tuple[Side, ...] = (marked.side(left, *asks),)
    if marked.is_date(right):
        is_date = measure == 'date'
        return Comparison(sides, how, measure, asked=marked.said[int(right)]) if is_date else None
    sides = *sides, marked.side(right, *asks)
    return Comparison(sides, how, measure, units=_units(asks))


def _units(asks: Sequence[str]) -> tuple[str, ...]:
    """The measures that values of a question may have, () for any."""
    if asks[0].startswith('How many '):  # a word of what is counted is no measure
        return ()
    return next((tuple(_UNITS[word]) for word in asks[0].split() if word in _UNITS), ())
