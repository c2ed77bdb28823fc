"""A question for programs to ask: in the query language, in Python and over HTTP."""

import pathlib
import shlex
from typing import NamedTuple

from opql_jax.kb.answers import Answer
from opql_jax.kb.sets import query
from opql_jax.kb.sets.as_query import as_query
from opql_jax.kb.sets.entity_set import EntitySet
from opql_jax.kb.sets.set_evaluation import SetEvaluator
from opql_jax.kb.weighted_entities import WeightedEntities


class Snippet(NamedTuple):
    """A labelled text to copy."""

    label: str
    text: str


def snippets(
    members: WeightedEntities,
    sets: SetEvaluator,
    text: str,
    kb: pathlib.Path,
    address: str,
    needs_token: bool,
    local: bool,
) -> list[Snippet]:
    """The ways to ask something again.

    `members` were found for `text`, and `sets` evaluates queries over the folder `kb`. `address` is
    that of `/api/ask`, which may need a token. Unless only this machine reads the page (`local`),
    the folder's name alone is told.
    """
    if isinstance(members, EntitySet):
        found, same, code = 'found', members, query.to_python(members.query)
    else:
        assert isinstance(members, Answer)
        found, same, code = 'answer', as_query(members, sets), f'kb.ask({text!r})'
    there = f'{kb.name!r})  # on the server, in the folder that holds it'
    opened = f'{str(kb)!r})' if local else there
    python = f'import opql_jax\n\nkb = opql_jax.open({opened}\n{found} = {code}\n'
    python += f'print({found}.explain())'
    token = ' -H "Authorization: Bearer $OPQL_TOKEN"' if needs_token else ''
    curl = f'curl -G {shlex.quote(address)}{token} --data-urlencode {shlex.quote(f"q={text}")}'
    language = [] if same is None else [Snippet('Query', str(same))]
    return [*language, Snippet('Python', python), Snippet('HTTP', curl)]
