"""Values of dates, numbers and countries in words, for comparing them."""

import re

from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.text.word_lists import LISTS

MONTHS = LISTS['months'].split()
_MONTH = '|'.join(f'{month[:3]}(?:{month[3:]})?' if month[3:] else month for month in MONTHS)
_DAY_MONTH_YEAR = re.compile(
    rf'(?:(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? )?({_MONTH})\.?,? (\d{{3,4}})\b', re.IGNORECASE
)
_MONTH_DAY_YEAR = re.compile(
    rf'({_MONTH})\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{3,4}})\b', re.IGNORECASE
)
_ISO = re.compile(r'\b(\d{4})-(\d{2})(?:-(\d{2}))?\b')
_CENTURY = re.compile(r'\b(\d{1,2})(?:st|nd|rd|th)[ -]centur(?:y|ies)\b( b\.?c\.?)?', re.IGNORECASE)
_DECADE = re.compile(r"\b(\d{3}0)'?s\b")
_YEAR = re.compile(r'(?<![\d.,])(\d{1,4})(?![\d,]|\.\d)( ?b\.?c\.?(?:e\.?)?)?(?!\w)', re.IGNORECASE)
# A date in a question.
DATE = re.compile(
    rf'{_DAY_MONTH_YEAR.pattern}|{_MONTH_DAY_YEAR.pattern}|{_ISO.pattern}'
    rf'|(?<![\d.,-])[12]\d{{3}}(?![\d,-]|\.\d)',
    re.IGNORECASE,
)


def date(text: str) -> tuple[float, float] | None:
    """The years `[start, end)` that a date in words covers; None if it names no year.

    Of '1994' [1994, 1995), of '9 June 2011' a day.
    """
    before_christ = bool(re.search(r'\bb\.?c\.?(?:e\b|\b)', text, re.IGNORECASE))
    if found := _ISO.search(text):
        return _span(int(found[1]), int(found[2]), int(found[3] or 0))
    if found := _MONTH_DAY_YEAR.search(text):
        return _span(int(found[3]), _number_of(found[1]), int(found[2]), before_christ)
    if found := _DAY_MONTH_YEAR.search(text):
        return _span(int(found[3]), _number_of(found[2]), int(found[1] or 0), before_christ)
    if found := _CENTURY.search(text):
        number = int(found[1])
        if before_christ:
            return -100.0 * number, -100.0 * (number - 1)
        return 100.0 * (number - 1) + 1, 100.0 * number + 1
    if found := _DECADE.search(text):
        return float(found[1]), float(found[1]) + 10
    for found in _YEAR.finditer(text):
        if len(found[1]) == 4 or found[2] or found[0] == text.strip():
            year = -int(found[1]) if found[2] or before_christ else int(found[1])
            return float(year), float(year) + 1
    return None


def _number_of(month: str) -> int:
    return next(number for number, name in enumerate(MONTHS, 1) if name[:3] == month[:3].title())


def _span(year: int, month: int, day: int, before_christ: bool = False) -> tuple[float, float]:
    year = -year if before_christ else year
    if not 1 <= month <= 12:
        return float(year), float(year) + 1
    start = year + (month - 1) / 12
    if not 1 <= day <= 31:
        return start, start + 1 / 12
    return start + (day - 1) / 372, start + day / 372


def lies_in(text: str, other: str) -> bool:
    """Whether a date is in one that another names: '9 June 2011' is in '2011', not the reverse."""
    one, whole = date(text), date(other)
    if one is None or whole is None:
        return False
    return one[0] >= whole[0] - 1e-6 and one[1] <= whole[1] + 1e-6


_WORDS = {word: number for number, word in enumerate(LISTS['numbers'].split())}
_WORDS |= {word: 10 * number for number, word in enumerate(LISTS['tens'].split(), 2)}
_SCALES: dict[str, float] = LISTS['scales']
# Units, what each measures, and how many basic units it is.
_UNITS: dict[str, tuple[str, float]] = {
    unit: (dimension, float(size))
    for dimension, sizes in LISTS['units'].items()
    for *names, size in map(str.split, sizes.split(';'))
    for unit in names
}
# The unit of a number that stands before; 'in' is none, as it mostly begins a place.
_UNIT = re.compile(r'[\s-]?((?:sq(?:uare)?\s)?(?!in\b)[^\W\d_][\w²/]*)', re.IGNORECASE)
_DIGITS = re.compile(r'(?<![\w.])[-−]?(\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)')


def number(text: str) -> tuple[float, str] | None:
    """The number that words name, in its basic unit, and its measure, '' of a count; else None."""
    plain = text.lower().replace('-', ' ').replace('\u2009', ' ').replace('\xa0', ' ')
    if found := _DIGITS.search(plain):
        value, rest = float(re.sub(r'[ ,]', '', found[1])), plain[found.end() :]
    else:
        words = re.findall(r'[a-z]+', plain)
        named = [place for place, word in enumerate(words) if word in _WORDS]
        if not named:
            return None
        value, place = 0.0, named[0]
        while place < len(words) and words[place] in _WORDS:
            value += _WORDS[words[place]]
            place += 1
        rest = ' '.join(words[place:])
    after = re.findall(r'[^\W\d_][\w²/]*', rest)
    may_be_metres = 'million' not in text and '$' not in text
    while after and after[0] in _SCALES and not (after == ['m'] and may_be_metres):
        value *= _SCALES[after.pop(0)]
    if after and after[0] in ('sq', 'square') and after[1:]:
        _, size = _UNITS.get(after[1], _UNITS.get(after[1].removesuffix('s'), ('', 1.0)))
        return value * size**2, 'area'
    unit = after[0] if after else ''
    dimension, size = _UNITS.get(unit) or _UNITS.get(unit.removesuffix('s')) or ('', 1.0)
    return value * size, dimension


def with_unit(name: str, after: str) -> str:
    """A number, with the unit that begins the text after it if it has none itself."""
    found, unit = number(name), _UNIT.match(after)
    if not found or found[1] or not unit or not (number(f'1 {unit[1]}') or found)[1]:
        return name
    return f'{name} {unit[1]}'


def compare(measure: str, left: str, right: str) -> int | None:
    """-1 if a value is less than another, 1 if more, 0 if both overlap; None if not comparable."""
    if measure == 'number':
        one, other = number(left), number(right)
        if one is None or other is None or one[1] != other[1]:
            return None
        return (one[0] > other[0]) - (one[0] < other[0])
    first, second = date(left), date(right)
    if first is None or second is None:
        return None
    return (first[0] >= second[1] - 1e-6) - (second[0] >= first[1] - 1e-6)


# Countries, and what is of them.
_COUNTRIES = {
    name: names[0]
    for names in (' '.join(each.split()).split(', ') for each in LISTS['countries'].split(';'))
    for name in names
}


def country(name: str) -> str | None:
    """The country that a name or an adjective means, in small letters; None if unknown."""
    return _COUNTRIES.get(fold(name).replace("'", ' '))


def same_name(left: str, right: str) -> bool:
    """Whether two spellings are of one name: alike, or one the end of the other (a surname)."""
    one, other = fold(left).split(), fold(right).split()
    if len(one) > len(other):
        one, other = other, one
    return bool(one) and (one == other[-len(one) :] or one == other)
