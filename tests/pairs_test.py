"""Pair mining against a direct reading of its definition."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.corpus import tables
from opql_jax.corpus.pairs import mine_pairs, pairs_sql
from opql_jax.corpus.records import CorpusError


def passages(rows):
    """rows: (title entity, entities of the mentions in order) per passage."""
    return pa.Table.from_pylist(
        [
            {
                'doc_id': 'd',
                'title': 't',
                'title_entity': title,
                'text': 'x',
                'sentence_starts': [0],
                'mentions': [{'start': i, 'end': i + 1, 'entity': e} for i, e in enumerate(entities)],
            }
            for title, entities in rows
        ],
        schema=tables.PASSAGES,
    )


def mine(rows, mode):
    table = pa.Table.from_batches(mine_pairs(passages(rows), mode), tables.PAIRS)
    return list(zip(*(column.to_pylist() for column in table.columns)))


def slow_pairs(rows, mode):
    found = []
    for passage, (title, entities) in enumerate(rows):
        anchor = entities.index(title) if title in entities else -1
        for i, topic in enumerate(entities):
            for j, target in enumerate(entities):
                is_title = anchor in (i, j)
                if topic != target and (is_title or mode == 'all'):
                    found.append((topic, target, passage, i, j, is_title))
    return sorted(found)


def test_title_pairs_join_the_first_mention_of_the_title_with_the_others_both_ways():
    assert mine([(7, [3, 7, 7, 5])], 'title') == [
        (3, 7, 0, 0, 1, True),
        (5, 7, 0, 3, 1, True),
        (7, 3, 0, 1, 0, True),
        (7, 5, 0, 1, 3, True),
    ]


def test_all_pairs_contain_the_title_pairs_and_mark_them():
    rows = [(7, [3, 7, 7, 5]), (-1, [3, 5]), (2, [])]
    assert [pair for pair in mine(rows, 'all') if pair[-1]] == mine(rows, 'title')
    assert (5, 3, 1, 1, 0, False) in mine(rows, 'all')
    assert (3, 7, 0, 0, 2, False) in mine(rows, 'all')


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(-1, 4), st.lists(st.integers(0, 4), max_size=5)), max_size=6),
    st.sampled_from(['title', 'all']),
)
def test_the_query_equals_its_definition_in_order(rows, mode):
    assert mine(rows, mode) == slow_pairs(rows, mode)


def test_an_unknown_mode_is_an_error():
    with pytest.raises(CorpusError, match="pair mode 'both' is not one of title, all"):
        pairs_sql('both')
