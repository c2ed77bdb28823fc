"""Length buckets of fixed shapes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opql_jax.data import batching
from opql_jax.data.markup import MarkedPair, MaskedMentions, TokenisedPassage, join
from opql_jax.data.tokenizer import SpecialIds

SPECIAL = SpecialIds(pad=0, unk=1, cls=2, sep=3, ent=5, r1=6, r2=7)
LENGTHS = st.lists(st.integers(6, 136), min_size=1, max_size=60)


def row(length, topic=1, target=2, context=()):
    tokens = np.arange(10, 10 + length, dtype=np.int32)
    return MarkedPair(tokens, 2, 4, topic, target, np.array([5] * len(context), np.int32), np.array(context, np.int32))


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 300), st.sampled_from([1, 2, 8, 16]))
def test_planned_rows_add_up_and_divide(lengths, rows, multiple):
    plan = batching.plan_capacities(lengths, rows, multiple=multiple)
    assert sum(plan.values()) == -(-rows // multiple) * multiple
    assert all(n > 0 and n % multiple == 0 for n in plan.values())
    assert list(plan) == sorted(plan) and set(plan) <= set(batching.BUCKET_LENGTHS)
    assert max(plan) >= max(lengths)


def test_the_plan_follows_the_corpus():
    lengths = [20] * 50 + [60] * 25 + [130] * 25
    assert batching.plan_capacities(lengths, 256) == {32: 128, 64: 64, 136: 64}
    assert batching.plan_capacities([40] * 10, 64) == {48: 64}


def test_rounding_is_towards_longer_buckets():
    assert batching.plan_capacities([20] * 99 + [100], 64) == {32: 56, 136: 8}


@pytest.mark.parametrize(
    'kwargs, reason',
    [
        (dict(lengths=[], rows=8), 'without any row'),
        (dict(lengths=[137], rows=8), 'row of 137 tokens exceeds the longest bucket 136'),
        (dict(lengths=[5], rows=0), 'rows is 0'),
    ],
)
def test_impossible_plans_are_refused(kwargs, reason):
    with pytest.raises(ValueError, match=reason):
        batching.plan_capacities(**kwargs)


@settings(deadline=None)
@given(LENGTHS, st.fixed_dictionaries({32: st.integers(1, 5), 64: st.integers(1, 5), 136: st.integers(1, 5)}))
def test_a_row_is_refused_only_when_no_arrangement_has_room(lengths, capacities):
    packer = batching.Packer(capacities)
    accepted = []
    for length in lengths:
        # Hall's condition: for each bucket length, the rows that exceed it fit into the longer buckets.
        trial = accepted + [length]
        bounds = [0, *capacities]
        feasible = all(sum(x > b for x in trial) <= sum(n for L, n in capacities.items() if L > b) for b in bounds)
        assert packer.add(length) == feasible
        if feasible:
            accepted.append(length)
    assert all(length <= bucket for length, bucket in zip(accepted, packer.assigned))
    assert packer.full == (len(accepted) == sum(capacities.values()))


def test_a_row_goes_to_the_shortest_bucket_that_holds_it():
    assert [batching.bucket_of(x, (32, 64)) for x in (1, 32, 33, 64)] == [32, 32, 64, 64]
    with pytest.raises(ValueError, match='65 tokens exceeds the longest bucket 64'):
        batching.bucket_of(65, (32, 64))


class Rows:
    """Rows one by one, with what `pack_pairs` asks of `MarkedPairs`."""

    def __init__(self, rows):
        self.rows = rows

    def batch(self, chosen, size, length):
        column = lambda name: batching.pad_rows([getattr(self.rows[i], name) for i in chosen], size)
        return batching.pad_tokens([self.rows[i].tokens for i in chosen], size, length, SPECIAL), column('r1'), column('r2')

    def context(self, chosen, size, most):
        column = lambda name, fill: batching.pad_rows([getattr(self.rows[i], name) for i in chosen], size, (most,), fill)
        return column('context_positions', 0), column('context_entities', -1)


def pack(rows, capacities, max_context=0, anchors=None):
    """(buckets, which rows were accepted)."""
    packer = batching.Packer(capacities)
    accepted = [packer.add(len(r.tokens)) for r in rows]
    chosen = np.flatnonzero(accepted)
    entities = tuple(np.array([getattr(rows[i], name) for i in chosen], np.int32) for name in ('topic', 'target'))
    return batching.pack_pairs(
        Rows(rows), chosen, entities, anchors or [False] * len(chosen), packer, SPECIAL, max_context
    ), accepted


def test_batches_have_fixed_shapes_and_types():
    for rows in ([], [row(20)], [row(20, context=(3, 4))] * 9):
        buckets, _ = pack(rows, {64: 4, 32: 2}, max_context=3)
        for bucket, length, n in zip(buckets, (32, 64), (2, 4), strict=True):
            assert {name: (x.shape, x.dtype) for name, x in bucket._asdict().items()} == {
                'tokens': ((n, length), np.int32),
                'r1': ((n,), np.int32),
                'r2': ((n,), np.int32),
                'topic': ((n,), np.int32),
                'target': ((n,), np.int32),
                'anchor': ((n,), bool),
                'context_positions': ((n, 3), np.int32),
                'context_entities': ((n, 3), np.int32),
            }


def test_rows_are_copied_and_the_rest_is_marked_unused():
    (short, long), accepted = pack([row(20, 8, 9, (4,)), row(40, 6, 7)], {32: 2, 64: 2}, 2, [True, False])
    assert accepted == [True, True]
    assert short.tokens[0].tolist() == list(range(10, 30)) + [0] * 12
    assert short.tokens[1].tolist() == [2, 3] + [0] * 30
    assert short.topic.tolist() == [8, -1] and short.target.tolist() == [9, -1]
    assert long.topic.tolist() == [6, -1] and short.anchor.tolist() == [True, False]
    assert short.r1.tolist() == [2, 0] and short.r2.tolist() == [4, 0]
    assert short.context_entities.tolist() == [[4, -1], [-1, -1]]
    assert short.context_positions.tolist() == [[5, 0], [0, 0]]


def test_rows_without_room_are_refused_and_a_full_bucket_overflows_upwards():
    rows = [row(20, topic=t) for t in range(4)] + [row(60, topic=9), row(10, topic=5)]
    (short, long), accepted = pack(rows, {32: 2, 64: 3})
    assert accepted == [True, True, True, True, True, False]
    assert short.topic.tolist() == [0, 1] and long.topic.tolist() == [2, 3, 9]


def test_a_row_that_could_never_fit_is_an_error():
    with pytest.raises(ValueError, match='a row of 70 tokens exceeds the longest bucket 64'):
        pack([row(70)], {32: 2, 64: 3})


def test_masked_mentions_are_packed_alike():
    packer = batching.Packer({32: 1, 48: 1})
    passage = TokenisedPassage(*(np.array(x, np.int32) for x in (range(1, 29), [2, 9], [4, 10], [7, 8])))
    masked = MaskedMentions(join([passage] * 3), np.array([0, 1, 0]), SPECIAL)
    chosen = np.flatnonzero([packer.add(length) for length in masked.lengths])
    short, long = batching.pack_masked(masked, chosen, packer, SPECIAL)
    assert short.position.tolist() == [3] and long.entity.tolist() == [8]
    assert long.tokens.shape == (1, 48)
    (empty,) = batching.pack_masked(masked, np.array([], int), batching.Packer({32: 1}), SPECIAL)
    assert empty.entity.tolist() == [-1] and empty.tokens.dtype == np.int32 and empty.tokens[0, :3].tolist() == [2, 3, 0]


def test_stated_buckets_are_taken_as_they_are():
    assert batching.capacities_for([90], [140], 24, ((96, 8), (144, 16))) == {96: 8, 144: 16}
    planned = batching.capacities_for([90, 20], [140, 20], 24)  # markup that rows can do without is cut at the longest
    assert planned == batching.plan_capacities([136, 20], 24)


@pytest.mark.parametrize(
    ('buckets', 'least', 'reason'),
    [
        (((96, 8),), 90, r'buckets=\(\(96, 8\),\) have 8 rows, and a batch has 24'),
        (((144, 16), (96, 8)), 90, 'shortest first'),
        (((96, 8), (96, 16)), 90, 'shortest first'),
        (((32, 0), (96, 24)), 90, 'at least 1 row'),
        (((96, 24),), 97, 'the longest row has 97 tokens'),
    ],
)
def test_stated_buckets_that_cannot_be_are_refused(buckets, least, reason):
    with pytest.raises(ValueError, match=reason):
        batching.capacities_for([least], [least], 24, buckets)
