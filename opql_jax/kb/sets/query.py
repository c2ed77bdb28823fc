"""Queries as trees: what sets of entities are made of, and `query_language` reads.

    Ingrid Solberg . directed . starring - Anna Weiss

follows 'directed' from Ingrid Solberg, 'starring' from what that finds, and takes Anna Weiss away.
What the parts mean is told by `entity_set.EntitySet`, whose methods make the same trees. Operators
bind as they do in Python: `.` first, then `-`, `&` and `|`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Literal

from opql_jax.core.errors import InputError

# Operations inside of one another, so that no query is too deep for what goes through its tree.
MAX_DEPTH = 100
# A word of a name that needs no quotation marks: no operator, and no beginning of 'top 5' at
# the end.
WORD = r'(?![.&|-](?:\s|$))(?!\^)(?!top\s+\d+\s*(?:\)|$))[^\s"()\[\]]+'
_PLAIN = re.compile(rf'{WORD}(?: {WORD})*')


@dataclasses.dataclass(frozen=True)
class Query:
    """A query; its text is `str(query)`, which `parse` reads back."""

    depth: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self):
        depth = 1 + max((part.depth for part in self.parts), default=0)
        if depth > MAX_DEPTH:
            inside = f'more than {MAX_DEPTH} operations inside of one another'
            raise InputError(f'query: {inside}: ask it in parts')
        object.__setattr__(self, 'depth', depth)

    @property
    def parts(self) -> tuple[Query, ...]:
        """The queries that this one is made of."""
        values = (getattr(self, field.name, None) for field in dataclasses.fields(self))
        return tuple(value for value in values if isinstance(value, Query))

    def names(self) -> Iterator[tuple[str, str, int | None]]:
        """What it names: 'entity' or 'kind', the name, and its column in a parsed text."""
        for part in self.parts:
            yield from part.names()

    def __str__(self) -> str:
        return _print(self, _TOP)


@dataclasses.dataclass(frozen=True)
class Entity(Query):
    """The set of one entity, by its name or key."""

    name: str
    column: int | None = dataclasses.field(default=None, repr=False, compare=False)

    def names(self) -> Iterator[tuple[str, str, int | None]]:
        yield 'entity', self.name, self.column


@dataclasses.dataclass(frozen=True)
class Follow(Query):
    """The targets of a relation from topics; if inverse, the topics of a relation to targets."""

    start: Query
    relation: str
    inverse: bool = False


@dataclasses.dataclass(frozen=True)
class Where(Query):
    """The members of a kind (`field` 'kind'), or the one that is an entity ('entity')."""

    members: Query
    field: str
    value: str
    column: int | None = dataclasses.field(default=None, repr=False, compare=False)

    def names(self) -> Iterator[tuple[str, str, int | None]]:
        yield from self.members.names()
        yield self.field, self.value, self.column


@dataclasses.dataclass(frozen=True)
class Combined(Query):
    """Two sets: what both have (&), either has (|), or only the left has (-)."""

    operator: Literal['&', '|', '-']
    left: Query
    right: Query


@dataclasses.dataclass(frozen=True)
class Top(Query):
    """The k best members."""

    members: Query
    k: int


# How tightly the parts of a query bind.
_TOP, _COMBINED, _PATH = 0, {'|': 1, '&': 2, '-': 3}, 4


def _print(query: Query, tightness: int) -> str:
    """The text of a query, in parentheses if it binds less tightly than its place demands."""
    if isinstance(query, Top):
        text, own = f'{_print(query.members, _TOP + 1)} top {query.k}', _TOP
    elif isinstance(query, Combined):
        own = _COMBINED[query.operator]
        text = f'{_print(query.left, own)} {query.operator} {_print(query.right, own + 1)}'
    elif isinstance(query, Follow):
        own = _PATH
        text = f'{_print(query.start, own)} . {"^" * query.inverse}{quoted(query.relation)}'
    elif isinstance(query, Where):
        text, own = f'{_print(query.members, _PATH)} [{query.field}={quoted(query.value)}]', _PATH
    else:
        assert isinstance(query, Entity)
        return quoted(query.name)
    return text if own >= tightness else f'({text})'


def quoted(name: str) -> str:
    """A name as a query has it: in quotation marks if it would be read as something else."""
    if _PLAIN.fullmatch(name):
        return name
    return '"' + name.replace('\\', '\\\\').replace('"', '\\"') + '"'
