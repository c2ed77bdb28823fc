"""A knowledge base that a Spark cluster made is the one that this machine makes."""

import pytest

from opql_jax import cli
from opql_jax.datasets import plain_text
from opql_jax.kb.text.index_text import index_text
from opql_jax.models import bulk_encoding, passage_encoder

import spark_session
from trios import TRIOS


def content(folder):
    files = (path for path in folder.rglob('*') if path.is_file() and not path.name.startswith('.'))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of text that takes several batches,
    and the knowledge base that was made of it here.
    """
    monkeypatch.setattr(plain_text, 'BATCH_DOCUMENTS', 2)
    monkeypatch.setattr(passage_encoder, 'BATCH_PASSAGES', 3)
    monkeypatch.setattr(bulk_encoding, 'CPU_TOKENS', 2048)  # as the workers have it
    (tmp_path / 'articles').mkdir()
    for name in ('engine', 'river'):
        for title, text in TRIOS[name].documents.items():
            (tmp_path / 'articles' / f'{title}.txt').write_text(
                f'{title}\n\n{text}\n', encoding='utf-8'
            )
    index_text([tmp_path / 'articles'], tmp_path / 'local.kb', processes=1)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize('master', ['local[1]', 'local-cluster[2,1,1024]'])
def test_both_engines_make_the_same_knowledge_base(folder, master):
    with spark_session.start(master, folder / 'spark', spark__executor__memory='1g'):
        cli.main(
            [
                'index',
                str(folder / 'articles'),
                '--out',
                str(folder / 'spark.kb'),
                '--engine',
                'spark',
            ]
        )
    assert content(folder / 'spark.kb') == content(folder / 'local.kb')
