"""Answers and sets of one knowledge base: which query a question is, and by which paths either is explained."""

import dataclasses

import numpy as np
import pytest

import opql_jax
from opql_jax.core.errors import InputError
from opql_jax.kb.sets.as_query import as_query
from opql_jax.kb.text.index_text import index_text

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
    found = as_query(answer, kb.sets)
    assert str(found).startswith(query)  # then a kind, where words alone find something else
    assert found.names[0] == answer.names[0] and kb.query(str(found)) == found


def test_where_no_relation_is_named_there_is_no_query(kb):
    assert as_query(kb.ask('Who is Tomas Lind?'), kb.sets) is None


def test_of_several_that_have_a_name_the_one_that_is_an_answer_is_explained(kb):
    answers = kb.ask('Who composed the music of Night Ferry?')
    assert {'Erik Lind', 'Tomas Lind'} <= {*answers.names}
    with pytest.raises(InputError, match="'Lind' may be 2 entities; write one of 'Tomas Lind', 'Erik Lind'$"):
        answers.explain('Lind')
    for name in ('Erik Lind', 'Tomas Lind'):
        alone = dataclasses.replace(answers, entities=np.array([kb.vocab.id(name)]), weights=np.ones(1, np.float32))
        assert alone.explain('Lind') == answers.explain(name) != 'no fact leads there'
    with pytest.raises(InputError, match="unknown entity 'Nobody'"):
        answers.explain('Nobody')


def test_paths_of_either_set_come_heaviest_first(kb):
    """The table, and what a prompt forgets, are of the first."""
    directed = kb.entity('Ingrid Solberg').follow('directed')
    light = kb.entity('Anna Weiss').follow('starred in')
    for either in (light | directed, directed | light):
        weights = [path[-1].weight for path in either.paths('The Silent Harbour')]
        assert len(weights) > 1 and weights == sorted(weights, reverse=True)
    heavy = kb.entity('Night Ferry') | directed
    assert heavy.paths('Night Ferry')[0] == () and len(heavy.paths('Night Ferry')) > 1
