"""Plain questions for the facts that others want confirmed: 'Was Up directed by Solberg?'."""

import dataclasses
import re

from opql_jax.corpus.definitions import PERSON, WORK
from opql_jax.kb.text.marked_questions import (
    COUNTRY,
    IS,
    LOCATED,
    ROLE,
    THING,
    Comparison,
    Marked,
    Pair,
    find_pair,
)
from opql_jax.kb.text.values import country
from opql_jax.kb.text.word_lists import LISTS, PAST_OF_PARTICIPLE, VERBS, stems

# What is mostly done to a thing once, by one.
ONCE = frozenset(LISTS['done_once'].split())
_SINGULAR = {'are': 'is', 'were': 'was', 'do': 'does'}
# Kinds of what has no profession.
_THINGS = ('place', 'work', 'organisation')
_NAMES_OF_MANY = re.compile(
    r'(?:.+s|child|son|daughter|brother|sister|sibling|members?|student|friend|part|actor|star'
    r'|producer|writer|employee|player)$'
)


def read_both(marked: Marked) -> Comparison | None:
    """'were @0 and @1 directed by @2': the question about each of them."""
    pair = find_pair(marked.text)
    if not pair or pair.word != 'and' or pair.role:
        return None
    text = re.sub(r'\b(?:both|all|each) ', '', pair.text)
    if not re.match(r'(?:are|were|did|do|have) X ', text):
        return None
    aux, _, rest = text.partition(' ')
    text = f'{_SINGULAR.get(aux, aux)} {rest}'
    singular = re.sub(
        rf'(?<=X )((?:[a-z]+ )*?)((?:{PERSON}|{WORK}|[a-z]+)s)$',
        lambda m: f'a {m[1]}{m[2][:-1]}',
        text,
    )
    return read_each(marked, pair, singular)


def read_each(marked: Marked, pair: Pair, text: str) -> Comparison | None:
    """The fact that a text wants confirmed of X, for each of a pair in its place."""
    each = [
        read_fact(dataclasses.replace(marked, text=text.replace('X', f'@{mark}')))
        for mark in (pair.left, pair.right)
    ]
    left, right = each
    if not left or not right or left.asked != right.asked:
        return None
    return left._replace(sides=(*left.sides, *right.sides))


def read_fact(marked: Marked) -> Comparison | None:
    """Questions that want one fact confirmed: 'was @0 directed by @1', 'is @0 french'."""
    if re.search(r'\b(?:same|different|or|not|never|how|why)\b', marked.text):
        return None
    if found := _read_plain_fact(marked):
        return found
    role = f'(?P<role>{ROLE})'
    for pattern in (rf'\b(?:the )?{role} of @(?P<mark>\d)', rf"@(?P<mark>\d)'s? {role}"):
        if of := re.search(pattern, marked.text):
            number, said = int(of['mark']), list(marked.said)
            said[number] = f'the {of["role"]} of {said[number]}'
            text = f'{marked.text[: of.start()]}@{number}{marked.text[of.end() :]}'
            if found := _read_plain_fact(dataclasses.replace(marked, text=text, said=tuple(said))):
                return found
    return None


