"""What `/api/…` takes and gives, as OpenAPI: `/openapi.json`, and `/docs` for people."""

import importlib.metadata
from typing import Any

from opql_jax.kb.answer_record import SCHEMA as ANSWER_SCHEMA
from opql_jax.kb.answer_record import object_schema
from opql_jax.kb.text.retrieve import SCHEMA as DOCUMENTS_SCHEMA


def _parameter(name: str, kind: str, description: str, **limits) -> dict:
    described = {'description': description, 'schema': {'type': kind, **limits}}
    return {'name': name, 'in': 'query', 'required': 'default' not in limits, **described}


def _operation(summary: str, parameters: list[dict], answer: dict) -> dict:
    json = lambda schema: {'application/json': {'schema': schema}}
    error = {'type': 'object', 'properties': {'error': {'type': 'string'}}, 'required': ['error']}
    return {
        'get': {
            'summary': summary,
            'parameters': parameters,
            'responses': {
                '200': {'description': 'what was found', 'content': json(answer)},
                '400': {'description': 'what is wrong with the request', 'content': json(error)},
                '404': {'description': 'which id there is none of', 'content': json(error)},
                '503': {'description': 'why nothing can be answered now', 'content': json(error)},
            },
        }
    }


_ASKED = 'a question in plain English, of one or several hops'
_QUESTION = _parameter('q', 'string', _ASKED, minLength=1, maxLength=2_000)
_FIELDS = {
    'status': {'const': 'ok'},
    'version': {'type': 'string'},
    'passages': {'type': 'integer'},
}
_DOCUMENT = object_schema({'document': 'its id', 'text': 'in which `start` and `end` count'})
_HEALTH = {'type': 'object', 'properties': _FIELDS, 'required': list(_FIELDS)}

OPENAPI: dict[str, Any] = {
    'openapi': '3.1.0',
    'info': {
        'title': 'A knowledge base of plain text',
        'version': importlib.metadata.version('opql-jax'),
    },
    'paths': {
        '/api/ask': _operation(
            'Answers a question, or a query of the query language, with the '
            'facts that each answer rests on.',
            [_QUESTION, _parameter('top', 'integer', 'answers', minimum=1, maximum=100, default=5)],
            ANSWER_SCHEMA,
        ),
        '/api/retrieve': _operation(
            'Finds the documents that together answer a question.',
            [
                _QUESTION,
                _parameter('k', 'integer', 'documents', minimum=1, maximum=100, default=5),
                _parameter(
                    'read', 'integer', '1: the reader judges', minimum=0, maximum=1, default=1
                ),
            ],
            DOCUMENTS_SCHEMA,
        ),
        '/api/document': _operation(
            'Gives the text of a document as it was read.',
            [_parameter('id', 'string', 'its id, the `document` of a fact')],
            _DOCUMENT,
        ),
        '/health': _operation('Says that the newest version can be opened.', [], _HEALTH),
    },
}
