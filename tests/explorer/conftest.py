"""What the tests of the explorer share."""

import pytest

import opql_jax
from opql_jax.core import time_limit
from opql_jax.kb.text.index_text import index_text

import films


@pytest.fixture(scope='module')
def folder(request, tmp_path_factory):
    root = tmp_path_factory.mktemp('films')
    texts = films.write(root / 'films.jsonl', request.module.DOCUMENT)
    index_text([texts], root / 'films.kb', processes=1)
    return root / 'films.kb'


@pytest.fixture(scope='module')
def kb(folder):
    return opql_jax.open(folder)


@pytest.fixture(autouse=True)
def no_hurry(monkeypatch):
    """Gives answers all their time, as a first question can take longer than a server waits."""
    monkeypatch.setattr(time_limit, 'SERVED', 600.0)
