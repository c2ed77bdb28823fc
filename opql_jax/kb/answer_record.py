"""The JSON form of an answer, the same from the command, the web page, HTTP, MCP and Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opql_jax.kb.citations import cite
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact

# Pieces of JSON Schema, in which this record and that of documents are described.
BOOLEAN, NUMBER = {'type': 'boolean'}, {'type': 'number'}
COUNT = {'type': 'integer', 'minimum': 0}
PROBABILITY = {'type': 'number', 'minimum': 0, 'maximum': 1}


def object_schema(
    properties: Mapping[str, str | tuple[Mapping[str, Any], str]],
    optional: Sequence[str] = (),
    description: str = '',
) -> dict[str, Any]:
    """The schema of an object with exactly these properties, of which some are optional.

    Each is described: strings by their description alone, others by schema and description.
    """
    described = {
        name: {'type': 'string', 'description': of}
        if isinstance(of, str)
        else {**of[0], 'description': of[1]}
        for name, of in properties.items()
    }
    schema = {
        'type': 'object',
        'properties': described,
        'required': [name for name in properties if name not in optional],
        'additionalProperties': False,
    }
    return schema | ({'description': description} if description else {})


def path_record(store: FactStore, facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """The records of facts, each with the sentence that states it; see `FACT`."""
    records = []
    for fact in facts:
        record = {name: getattr(fact, name) for name in ('topic', 'target', 'relation')}
        record |= {'inverse': True} if fact.inverse else {}
        record |= citation._asdict() if (citation := cite(store, fact)) else {}
        records.append({name: value for name, value in record.items() if value is not None})
    return records


FACT = object_schema(
    {
        'topic': 'the entity that it is about',
        'target': 'the entity that it leads to',
        'relation': 'the words that a query follows; absent if a question was asked',
        'inverse': (BOOLEAN, 'true where a query follows it from target to topic, else absent'),
        'sentence': 'what the text says',
        'title': 'of the document that says it',
        'document': 'its id',
        'start': (
            COUNT,
            'where the sentence begins, in code points of the text of the document as it was read, '
            'which `/api/document` gives, and `kb.prepared.document_text(id)` in Python; of a file '
            'it lacks the heading that is its title, and line breaks within paragraphs',
        ),
        'end': (COUNT, 'where it ends, in the same text'),
        'date': 'the day that the document states in its front matter or as a mail, in ISO form',
    },
    optional=('relation', 'inverse', 'sentence', 'title', 'document', 'start', 'end', 'date'),
    description='A fact, and the sentence that states it, verbatim.',
)
_ANSWER = object_schema(
    {
        'entity': 'its name',
        'key': 'what tells it from others of the same name; absent of words that are no entity',
        'kind': 'person, place, organisation, work or another',
        'weight': (NUMBER, 'its share of the weight; in a set, compared with the best'),
        'probability': (PROBABILITY, 'that it is right; absent in a set'),
        'path': (
            {'type': 'array', 'items': FACT},
            'the facts that lead to it, in order: the last one states the answer',
        ),
    },
    optional=('key', 'probability'),
)
# In the words of JSON Schema.
SCHEMA = object_schema(
    {
        'question': 'what was asked',
        'sure': (BOOLEAN, 'whether the first answer is probably right; absent in a set'),
        'by_sentences': (
            BOOLEAN,
            'true where no name led to an answer, and sentences like the question were read; else '
            'absent',
        ),
        'note': 'what to know about the answer, a line each: that it is unsure, that the question '
        'is of a kind that is out of reach, what else its names may mean, what was left out; '
        'absent if nothing',
        'answers': ({'type': 'array', 'items': _ANSWER}, 'the best, best first'),
    },
    optional=('sure', 'by_sentences', 'note'),
    description='The answer to a question, or the set that a query names.',
)
