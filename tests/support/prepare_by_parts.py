"""Preparing a corpus of a few documents in several parts, in one thread at a time."""

import pytest

from opql_jax.corpus import linking
from opql_jax.data import prepare
from opql_jax.datasets.jsonl import JsonLines

import records

BATCH = 4  # documents, or passages, of a part


def write_corpus(folder):
    """Writes documents of two parts of passages, and two of records; returns their file."""
    names = ['Ann', 'Bob', 'Eve', 'Zoë']
    said = lambda i: f'{names[i % 4]} knows {names[(i + 1 + i // 4) % 4]} since {1900 + i}.'
    pages = [{'id': str(i), 'title': names[i % 4], 'text': said(i)} for i in range(2 * BATCH)]
    return records.write(folder / 'corpus.jsonl', pages)


def run(output, corpus, batch=BATCH, **options):
    options = {'wordpieces': 200, 'drop_above_rate': 1.0, **options}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linking, 'BATCH_DOCUMENTS', batch)
        patched.setattr(prepare, 'BATCH_PASSAGES', batch)
        return prepare.prepare(
            kb=str(output.parent), text=output.name, reader=JsonLines(str(corpus)), **options
        )
