"""A question in plain words is a query, too, if one finds the same."""

import pytest

import opql_jax
from opql_jax.kb.as_query import as_query
from opql_jax.kb.index_text import index_text

import films

pytest.importorskip('lark', reason='lark is not installed')


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    root = tmp_path_factory.mktemp('films')
    index_text([films.write(root / 'films.jsonl')], root / 'films.kb', processes=1)
    return opql_jax.open(root / 'films.kb')


@pytest.mark.parametrize(
    'question, query',
    [
        ('Who directed Night Ferry?', 'Night Ferry . ^directed'),
        ('Where was Tomas Lind born?', 'Tomas Lind . born'),
        ('Who starred in the films directed by Ingrid Solberg?', 'Ingrid Solberg . films directed by . starred in'),
    ],
)
def test_the_query_follows_the_words_of_each_hop_and_finds_the_same(kb, question, query):
    answer = kb.ask(question)
    found = as_query(answer)
    assert str(found).startswith(query)  # then a kind, where words alone find something else
    assert found.names[0] == answer.names[0] and kb.query(str(found)) == found


def test_where_no_relation_is_named_there_is_no_query(kb):
    assert as_query(kb.ask('Who is Tomas Lind?')) is None
