"""What `/api/…` of the explorer takes and gives, in the words of OpenAPI; served as `/openapi.json`."""


def _parameter(name: str, kind: str, description: str, **limits) -> dict:
    required = 'default' not in limits
    return {'name': name, 'in': 'query', 'required': required, 'description': description, 'schema': {'type': kind, **limits}}


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
                '503': {'description': 'why nothing can be answered now', 'content': json(error)},
            },
        }
    }


_STRING, _NUMBER = {'type': 'string'}, {'type': 'number'}
_FACT = {
    'type': 'object',
    'description': 'what was read, and where',
    'properties': {'topic': _STRING, 'target': _STRING, 'sentence': _STRING, 'title': _STRING, 'document': _STRING},
    'required': ['topic', 'target'],
}
_ANSWER = {
    'type': 'object',
    'properties': {
        'entity': _STRING,
        'kind': _STRING,
        'weight': _NUMBER,
        'probability': {'type': 'number', 'description': 'that it is right; not in answers to queries'},
        'path': {'type': 'array', 'items': _FACT},
    },
    'required': ['entity', 'kind', 'weight', 'path'],
}
_DOCUMENT = {
    'type': 'object',
    'properties': {'document': _STRING, 'title': _STRING, 'text': _STRING, 'score': _NUMBER, 'why': _STRING},
    'required': ['document', 'title', 'text', 'score', 'why'],
}
_NOTE = {'type': 'string', 'description': 'what to know about it, such as what was left out; absent if nothing'}
_QUESTION = _parameter('q', 'string', 'a question in plain English, of one or several hops', minLength=1, maxLength=2_000)


def _list(name: str, items: dict, **more: dict) -> dict:
    return {'type': 'object', 'properties': {name: {'type': 'array', 'items': items}, **more}, 'required': [name]}


OPENAPI = {
    'openapi': '3.1.0',
    'info': {'title': 'A knowledge base of plain text', 'version': '1'},
    'paths': {
        '/api/ask': _operation(
            'Answers a question, or a query of the query language, with the facts that each answer rests on.',
            [_QUESTION, _parameter('top', 'integer', 'answers', minimum=1, maximum=100, default=5)],
            _list(
                'answers',
                _ANSWER,
                sure={'type': 'boolean', 'description': 'whether the first is probably right'},
                by_sentences={
                    'type': 'boolean',
                    'description': 'whether sentences like the question were looked at, as no name leads to an answer; absent if not',
                },
                note=_NOTE,
            ),
        ),
        '/api/retrieve': _operation(
            'Finds the documents that together answer a question.',
            [_QUESTION, _parameter('k', 'integer', 'documents', minimum=1, maximum=100, default=5)],
            _list('documents', _DOCUMENT, note=_NOTE),
        ),
    },
}
