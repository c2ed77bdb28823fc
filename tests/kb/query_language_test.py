"""The query language: what binds how, is read back as printed, and where it is wrong."""

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from opql_jax.core.errors import InputError
from opql_jax.kb.sets.query import Combined, Entity, Follow, Top, Where
from opql_jax.kb.sets.query_language import MAX_LENGTH, is_query, parse

from examples import examples

A, B, C = Entity('A'), Entity('B'), Entity('C')


@pytest.mark.parametrize(
    ('text', 'query'),
    [
        ('A . ^directed . starring', Follow(Follow(A, 'directed', inverse=True), 'starring')),
        ('A . "^odd" . ^"x"', Follow(Follow(A, '^odd'), 'x', inverse=True)),
        ('A - (B - C)', Combined('-', A, Combined('-', B, C))),
        # As in Python: . then - then & then |
        ('A | B & C - A . b', Combined('|', A, Combined('&', B, Combined('-', C, Follow(A, 'b'))))),
        ('A . b [ entity = "Titanic (film)" ]', Where(Follow(A, 'b'), 'entity', 'Titanic (film)')),
        ('(A . b top 3) . c', Follow(Top(Follow(A, 'b'), 3), 'c')),
    ],
)
def test_texts_and_their_queries(text, query):
    assert parse(text) == query
    assert parse(str(query)) == query


PARTS = st.sampled_from('top/5/./-/x/^/&b/c|/kind/[kind=x]/(/"/\\/Christopher Nolan'.split('/'))
names = st.one_of(
    st.text(min_size=1, max_size=12), st.lists(PARTS, min_size=1, max_size=4).map(' '.join)
)
queries = st.recursive(
    names.map(Entity),
    lambda part: st.one_of(
        st.builds(Follow, part, names, st.booleans()),
        st.builds(Where, part, st.sampled_from(['kind', 'entity']), names),
        st.builds(Combined, st.sampled_from('&|-'), part, part),
        st.builds(Top, part, st.integers(1, 10**9)),
    ),
    max_leaves=8,
)


@given(queries)
def test_what_is_printed_is_read_back(query):
    assert parse(str(query)) == query


@given(st.text('AB .&|-^()[]"\\=5topkindy', max_size=40))
def test_any_text_is_a_query_or_told_with_a_column(text):
    try:
        query = parse(text)
    except InputError as error:
        column = int(re.match(r'query, column (\d+): expected .', str(error)).group(1))
        assert 1 <= column <= len(text) + 1
    else:
        assert parse(str(query)) == query


def test_errors_point_at_the_column():
    for text, column, told in examples("""
        A . & B | 5 | a relation, found '&'
        A . b & | 8 | a name, the query ends
        "" . x | 1 | a name, found '"'
        "A" b | 5 | an operator, found 'b'
        | 1 | a name, the query ends
    """):
        with pytest.raises(InputError) as raised:
            parse(text)
        message, line, mark = str(raised.value).splitlines()
        assert message.startswith(f'query, column {column}: ') and f'expected {told}' in message
        assert (line, mark) == (f'  {text}', ' ' * (int(column) + 1) + '^')


def test_what_is_too_long_or_deep_is_told():
    with pytest.raises(InputError, match='at most 10000 are read'):
        parse('A' * (MAX_LENGTH + 1))
    with pytest.raises(InputError, match='more than 100 operations'):
        parse('A' + ' . b' * 2_000)
    with pytest.raises(InputError, match='column 4982: '):
        parse('(' * 4_980 + 'A')
    assert parse('(' * 4_000 + 'A' + ')' * 4_000) == A


def test_a_full_stop_between_spaces_makes_a_query():
    assert is_query('Ingrid Solberg . directed') and is_query('"A . b" . c')
    questions = 'Who directed J. R. R. Tolkien?/who is it ./Who said "A . b"?/Procter & Gamble?/'
    assert not any(map(is_query, questions.split('/')))
