"""The JSON form of an answer, the same from the command, the web page, HTTP, MCP and Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opql_jax.kb.citations import cite
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact

# Pieces of JSON Schema, in which this record and that of documents are described.
COUNT = {'type': 'integer', 'minimum': 0}
PROBABILITY = {'type': 'number', 'minimum': 0, 'maximum': 1}


def object_schema(
    properties: Mapping[str, Any], optional: Sequence[str] = (), description: str = ''
) -> dict[str, Any]:
    """The schema of an object with exactly these properties, of which some are optional."""
    schema = {
        'type': 'object',
        'properties': dict(properties),
        'required': [name for name in properties if name not in optional],
        'additionalProperties': False,
    }
    return schema | ({'description': description} if description else {})


def path_record(store: FactStore, facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """The records of facts, each with the sentence that states it; see `FACT`."""
    return [_fact_record(store, fact) for fact in facts]


def _fact_record(store: FactStore, fact: Fact) -> dict[str, Any]:
    record: dict[str, Any] = {'topic': fact.topic, 'target': fact.target}
    if fact.relation is not None:
        record['relation'] = fact.relation
    if fact.inverse:
        record['inverse'] = True
    citation = cite(store, fact)
    stated = citation._asdict() if citation else {}
    return record | {name: value for name, value in stated.items() if value is not None}


FACT = object_schema(
    {
        'topic': {'type': 'string', 'description': 'the entity that it is about'},
        'target': {'type': 'string', 'description': 'the entity that it leads to'},
        'relation': {
            'type': 'string',
            'description': 'the words that a query follows; absent if a question was asked',
        },
        'inverse': {
            'type': 'boolean',
            'description': 'true where a query follows it from target to topic, else absent',
        },
        'sentence': {'type': 'string', 'description': 'what the text says'},
        'title': {'type': 'string', 'description': 'of the document that says it'},
        'document': {'type': 'string', 'description': 'its id'},
        'start': COUNT
        | {'description': 'where the sentence begins in the text of the document, in code points'},
        'end': COUNT | {'description': 'where it ends'},
    },
    optional=('relation', 'inverse', 'sentence', 'title', 'document', 'start', 'end'),
    description='A fact, and the sentence that states it, verbatim.',
)
_ANSWER = object_schema(
    {
        'entity': {'type': 'string', 'description': 'its name'},
        'key': {
            'type': 'string',
            'description': (
                'what tells it from others of the same name; absent of words that are no entity'
            ),
        },
        'kind': {'type': 'string', 'description': 'person, place, organisation, work or another'},
        'weight': {
            'type': 'number',
            'description': 'its share of the weight; in a set, compared with the best',
        },
        'probability': PROBABILITY | {'description': 'that it is right; absent in a set'},
        'path': {
            'type': 'array',
            'items': FACT,
            'description': 'the facts that lead to it, in order: the last one states the answer',
        },
    },
    optional=('key', 'probability'),
)
# In the words of JSON Schema.
SCHEMA = object_schema(
    {
        'question': {'type': 'string', 'description': 'what was asked'},
        'sure': {
            'type': 'boolean',
            'description': 'whether the first answer is probably right; absent in a set',
        },
        'by_sentences': {
            'type': 'boolean',
            'description': (
                'true where no name led to an answer, and sentences like the '
                'question were read; else absent'
            ),
        },
        'note': {
            'type': 'string',
            'description': 'what to know about the answer, a line each: that it is unsure, that '
            'the question is of a kind that is out of reach, what else its names '
            'may mean, what was left out; absent if nothing',
        },
        'answers': {'type': 'array', 'items': _ANSWER, 'description': 'the best, best first'},
    },
    optional=('sure', 'by_sentences', 'note'),
    description='The answer to a question, or the set that a query names.',
)
