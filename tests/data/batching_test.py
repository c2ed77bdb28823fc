"""Length buckets of fixed shapes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.data import batching

LENGTHS = st.lists(st.integers(6, 136), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 300))
def test_planned_rows_add_up_and_divide(lengths, rows):
    plan = batching.plan_capacities(lengths, rows)
    assert sum(plan.values()) == -(-rows // 8) * 8
    assert all(n > 0 and n % 8 == 0 for n in plan.values())
    assert list(plan) == sorted(plan) and set(plan) <= set(batching.BUCKET_LENGTHS)
    assert max(plan) >= max(lengths)


def test_the_plan_follows_the_corpus():
    lengths = [20] * 50 + [60] * 25 + [130] * 25
    assert batching.plan_capacities(lengths, 256) == {32: 128, 64: 64, 136: 64}
    # Rounding is towards longer buckets.
    assert batching.plan_capacities([20] * 99 + [100], 64) == {32: 56, 136: 8}


ROWS = st.integers(1, 5)


@given(LENGTHS, st.fixed_dictionaries({32: ROWS, 64: ROWS, 136: ROWS}))
def test_a_row_is_refused_only_when_no_arrangement_has_room(lengths, capacities):
    packer = batching.Packer(capacities)
    accepted = []
    for length in lengths:
        # Hall's condition: for each bucket length, the rows that exceed it fit into the longer
        # buckets.
        trial = [*accepted, length]
        room = lambda bound: sum(n for bucket, n in capacities.items() if bucket > bound)
        feasible = all(sum(x > b for x in trial) <= room(b) for b in (0, *capacities))
        assert packer.add(length) == feasible
        if feasible:
            accepted.append(length)
    assert all(length <= bucket for length, bucket in zip(accepted, packer.assigned))
    assert packer.full == (len(accepted) == sum(capacities.values()))


def test_a_row_goes_to_the_shortest_bucket_that_holds_it():
    assert [batching.bucket_of(x, (32, 64)) for x in (1, 32, 33, 64)] == [32, 32, 64, 64]
    with pytest.raises(ValueError, match='65 tokens exceeds the longest bucket 64'):
        batching.bucket_of(65, (32, 64))


def test_stated_buckets_are_taken_as_they_are():
    assert batching.capacities_for([90], [140], 24, ((96, 8), (144, 16))) == {96: 8, 144: 16}
    # Markup that rows can do without is cut at the longest.
    planned = batching.capacities_for([90, 20], [140, 20], 24)
    assert planned == batching.plan_capacities([136, 20], 24)


@pytest.mark.parametrize(
    ('buckets', 'least', 'reason'),
    [
        (((96, 8),), 90, r'buckets=\(\(96, 8\),\) have 8 rows, but a batch has 24'),
        (((144, 16), (96, 8)), 90, 'shortest first'),
        (((96, 24),), 97, 'the longest row has 97 tokens'),
    ],
)
def test_stated_buckets_that_cannot_be_are_refused(buckets, least, reason):
    with pytest.raises(ValueError, match=reason):
        batching.capacities_for([least], [least], 24, buckets)


def test_a_batch_that_a_host_cannot_hold_is_refused():
    rows = 10**12
    for buckets in ((), ((128, rows),)):
        with pytest.raises(ValueError, match=r'a batch take [\d,]+ GB, and this host has \d+ GB'):
            batching.capacities_for([90], [100], rows, buckets)
