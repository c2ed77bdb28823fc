r"""The query language: text to `query.Query`, of which `str` makes text again.

    Ingrid Solberg . directed . starring & Anna Weiss . was married to

Names and relations are words; one with a bracket, a quotation mark or an operator in it stands in
"quotation marks", in which \ escapes these and itself. An operator has spaces around it: 'AT&T' and
'Jean-Luc' are names.
"""

from __future__ import annotations

import functools
import re
from typing import NoReturn

from opql_jax.core.errors import InputError
from opql_jax.kb.sets import query as tree

MAX_LENGTH = 10_000

GRAMMAR = rf"""
?query: union
      | union _TOP COUNT                   -> top
?union: intersection
      | union "|" intersection             -> either
?intersection: difference
      | intersection "&" difference        -> both
?difference: path
      | difference "-" path                -> without
?path: "(" query ")"
      | entity
      | path "." relation                  -> follow
      | path "." "^" relation              -> follow_back
      | path "[" FIELD "=" value "]"       -> where
entity: WORDS | STRING
relation: WORDS | STRING
value: WORDS | STRING

WORDS: /{tree.WORD.replace('/', chr(92) + '/')}(?:\s+{tree.WORD.replace('/', chr(92) + '/')})*/
STRING: /"(?:[^"\\]|\\.)+"/s
FIELD: "kind" | "entity"
_TOP: /top(?=\s+\d+\s*(?:\)|$))/
COUNT: /[1-9]\d{{0,8}}(?!\d)/
%ignore /\s+/
"""

# What is expected, by a terminal that tells what place in a query this is; the first counts.
_EXPECTED = {
    'CIRCUMFLEX': 'a relation',
    'WORDS': 'a name',
    'FIELD': 'kind or entity',
    'EQUAL': '=',
    'RSQB': ']',
    'COUNT': 'a number from 1 to 999999999',
    'DOT': 'an operator',
    'RPAR': ')',
}
_QUERY = re.compile(r'\s\.\s+\S')
# A quotation mark and what follows up to the next one, which is missing at the end of a text;
# matches at every quotation mark, so that no text is searched twice.
_STRING = re.compile(r'"(?:[^"\\]|\\.?)*("?)', re.S)
# Characters of a query that a message shows around a column.
_SHOWN = 60


def is_query(text: str) -> bool:
    """Whether a text is a query: it goes on after a full stop between spaces, outside of quotes."""
    if len(text) > MAX_LENGTH:
        return False
    unquoted = _STRING.sub(lambda string: '""' if string[1] else string[0], text)
    return _QUERY.search(unquoted) is not None


def parse(text: str) -> tree.Query:
    """Reads a query; InputError says what was expected at which column, from 1."""
    parser = _parser()  # or says that there is none
    import lark

    if len(text) > MAX_LENGTH:
        too_long = f'{len(text)} characters, at most {MAX_LENGTH} are read'
        raise InputError(f'query: {too_long}: ask it in parts')
    try:
        return parser.parse(text)
    except lark.exceptions.UnexpectedToken as error:
        at = len(text) if error.token.type == '$END' else error.token.start_pos
        _refuse(text, at, error.expected)
    except lark.exceptions.UnexpectedCharacters as error:
        _refuse(text, error.pos_in_stream or 0, error.allowed)


def _refuse(text: str, at: int, expected: set[str]) -> NoReturn:
    wanted = [words for terminal, words in _EXPECTED.items() if terminal in expected]
    found = f'found {text[at]!r}' if at < len(text) else 'the query ends'
    first = max(0, at - _SHOWN)
    line = re.sub(r'\s', ' ', text[first : at + _SHOWN])
    said = f'expected {[*wanted, "the end of the query"][0]}, {found}'
    raise InputError(f'query, column {at + 1}: {said}\n  {line}\n  {" " * (at - first)}^')


@functools.cache
def _parser():
    try:
        import lark  # an extra
    except ImportError as error:
        raise InputError('the query language needs lark: `pip install opql_jax[app]`') from error

    @lark.v_args(inline=True)
    class Builder(lark.Transformer):
        """Makes queries as they are parsed, so that no nesting is too deep for it."""

        entity = lambda self, name: tree.Entity(*_name(name))
        relation = lambda self, name: _name(name)[0]
        value = lambda self, name: _name(name)
        follow = lambda self, *of: tree.Follow(*of)
        follow_back = lambda self, start, relation: tree.Follow(start, relation, inverse=True)
        where = lambda self, members, field, value: tree.Where(members, str(field), *value)
        both = lambda self, *sides: tree.Combined('&', *sides)
        either = lambda self, *sides: tree.Combined('|', *sides)
        without = lambda self, *sides: tree.Combined('-', *sides)
        top = lambda self, members, k: tree.Top(members, int(k))

    return lark.Lark(GRAMMAR, start='query', parser='lalr', transformer=Builder())


def _name(token) -> tuple[str, int]:
    """What a token names, and its column."""
    if token.type == 'WORDS':
        return ' '.join(token.split()), token.start_pos + 1
    return re.sub(r'\\(.)', r'\1', token[1:-1], flags=re.S), token.start_pos + 1
