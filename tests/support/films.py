"""Short documents about films that nobody made: those of the page on sets and queries."""

import json
import pathlib
import re

PAGE = (pathlib.Path(__file__).resolve().parents[2] / 'docs/how-to/sets_and_queries.md').read_text(
    encoding='utf-8'
)
_BLOCKS = re.findall(r'^```(\w*)\n(.*?)^```', PAGE, re.M | re.S)
LINES = next(block for language, block in _BLOCKS if language == 'json')
DOCUMENTS = {record['title']: record['text'] for record in map(json.loads, LINES.splitlines())}
# Queries of the page, each with the names that come first.
EXAMPLES = [
    (query.strip(), names.strip().split(', '))
    for language, block in _BLOCKS
    if language == 'text'
    for query, names in (line.split('→') for line in block.splitlines() if '→' in line)
]


def write(path: pathlib.Path, *more: dict) -> pathlib.Path:
    """Writes the documents, and more of them, into a .jsonl file, and returns it."""
    path.write_text(LINES + ''.join(f'{json.dumps(record)}\n' for record in more), encoding='utf-8')
    return path
