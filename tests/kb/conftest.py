"""Knowledge bases that tests share, made once: none of them may be changed."""

import pathlib

import pytest

import opql_jax
from opql_jax.kb.text.index_text import index_text

from trios import TRIOS, write


@pytest.fixture(scope='session')
def index(tmp_path_factory):
    def index(documents: dict[str, str]) -> pathlib.Path:
        records = [{'id': key, 'title': key, 'text': text} for key, text in documents.items()]
        folder = tmp_path_factory.mktemp('indexed') / 'kb'
        index_text(records, folder, processes=1)
        return folder

    return index


@pytest.fixture(scope='module')
def kb(index, request):
    """Of a module's DOCUMENTS, or a fixture, its FOLDER; if READER is False without a reader."""
    of, reader = vars(request.module), getattr(request.module, 'READER', None)
    folder = index(of['DOCUMENTS']) if 'DOCUMENTS' in of else request.getfixturevalue(of['FOLDER'])
    with opql_jax.open(folder, reader=reader) as opened:
        yield opened


@pytest.fixture(scope='session')
def trios_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('trios')
    for name, trio in TRIOS.items():
        write(root / 'articles' / name, trio.documents)
    index_text([root / 'articles'], root / 'kb', processes=1)
    return root / 'kb'
