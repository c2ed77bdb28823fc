"""Pair mining against a direct reading of its definition."""

import collections
import itertools
import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.corpus import tables
from opql_jax.corpus.pairs import mine_pairs, mutual_information

from spans import nested_spans, overlap


def passages(rows):
    """rows: (title entity, entities of the mentions in order[, their (start, end)]) per passage."""
    mention = lambda span, entity: {'start': span[0], 'end': span[1], 'entity': entity}
    row = dict(doc_id='d', title='t', text='x', sentence_starts=[0])
    mentions = lambda *named: list(map(mention, spans_of(*named), named[0]))
    found = [{**row, 'title_entity': t, 'mentions': mentions(*named)} for t, *named in rows]
    return pa.Table.from_pylist(found, tables.PASSAGES)


def spans_of(entities, spans=None):
    return [(i, i + 1) for i in range(len(entities))] if spans is None else spans


def mine(rows):
    table = pa.Table.from_batches(mine_pairs(passages(rows)), tables.PAIRS)
    return list(zip(*(column.to_pylist() for column in table.columns)))


def slow_pairs(rows):
    found = []
    for passage, (title, entities, *spans) in enumerate(rows):
        spans = spans_of(entities, *spans)
        anchor = entities.index(title) if title in entities else -1
        for (i, topic), (j, target) in itertools.product(enumerate(entities), repeat=2):
            is_pair = topic != target and not overlap(spans[i], spans[j])
            if is_pair:
                found.append((topic, target, passage, i, j, anchor in (i, j)))
    return sorted(found)


@given(
    st.data(),
    st.lists(st.tuples(st.integers(-1, 4), nested_spans(6)), max_size=6),
)
def test_the_query_equals_its_definition_in_order(data, drawn):
    entities = lambda spans: data.draw(st.tuples(*[st.integers(0, 4)] * len(spans)))
    rows = [(title, list(entities(spans)), spans) for title, spans in drawn]
    assert mine(rows) == slow_pairs(rows)


def slow_mutual_information(rows):
    single, together = collections.Counter(), collections.Counter()
    for _, entities in rows:
        single.update(set(entities))
        together.update(itertools.combinations(sorted(set(entities)), 2))
    pmi = lambda x, y, n: math.log(n * len(rows) / (single[x] * single[y]))
    return {(x, y): (n, pmi(x, y, n)) for (x, y), n in sorted(together.items())}


@given(st.lists(st.tuples(st.just(-1), st.lists(st.integers(0, 6), max_size=6)), min_size=1))
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
    mentioned = [0, 1], [1], [2, 3], [2, 3], [], []
    found = mutual_information(passages([(-1, entities) for entities in mentioned]))
    assert found['pmi'][0] == found['pmi'][1] == pytest.approx(math.log(3))
