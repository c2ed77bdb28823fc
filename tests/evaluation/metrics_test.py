"""Metrics, against definitions written out the slow way."""

import fractions
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.evaluation import metrics
from opql_jax.evaluation.scoring import means

ANSWERS = 'abcdefghijkl'
# Steps of 1/16 are exact in binary, so that a weight can lie exactly on the threshold.
WEIGHTS = st.lists(st.integers(0, 16), max_size=14).map(
    lambda values: [v / 16 for v in sorted(values, reverse=True)]
)


@st.composite
def rankings(draw):
    """(answers, weights, gold): ties, repeated answers, weights of 0, empty rankings and unknown
    gold answers are among them.
    """
    weights = draw(WEIGHTS)
    ranked = draw(st.lists(st.sampled_from(ANSWERS), min_size=len(weights), max_size=len(weights)))
    return ranked, weights, draw(st.sets(st.sampled_from(ANSWERS + '?!'), min_size=1, max_size=6))


def slow_score(ranked, weights, gold, threshold):
    """(rank, precision, recall, f1) as fractions."""
    rank = 0
    for place, answer in enumerate(ranked):
        if answer in gold and not rank:
            rank = place + 1
    best = max(weights, default=0)
    said = []
    for answer, weight in zip(ranked, weights):
        if weight > 0 and fractions.Fraction(weight) >= fractions.Fraction(
            threshold
        ) * fractions.Fraction(best):
            if answer not in said:
                said.append(answer)
    right = sum(answer in gold for answer in said)
    precision = fractions.Fraction(right, len(said)) if said else fractions.Fraction(0)
    recall = fractions.Fraction(right, len(gold))
    f1 = fractions.Fraction(2 * right, len(said) + len(gold)) if said else fractions.Fraction(0)
    return rank, precision, recall, f1


@given(rankings(), st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]))
def test_a_score_is_what_its_definition_says(ranking, threshold):
    scored = metrics.score(*ranking, set_threshold=threshold)
    rank, *shares = slow_score(*ranking, threshold)
    assert scored.rank == rank
    assert (scored.precision, scored.recall, scored.f1) == pytest.approx(
        [float(share) for share in shares]
    )


@given(st.lists(rankings(), min_size=1, max_size=12))
def test_a_summary_is_the_mean_over_all_questions(drawn):
    ranks = [slow_score(*ranking, 0.1)[0] for ranking in drawn]
    wanted = {
        f'hits@{n}': fractions.Fraction(sum(0 < rank <= n for rank in ranks), len(ranks))
        for n in (1, 5, 10)
    }
    wanted['mrr'] = sum(fractions.Fraction(1, rank) for rank in ranks if rank) / len(ranks)
    wanted['set_f1'] = sum(slow_score(*ranking, 0.125)[3] for ranking in drawn) / len(ranks)
    found = means(metrics.score(*ranking, set_threshold=0.125).row() for ranking in drawn)
    assert found == pytest.approx({name: float(value) for name, value in wanted.items()})


def test_the_predicted_set_holds_what_has_a_tenth_of_the_best_weight():
    score = lambda *weights: metrics.score(['a', 'b', 'c', 'd'], weights, {'a', 'b', 'x'})
    # B is in the set; c and d are not.
    assert score(0.5, 0.06, 0.04, 0.01) == metrics.Score(1, 1.0, 2 / 3, 0.8)
    # Exactly a tenth of the best one's, not of 1.
    assert score(0.04, 0.004, 0.0039, 0.0).precision == 1.0
    assert metrics.score(['a', 'b'], [0.0, 0.0], {'a'}) == metrics.Score(1, 0.0, 0.0, 0.0)


def test_a_question_without_gold_answers_cannot_be_scored():
    with pytest.raises(ValueError, match='without gold answers'):
        metrics.score(['a'], [1.0], set())


GRAPHS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


@given(GRAPHS, st.sets(st.integers(0, 5), max_size=3), st.integers(0, 3))
def test_reachable_is_what_a_search_of_all_paths_finds(entries, answers, hops):
    topic, target = np.array(entries, np.int32).reshape(-1, 2).T
    found = metrics.reachable(metrics.adjacency(topic, target, 6), [[], sorted(answers)], hops)
    assert found.shape == (hops + 1, 6, 2) and found.dtype == bool and not found[..., 0].any()
    for length in range(hops + 1):
        starts = {entity for entity in answers} if length == 0 else set()
        for path in itertools.product(entries, repeat=length) if length else ():
            if all(a[1] == b[0] for a, b in itertools.pairwise(path)) and path[-1][1] in answers:
                starts.add(path[0][0])
        assert set(np.flatnonzero(found[length, :, 1])) == starts
