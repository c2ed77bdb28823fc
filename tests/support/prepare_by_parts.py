"""Preparing a corpus of a few documents in more than one part; in one thread at a time, as
constants are set for it.
"""

import pytest

from opql_jax.corpus import linking
from opql_jax.data import prepare
from opql_jax.datasets.jsonl import JsonLines

BATCH = 4  # documents, or passages, of a part


def run(output, corpus, batch=BATCH, **options):
    options = {'wordpieces': 200, 'drop_above_rate': 1.0, **options}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linking, 'BATCH_DOCUMENTS', batch)
        patched.setattr(prepare, 'BATCH_PASSAGES', batch)
        return prepare.prepare(
            kb=str(output.parent), text=output.name, reader=JsonLines(str(corpus)), **options
        )