def _read_plain_fact(marked: Marked) -> Comparison | None:
    text, verb = marked.text, r'([a-z]+)'
    word = r'(?!(?:of|in|at|for|with|from|by|to)\b)[a-z-]+'
    is_now = bool(re.match(r'(?:is|are|does|do)\b', text))

    def fact(subject: str, asked: str, once: bool, *asks: str, measure='name', place=''):
        value = marked.said[int(asked[1:])] if asked.startswith('@') else asked
        value, sides = re.sub(r'^[Tt]he ', '', value), (marked.side(subject, *asks),)
        return Comparison(sides, 'is', measure, (), value, once, place=place, now=is_now)

    if found := re.fullmatch(rf'{IS} @(\d) (?:[a-z]+ly )?{verb} by @(\d)', text):
        past = PAST_OF_PARTICIPLE.get(found[2], found[2])
        return fact(found[1], f'@{found[3]}', past in ONCE, f'Who {past} {{x}}?')
    if found := re.fullmatch(rf'(did|does) @(\d) {verb} @(\d)', text):
        base, who, whom = found[3], found[2], found[4]
        if base in ('marry', 'wed'):
            return fact(who, f'@{whom}', True, 'Who did {x} marry?')
        if base in ('star', 'feature'):
            return fact(who, f'@{whom}', False, 'Who stars in {x}?')
        wh = 'What' if marked.kind(who) in ('place', 'work') else 'Who'
        return fact(whom, f'@{who}', base in ONCE, f'{wh} {past_of(base)} {{x}}?')
    if found := re.fullmatch(rf'(did|does) @(\d) {verb} the ([a-z-]+)', text):
        return fact(found[2], found[4], False, f'What {found[1]} {{x}} {found[3]}?')
    for pattern in (
        rf'{IS} @(?P<b>\d) (?P<the>the|an?) (?P<n>(?:[a-z-]+ )?[a-z]+) of @(?P<a>\d)',
        rf'{IS} (?P<the>the) (?P<n>(?:[a-z-]+ )?[a-z]+) of @(?P<a>\d) @(?P<b>\d)',
        rf"{IS} @(?P<a>\d)'s? (?P<n>(?:[a-z-]+ )?[a-z]+) @(?P<b>\d)",
        rf"{IS} @(?P<b>\d) @(?P<a>\d)'s? (?P<n>(?:[a-z-]+ )?[a-z]+)",
    ):
        if found := re.fullmatch(pattern, text):
            noun, is_the = found['n'], found.groupdict().get('the', 'the') == 'the'
            is_person = re.fullmatch(rf'(?:[a-z-]+ )?(?:{PERSON}|[a-z]+(?:er|or|ist))', noun)
            ask = f'{"Who" if is_person else "What"} is the {noun} of {{x}}?'
            is_one = is_the and not _NAMES_OF_MANY.match(noun)
            return fact(found['a'], f'@{found["b"]}', is_one, ask)
    done_to = rf'(?: {verb}(?: [a-z]+)??)? (in|on|at|near|from|to|for|with) @(\d)'
    if found := re.fullmatch(rf'({IS}|did|does) @(\d){done_to}', text):
        aux, subject, done, prep, value = found.groups()
        aux = _SINGULAR.get(aux, aux)
        once = done in ONCE
        asked = f'@{value}'
        if marked.is_date(value):
            when = f'When {aux} {{x}} {done}?'
            is_when = done and prep in ('in', 'on')
            return fact(subject, asked, once, when, measure='date') if is_when else None
        if prep == 'from' and not done:
            return fact(subject, asked, True, 'Where is {x} from?', *COUNTRY, place='place')
        if prep in ('in', 'on', 'at', 'near'):
            in_country = LOCATED if country(marked.said[int(value)]) else ()
            if not done:
                if {marked.kind(value), marked.kind(subject)} & {'work', 'person'}:
                    return None  # who is in a film
                asks: tuple[str, ...] = ('Where is {x} located?', *in_country)
            elif done in ('located', 'situated', 'lie', 'stand'):
                asks, once = (f'Where {aux} {{x}} {done}?', *in_country), True
            else:
                asks = (f'Where {aux} {{x}} {done}?',)
            place = '' if prep == 'near' else 'place'
            return fact(subject, asked, once or not done, *asks, place=place)
        if done:
            return fact(subject, asked, done == 'married', f'Who {aux} {{x}} {done} {prep}?')
        return None
    if found := re.fullmatch(rf'{IS} @(\d) (?:an? )?@(\d)( [a-z]+)?', text):
        if not country(marked.said[int(found[2])]):
            return None
        asked = fact(found[1], f'@{found[2]}', True, *COUNTRY, measure='country')
        return asked._replace(described=stems(found[3] or ''))
    if found := re.fullmatch(rf'{IS} @(\d) (an? )?((?:{word} ){{0,2}}{word})', text):
        described, _, noun = found[3].rpartition(' ')
        if country(found[3]):
            return fact(found[1], found[3], True, *COUNTRY, measure='country')
        if found[2]:
            is_thing = re.fullmatch(THING, noun) or marked.kind(found[1]) in _THINGS
            ask = 'What type of thing is {x}?' if is_thing else 'What is the profession of {x}?'
            return fact(found[1], noun, False, ask)._replace(described=stems(described))
    return None


def past_of(base: str) -> str:
    """The past tense of a verb."""
    if base in VERBS:
        return 'founded' if base == 'found' else VERBS[base][0]
    if base.endswith('e'):
        return f'{base}d'
    return f'{base[:-1]}ied' if re.search(r'[^aeiou]y$', base) else f'{base}ed'
