"""The pieces of JSON Schema that the records of answers and documents are described in."""

from collections.abc import Mapping, Sequence
from typing import Any

COUNT = {'type': 'integer', 'minimum': 0}
PROBABILITY = {'type': 'number', 'minimum': 0, 'maximum': 1}


def object_schema(properties: Mapping[str, Any], optional: Sequence[str] = (), description: str = '') -> dict[str, Any]:
    """The schema of an object that has these properties and no others; all but the optional ones are always there."""
    schema = {
        'type': 'object',
        'properties': dict(properties),
        'required': [name for name in properties if name not in optional],
        'additionalProperties': False,
    }
    return schema | ({'description': description} if description else {})
