"""Reads files as plain text, and what was rejected of them."""

import json

from opql_jax.datasets.plain_text import PlainText


def read(tmp_path, *sources, max_reject_fraction=0.01):
    """The documents of sources; bad ones are listed in `rejected.jsonl`."""
    reader = PlainText(tuple(map(str, sources)), max_reject_fraction=max_reject_fraction)
    return reader.documents(tmp_path / 'rejected.jsonl')


def rejected(tmp_path):
    """{file: the reason} of what was rejected."""
    rows = map(json.loads, (tmp_path / 'rejected.jsonl').read_text().splitlines())
    return {row['file']: row['reason'] for row in rows}
