"""Metrics, against definitions written out the slow way."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opql_jax.evaluation import metrics
from opql_jax.evaluation.metrics import means

ANSWERS = 'abcdefghijkl'
# Steps of 1/16 are exact in binary, so that a weight can lie exactly on the threshold.
WEIGHTS = st.lists(st.integers(0, 16), max_size=14).map(
    lambda values: [v / 16 for v in sorted(values, reverse=True)]
)


@st.composite
def rankings(draw):
    """(answers, weights, gold), with ties, repetitions, weights of 0 and unknown gold answers."""
    weights = draw(WEIGHTS)
    ranked = draw(st.lists(st.sampled_from(ANSWERS), min_size=len(weights), max_size=len(weights)))
    return ranked, weights, draw(st.sets(st.sampled_from(ANSWERS + '?!'), min_size=1, max_size=6))


@given(rankings(), st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]))
def test_a_score_and_its_metrics_are_what_their_definitions_say(ranking, threshold):
    scored, (ranked, weights, gold) = metrics.score(*ranking, set_threshold=threshold), ranking
    rank = next((place for place, answer in enumerate(ranked, 1) if answer in gold), 0)
    least = Fraction(threshold) * Fraction(max(weights, default=0))
    said = {answer for answer, weight in zip(ranked, weights) if 0 < weight >= least}
    f1 = Fraction(2 * len(said & gold), len(said) + len(gold))
    assert metrics.rank_of(ranked, gold) == rank
    hits = {f'hits@{n}': 0 < rank <= n for n in (1, 5, 10)}
    assert scored == pytest.approx(hits | {'mrr': rank and 1 / rank, 'set_f1': float(f1)})


@given(st.lists(st.dictionaries(st.sampled_from('ab'), st.integers(0, 9)), max_size=5))
def test_a_mean_is_over_the_rows_that_have_the_metric(rows):
    values = {name: [row[name] for row in rows if name in row] for name in 'ab'}
    expected = {name: sum(found) / len(found) for name, found in values.items() if found}
    assert means(rows) == pytest.approx(expected)


def test_a_question_without_gold_answers_cannot_be_scored():
    with pytest.raises(ValueError, match='without gold answers'):
        metrics.score(['a'], [1.0], set())
