"""The probability that a candidate answer is right.

A logistic regression over the features of `kb.text.candidates`, by name.
`benchmarks/calibration.py` fits its weights, and measures the calibration error on questions over
several corpora, with the weights in use and with those fitted to the other corpora. They are for
answers without training, which adds an offset to the log-odds, fitted to held-out questions.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

FEATURES = (
    # The reader's log-odds that the candidate answers; if the question takes several steps, of the
    # mean over the question and its last step.
    'read',
    'read_share',  # its share of the reader's probability of all spans
    'long',  # whether it has many words: such often hold more than the answer
    # The reader's log-odds that the passages do not answer; the least there is for a candidate that
    # stands in none of them.
    'unanswered',
    # Log-odds of its share of the weight that following relations found, clipped to
    # [-CERTAIN, CERTAIN].
    'share',
    # How well the facts of the best path fit the question; 0 for what following did not find.
    'fit',
    'kind',  # whether it is of the kind that the question asks for: 1, -1, or 0 if unknown
    'other',  # whether it is of another kind
    # Whether the best path begins at an entity whose full name is in the question, or at sentences.
    'linked',
    # Whether sentences like the question were searched, because no name in it leads to an answer;
    # 0 likewise.
    'sentences',
    # Words of the question beyond a few, without its names: a long one says more than following
    # can use.
    'length',
)
# Shares and probabilities are clipped to [LEAST, 1 - LEAST].
LEAST = 1e-4
# Log-odds beyond which a share says no more.
CERTAIN = 3.0
# An answer with at least this probability is sure.
SURE = 0.6
# With a reader: fitted to questions over seven kinds of text, a third of them without an answer
# there; 0.2 log-odds are added, because people ask fewer such.
READ: Mapping[str, float] = {
    'bias': -1.722,
    'read': 0.395,
    'read_share': 0.862,
    'long': -1.439,
    'unanswered': -0.095,
    'share': 0.135,
    'fit': 0.575,
    'kind': 0.532,
}
# Without one. The weight of `fit` comes from 1,999 questions on films, of one and two hops. The
# others were chosen on five kinds of text, with and without an answer there, so that an answer that
# fits clearly stays sure: see docs/experiments/plain_text.md.
FOLLOWED: Mapping[str, float] = {
    'bias': -4.2,
    'share': 0.35,
    'fit': 4.089,
    'sentences': -2.6,
    'other': -1.0,
    'linked': 0.9,
    'length': -0.3,
}
# Factor of the probability where no name in the question leads to an answer.
_UNNAMED = 0.75


def probabilities(
    features: np.ndarray, weights: Mapping[str, float], added: float = 0.0
) -> np.ndarray:
    """The probability [n] float64 that each candidate is right.

    They need not sum to 1: several candidates may be right, or none.

    Args:
        features: [n, len(FEATURES)], see `candidates.features`.
        weights: by feature name, with 'bias'; a feature without a weight does not count.
        added: what is added to the log-odds, see `fit_added`.
    """
    weighted = features @ np.array([weights.get(name, 0.0) for name in FEATURES])
    return _sigmoid(weighted + weights['bias'] + added)


def read_probabilities(
    features: np.ndarray, weights: Mapping[str, float] = READ, added: float = 0.0
) -> np.ndarray:
    """The probability [n] float64 that each candidate, followed or read, is right.

    A candidate from a passage that the reader saw is at most as probable as the reader says that
    these passages answer at all. All are less probable if no name in the question leads anywhere.
    """
    of = lambda name: features[:, FEATURES.index(name)]
    chances = np.minimum(probabilities(features, weights, added), _sigmoid(-of('unanswered')))
    names_lead = ((of('linked') > 0) & (of('sentences') == 0)).any()
    return chances if names_lead else _UNNAMED * chances


def log_odds(probabilities: np.ndarray | float) -> np.ndarray:
    """Log-odds of probabilities or shares, clipped to [LEAST, 1 - LEAST]."""
    clipped = np.clip(probabilities, LEAST, 1 - LEAST)
    return np.log(clipped) - np.log1p(-clipped)


def fit_added(log_odds: np.ndarray, right: np.ndarray) -> float:
    """The offset of log-odds that makes the mean probability the share of right answers.

    Args:
        log_odds: [n] that each answer is right.
        right: [n] whether it is. Half an answer more counts as right, so that the offset is finite
            if all are right, or none.
    """
    from scipy import optimize  # which takes half a second, and no answer needs it

    wanted = (right.sum() + 0.5) / (len(right) + 1)
    return float(optimize.brentq(lambda added: _sigmoid(log_odds + added).mean() - wanted, -50, 50))


def _sigmoid(log_odds: np.ndarray) -> np.ndarray:
    """Probabilities of log-odds; SciPy's takes longer to import than a question to answer."""
    return np.exp(-np.logaddexp(0.0, -log_odds))
