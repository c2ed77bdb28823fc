"""Pair mining against a direct reading of its definition."""

import collections
import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.pairs import mine_pairs, mutual_information, pairs_sql

from nested_spans import nested_spans, overlap


def passages(rows):
    """rows: (title entity, entities of the mentions in order[, their (start, end)]) per passage."""
    return pa.Table.from_pylist(
        [
            {
                'doc_id': 'd',
                'title': 't',
                'title_entity': title,
                'text': 'x',
                'sentence_starts': [0],
                'mentions': [
                    {'start': a, 'end': b, 'entity': e}
                    for (a, b), e in zip(spans_of(entities, *spans), entities)
                ],
            }
            for title, entities, *spans in rows
        ],
        schema=tables.PASSAGES,
    )


def spans_of(entities, spans=None):
    return [(i, i + 1) for i in range(len(entities))] if spans is None else spans


def mine(rows, mode):
    table = pa.Table.from_batches(mine_pairs(passages(rows), mode), tables.PAIRS)
    return list(zip(*(column.to_pylist() for column in table.columns)))


def slow_pairs(rows, mode):
    found = []
    for passage, (title, entities, *spans) in enumerate(rows):
        spans = spans_of(entities, *spans)
        anchor = entities.index(title) if title in entities else -1
        for i, topic in enumerate(entities):
            for j, target in enumerate(entities):
                is_title = anchor in (i, j)
                if (
                    topic != target
                    and not overlap(spans[i], spans[j])
                    and (is_title or mode == 'all')
                ):
                    found.append((topic, target, passage, i, j, is_title))
    return sorted(found)


@settings(deadline=None, max_examples=50)
@given(
    st.data(),
    st.lists(st.tuples(st.integers(-1, 4), nested_spans(6)), max_size=6),
    st.sampled_from(['title', 'all']),
)
def test_the_query_equals_its_definition_in_order(data, drawn, mode):
    entities = [
        data.draw(st.lists(st.integers(0, 4), min_size=len(spans), max_size=len(spans)))
        for _, spans in drawn
    ]
    rows = [(title, of_passage, spans) for (title, spans), of_passage in zip(drawn, entities)]
    assert mine(rows, mode) == slow_pairs(rows, mode)


def test_a_mention_and_one_nested_in_it_are_no_pair():
    rows = [(7, [7, 1, 2, 3], [(0, 2), (3, 9), (3, 5), (6, 9)])]  # 1 holds 2 and 3
    assert {pair[:2] for pair in mine(rows, 'title')} == {
        (7, 1), (7, 2), (7, 3), (1, 7), (2, 7), (3, 7),
    }  # fmt: skip
    assert {pair[:2] for pair in mine(rows, 'all') if not pair[-1]} == {(2, 3), (3, 2)}


def test_an_unknown_mode_is_an_error():
    with pytest.raises(InputError, match="pair mode 'both' is not one of title, all"):
        pairs_sql('both')


def slow_mutual_information(rows):
    single, together = collections.Counter(), collections.Counter()
    for _, entities in rows:
        single.update(set(entities))
        together.update(itertools.combinations(sorted(set(entities)), 2))
    return {
        (x, y): (n, math.log(n * len(rows) / (single[x] * single[y])))
        for (x, y), n in sorted(together.items())
    }


@settings(deadline=None, max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(-1, 4), st.lists(st.integers(0, 6), max_size=6)),
        min_size=1,
        max_size=8,
    )
)
def test_mutual_information_equals_its_definition_over_passages(rows):
    found = mutual_information(passages(rows))
    wanted = slow_mutual_information(rows)
    assert list(zip(found['low'].tolist(), found['high'].tolist())) == list(wanted)
    assert found['passages'].tolist() == [n for n, _ in wanted.values()]
    assert found['pmi'].tolist() == pytest.approx([pmi for _, pmi in wanted.values()], abs=1e-12)
    frequent = mutual_information(passages(rows), min_passages=2)
    for name, column in found.items():
        assert frequent[name].tolist() == column[found['passages'] >= 2].tolist()


def test_pairs_of_the_same_counts_have_exactly_the_same_mutual_information():
    # 1 · 6 / (1 · 2) and 2 · 6 / (2 · 2): ties are to be told apart by ids, not by rounding.
    found = mutual_information(
        passages([(-1, [0, 1]), (-1, [1]), (-1, [2, 3]), (-1, [2, 3]), (-1, []), (-1, [])])
    )
    assert found['pmi'][0] == found['pmi'][1] == pytest.approx(math.log(3))
