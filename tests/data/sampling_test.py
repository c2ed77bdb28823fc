"""Choosing pair rows: positives, hard negatives, neighbours."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.core.errors import InputError
from opql_jax.data import sampling


def columns(rows):
    table = np.array(sorted(rows), np.int32).reshape(-1, 3)
    zeros = np.zeros(len(table), np.int32)
    return dict(zip(sampling.COLUMNS, (*table.T, zeros, zeros)))


def num_passages(index, pair):
    return len(set(index.passage[index.pair_start[pair] : index.pair_start[pair + 1]].tolist()))


NUMBERS = st.integers(0, 6)
ROW = st.tuples(NUMBERS, NUMBERS, st.integers(0, 5)).filter(lambda row: row[0] != row[1])
ROWS = st.lists(ROW, min_size=1, max_size=60)
# A world with pairs that are mentioned once or more often, in one passage or in several.
REPEATING = ROWS.map(
    lambda rows: [*rows, *rows[: len(rows) // 2 + 1], *((t, o, 6) for t, o, _ in rows[::3])]
)
SEED = st.integers(0, 2**32)


@given(ROWS, st.integers(-1, 8), st.integers(-1, 8))
def test_the_index_finds_what_a_scan_finds(rows, topic, target):
    table = columns(rows)
    index = sampling.PairIndex(table)
    pairs = sorted({(t, o) for t, o, _ in rows})
    assert list(zip(index.pair_topic.tolist(), index.pair_target.tolist())) == pairs
    for p, (t, o) in enumerate(pairs):
        inside = np.flatnonzero((table['topic'] == t) & (table['target'] == o))
        assert inside.tolist() == list(range(index.pair_start[p], index.pair_start[p + 1]))
        assert index.repeated[p] == (len(set(table['passage'][inside].tolist())) > 1)
        assert (index.pair_of(inside) == p).all()
    at = pairs.index((topic, target)) if (topic, target) in pairs else -1
    assert index.find([topic], [target])[0] == at
    of_topic = [p for p, (t, _) in enumerate(pairs) if t == topic]
    assert list(range(*index.pairs_of_topic(topic))) == of_topic


@given(REPEATING, st.integers(1, 4), SEED)
def test_rows_of_a_pair_are_each_of_another_passage(rows, count, seed):
    index = sampling.PairIndex(columns(rows))
    for pair in range(len(index.pair_topic)):
        all_rows = np.arange(index.pair_start[pair], index.pair_start[pair + 1])
        drawn = index.rows(pair, count, np.random.default_rng(seed))
        assert set(drawn) <= set(all_rows)
        assert len(drawn) == len(set(index.passage[drawn].tolist()))
        if len(all_rows) <= 8 * count:
            assert len(drawn) == min(count, num_passages(index, pair))


@given(REPEATING, st.integers(1, 8), SEED)
def test_neighbours_share_one_side_and_repeated_ones_come_first(rows, count, seed):
    index = sampling.PairIndex(columns(rows))
    pairs = list(zip(index.pair_topic.tolist(), index.pair_target.tolist()))
    for p, pair in enumerate(pairs):
        sides = index.neighbours(p, count, np.random.default_rng(seed))
        for side, drawn in enumerate(sides):
            possible = [q for q, other in enumerate(pairs) if other[side] == pair[side] and q != p]
            assert set(drawn.tolist()) <= set(possible)
            assert len(drawn) == len(set(drawn.tolist())) == min(count, len(possible))
            repeated = index.repeated[drawn].tolist()
            assert repeated == sorted(repeated, reverse=True)
            assert sum(repeated) == min(count, sum(index.repeated[q] for q in possible))


@given(REPEATING, SEED)
def test_a_group_is_an_anchor_its_positives_and_hard_negatives(rows, seed):
    index = sampling.PairIndex(columns(rows))
    seen = []
    for group, is_anchor in sampling.GroupSampler(index).draw(np.random.default_rng(seed)):
        pairs = index.pair_of(group)
        anchor = pairs[0]
        assert is_anchor.tolist() == [True] + [False] * (len(group) - 1)
        same = pairs == anchor
        if index.repeated.any():
            # The anchor and 1 or 2 positives, of other passages.
            assert same.sum() == min(3, num_passages(index, anchor)) > 1
        assert same[: same.sum()].all() and len(set(group.tolist())) == len(group)
        topic, target = index.pair_topic, index.pair_target
        near = np.logical_xor(topic == topic[anchor], target == target[anchor])
        assert near[pairs[~same]].all() and (~same).sum() == min(8, near.sum())
        seen.append(int(anchor))
    assert len(seen) == len(set(seen))
    if index.repeated.any():  # so small a world is drawn to its end
        assert set(seen) == set(np.flatnonzero(index.repeated))


@given(REPEATING, SEED, st.sampled_from([1, 5]))
def test_a_shared_batch_is_made_of_connected_pairs(rows, seed, most):
    index = sampling.PairIndex(columns(rows))
    seen, sampler = [], sampling.SharedSampler(index, neighbours=most)
    for hood, is_anchor in sampler.draw(np.random.default_rng(seed)):
        assert is_anchor.all()
        pairs, counts = np.unique(index.pair_of(hood), return_counts=True)
        assert len(pairs) <= most and len(set(hood.tolist())) == len(hood)
        assert counts.tolist() == [min(3, num_passages(index, pair)) for pair in pairs]
        ends = [{('topic', index.pair_topic[p]), ('target', index.pair_target[p])} for p in pairs]
        reached = ends.pop()
        while beside := [both for both in ends if both & reached]:
            reached = reached.union(*beside)
            ends = [both for both in ends if both not in beside]
        assert not ends
        seen += pairs.tolist()
    assert len(seen) == len(set(seen))


def test_anchors_are_drawn_by_pairs_or_by_mentions():
    """Pairs of 2 and of 12 mentions are anchors alike often, or 6 times as often as one another."""
    counts = np.array([2, 12] * 20)
    rows = [(pair, pair + 100, i) for pair, count in enumerate(counts) for i in range(count)]
    index = sampling.PairIndex(columns(rows))

    def share_of_frequent(anchors):
        sampler, rng = sampling.GroupSampler(index, anchors=anchors), np.random.default_rng(0)
        first = [index.pair_of(next(sampler.draw(rng))[0][:1])[0] for _ in range(2000)]
        return np.mean(counts[first] == 12)

    assert share_of_frequent('pairs') == pytest.approx(1 / 2, abs=0.05)
    assert share_of_frequent('mentions') == pytest.approx(12 / 14, abs=0.05)
    with pytest.raises(InputError, match="anchors='rows': give one of 'pairs', 'mentions'"):
        sampling.GroupSampler(index, anchors='rows')


def test_negatives_share_the_topic_and_the_target_half_and_half():
    others = [row for k in range(2, 20) for row in ((0, k, 2), (k, 1, 3))]
    index = sampling.PairIndex(columns([(0, 1, 0), (0, 1, 1), *others]))
    group, _ = next(sampling.GroupSampler(index).draw(np.random.default_rng(0)))
    assert (index.topic[group[2:]] == 0).sum() == 4 and (index.target[group[2:]] == 1).sum() == 4
