"""The text that MediaWiki templates show in a sentence: dates, measures, and marked text.

Names and parameters are those of the English Wikipedia. All other templates, such as boxes, notes
and navigation, show nothing. `templates.toml` lists them.
"""

import re
from collections.abc import Mapping, Sequence

from opql_jax.core.checkout import load_toml

_TABLES = load_toml('datasets/wikipedia/templates.toml')
# The number, from 1, of the parameter that a template shows.
SHOWN_PARAMETER = dict.fromkeys(_TABLES['first'], 1) | dict.fromkeys(_TABLES['second'], 2)
LISTS, _CONVERT, _SHIPS, _OTHER = (
    frozenset(_TABLES[name]) for name in ('lists', 'convert', 'ships', 'other')
)
_MARKS, _CURRENCIES, _UNITS = (_TABLES[name] for name in ('marks', 'currencies', 'units'))
_DATES = re.compile(
    r'(?:start|end|birth|death|film|release|launch|established|opening)[ -]?date(?: and age'
    r'| and given age)?|date|dts|dob|bda|dda|sda'
    r'|start and end dates|birth-date|death-date|birth year and age|death year and age'
    r'|birth based on age|year and age'
)
_MONTHS = (
    'January February March April May June July August September October November December'.split()
)
_JOINS = {'-': '–', '–': '–', 'x': ' × ', '×': ' × '} | {
    word: f' {word} ' for word in ('to', 'and', 'or', 'by', 'to about')
}
_NUMBER = re.compile(r'[-−+]?\d[\d.,/ ]*')


def makes_text(name: str) -> bool:
    """Whether `shown` knows a template."""
    is_listed = any(name in known for known in (_MARKS, _CONVERT, _CURRENCIES, _SHIPS, _OTHER))
    return is_listed or name.startswith('formatnum:') or _DATES.fullmatch(name) is not None


def shown(name: str, parameters: Sequence[str], named: Mapping[str, str]) -> str | None:
    """The plain text that a template shows, by its lower-case name; None if it is unknown."""
    first = parameters[0] if parameters else ''
    if name in _MARKS:
        return _MARKS[name]
    if name in _CONVERT:
        return _measure(parameters, named)
    if _DATES.fullmatch(name):
        return _written_date(parameters, named.get('mf', '').lower() in ('y', 'yes')) or None
    if name == 'circa':
        return f'c. {"–".join(filter(None, parameters[:2]))}' if first else 'c.'
    if name in ('as of', 'asof'):
        return f'As of {_written_date(parameters)}' if first else None
    if name in ('val', 'formatnum'):
        return ' '.join(filter(None, (first, named.get('u') or named.get('ul') or '')))
    if name.startswith('formatnum:'):
        return name.removeprefix('formatnum:').strip()
    if name in _CURRENCIES and first:
        return _CURRENCIES[name] + first
    if name in _SHIPS and first:
        return f'{name.upper()} {first}'
    if name == 'ship' and len(parameters) > 1:
        return ' '.join(filter(None, parameters[:2]))
    if name in ('frac', 'fraction', 'sfrac') and first:
        return {1: f'1/{first}', 2: '/'.join(parameters)}.get(
            len(parameters), f'{first} {"/".join(parameters[1:3])}'
        )
    if name in ('born in', 'reign') and first:
        return '–'.join(filter(None, parameters[:2]))
    return None


def _measure(parameters: Sequence[str], named: Mapping[str, str]) -> str | None:
    """'93 metres' of {{convert|93|m|ft}}, '5 to 10 kilometres' of {{convert|5|to|10|km|mi}}."""
    said, at = '', 0
    while at < len(parameters) and _NUMBER.fullmatch(parameters[at]):
        said += parameters[at]
        join, after = (*parameters[at + 1 : at + 3], '', '')[:2]
        if join not in _JOINS or not _NUMBER.fullmatch(after):
            at += 1
            break
        said += _JOINS[join]
        at += 2
    if not said:
        return None
    unit = parameters[at] if at < len(parameters) else ''
    if named.get('abbr') not in ('on', 'in', 'unit'):
        unit = _UNITS.get(unit, unit)
        if said == '1' and len(unit) > 3:
            unit = {'feet': 'foot', 'inches': 'inch'}.get(unit, unit.removesuffix('s'))
    return f'{said} {unit}'.strip()


def _written_date(parameters: Sequence[str], month_first: bool = False) -> str:
    """'2 July 1903' of year, month and day; what is no number, as '2 July 1903' itself, stays."""
    year, month, day = (*(parameter.strip() for parameter in parameters[:3]), '', '', '')[:3]
    if not year.isdigit():
        return year
    if month.isdigit() and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    elif month.capitalize()[:3] not in [name[:3] for name in _MONTHS]:
        return year
    if not (day.isdigit() and 1 <= int(day) <= 31):
        return f'{month} {year}'
    return f'{month} {int(day)}, {year}' if month_first else f'{int(day)} {month} {year}'
