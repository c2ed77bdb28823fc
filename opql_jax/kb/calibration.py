"""The one score of what may answer a question: how probable it is that it is right.

A logistic regression on the features of `kb.text.candidates`, by name. `benchmarks/calibration.py`
measures on questions of several corpora how far the probabilities are from what comes true, with
the weights in use and with those that are fitted to the other corpora. They are those of untrained
answers; training with questions adds a number to the log-odds, so that they come true on questions
that were left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.special

FEATURES = (
    # log-probability that the candidate answers, by the reader, the mean of the question's and its
    # last step's if it takes several.
    'read',
    'read_share',  # its share of what the reader gives to places in the text
    'long',  # whether it has many words, and is often more than the answer
    # log-odds that the passages do not answer, by the reader; as low as can be if the candidate
    # stands in none of them.
    'unanswered',
    # log-odds of its share of the weight of what following relations found, cut at [-CERTAIN,
    # CERTAIN].
    'share',
    # How well the facts of the best path fit the question; 0 for what following did not find.
    'fit',
    'kind',  # whether it is of the kind that is asked for: 1, 0, -1
    'other',  # whether it is of another kind than is asked for
    # Whether the best path begins at an entity whose whole name the question has, or at sentences.
    'linked',
    # Whether sentences like the question were looked at, as no name in it leads to an answer; 0
    # likewise.
    'sentences',
    # Words of the question beyond a few, its names aside: a long one states more than following
    # looks at.
    'length',
)
# Shares and probabilities are clipped to [LEAST, 1 - LEAST].
LEAST = 1e-4
_LEAST_COMPARED = 3e-3
# Log-odds of a share beyond which it says no more.
CERTAIN = 3.0
# An answer with at least this probability is sure.
SURE = 0.6
# With a reader: fitted to questions over six kinds of text, a third of which have no answer there,
# and 0.2 more log-odds, as fewer of those that people ask have none.
READ: Mapping[str, float] = {
    'bias': -1.038,
    'read': 0.323,
    'read_share': 1.212,
    'long': -1.665,
    'share': 0.254,
    'fit': 0.375,
    'kind': 0.298,
}
# Without one. That of the fit is of 1,999 questions on films, of one and two hops. The others were
# chosen on five kinds of text, with questions that have an answer there and some that have none, so
# that an answer of a clear fit stays sure: see docs/experiments/plain_text.md.
FOLLOWED: Mapping[str, float] = {
    'bias': -4.2,
    'share': 0.35,
    'fit': 4.089,
    'sentences': -2.6,
    'other': -1.0,
    'linked': 0.9,
    'length': -0.3,
}
# Of what two values, or one, decide, by the log-odds that these are right, and that the passages
# answer each question for one: fitted to 270 comparisons and questions of yes or no that labels of
# documents answer, and 90 that they do not. Without a reader likewise.
COMPARED_READ: Mapping[str, float] = {
    'bias': 0.35,
    'values': 0.87,
    'answered': 0.42,
    'single': -1.6,
}
COMPARED: Mapping[str, float] = {'bias': 1.6, 'values': 1.0, 'single': -1.6}
# What is left of a probability where no name of the question leads to an answer.
_UNNAMED = 0.75
# Of the weights of standardised features, but for the bias: a penalty on their squares.
_DECAY = 1e-3


def probabilities(
    features: np.ndarray, weights: Mapping[str, float], added: float = 0.0
) -> np.ndarray:
    """The probability that each candidate is right: [n] float64.

    They need not add up to 1, as several may be right, or none.

    Args:
        features: [n, len(FEATURES)], see `candidates.features`.
        weights: by the names of features, and 'bias'; a feature without a weight does not count.
        added: to the log-odds, see `fit_added`.
    """
    return scipy.special.expit(_weighted(features, weights) + added)


def _weighted(features: np.ndarray, weights: Mapping[str, float]) -> np.ndarray:
    return features @ np.array([weights.get(name, 0.0) for name in FEATURES]) + weights['bias']


def read_probabilities(
    features: np.ndarray, weights: Mapping[str, float] = READ, added: float = 0.0
) -> np.ndarray:
    """The probability that each candidate, followed or read, is right: [n] float64.

    That of a candidate whose passage the reader saw is at most the reader's probability that these
    passages answer: where they do not, no answer from them is sure. All are less probable where no
    name of the question leads anywhere.
    """
    of = lambda name: features[:, FEATURES.index(name)]
    chances = np.minimum(
        probabilities(features, weights, added), scipy.special.expit(-of('unanswered'))
    )
    names_lead = ((of('linked') > 0) & (of('sentences') == 0)).any()
    return chances if names_lead else _UNNAMED * chances


def compared_probability(values: float, answered: float | None, is_single: bool) -> float:
    """The probability that what values decide is right.

    Args:
        values: the probability that they are right, all of them.
        answered: the least by which the passages answer one of their questions, by the reader; None
            without one.
        is_single: whether one value decides, that of a question of yes or no, rather than two.
    """
    weights = COMPARED if answered is None else COMPARED_READ
    clipped = lambda probability: log_odds(
        np.clip(probability, _LEAST_COMPARED, 1 - _LEAST_COMPARED)
    )
    said = weights['bias'] + weights['values'] * clipped(values) + weights['single'] * is_single
    return float(
        scipy.special.expit(
            said + (0 if answered is None else weights['answered'] * clipped(answered))
        )
    )


def fit(
    features: np.ndarray,
    right: np.ndarray,
    names: Sequence[str] = FEATURES,
    groups: np.ndarray | None = None,
    fixed: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The weights that maximise the mean log-probability of right and wrong, less a penalty.

    Args:
        features: [n, len(FEATURES)] of candidates of many questions.
        right: [n] whether each is right.
        names: the features that count.
        groups: [n] such as the corpus of each, which count alike however many candidates they have;
            all count alike if None.
        fixed: weights that are given, of other features.
    """
    from scipy import optimize  # which takes half a second, and no answer needs it

    chosen = [FEATURES.index(name) for name in names]
    mean, spread = features[:, chosen].mean(0), features[:, chosen].std(0) + 1e-6
    x = np.column_stack([np.ones(len(features)), (features[:, chosen] - mean) / spread])
    sign = np.where(right, 1, -1)
    offset = _weighted(features, {'bias': 0.0, **(fixed or {})})
    counts = (
        np.ones(len(features))
        if groups is None
        else 1 / np.unique(groups, return_counts=True)[1][np.unique(groups, return_inverse=True)[1]]
    )
    share = counts / counts.sum()

    def loss(weights):
        odds = sign * (x @ weights + offset)
        penalty = _DECAY * np.concatenate([[0], weights[1:]])
        return share @ np.logaddexp(0, -odds) + penalty @ weights, 2 * penalty - (
            share * sign * scipy.special.expit(-odds)
        ) @ x

    bias, *weights = optimize.minimize(loss, np.zeros(x.shape[1]), jac=True, method='L-BFGS-B').x
    weights = weights / spread
    found = {name: float(weight) for name, weight in zip(names, weights)}
    return {'bias': float(bias - weights @ mean), **(fixed or {}), **found}


def log_odds(probabilities: np.ndarray | float) -> np.ndarray:
    """Of probabilities or shares, which are taken to be neither 0 nor 1."""
    return scipy.special.logit(np.clip(probabilities, LEAST, 1 - LEAST))


def fit_added(log_odds: np.ndarray, right: np.ndarray) -> float:
    """What to add to answers' log-odds so that their mean probability is the share of right ones.

    Args:
        log_odds: [n] that each answer is right.
        right: [n] whether it is. Half of one more answer counts as right, so that there is a number
            where all are, or none is.
    """
    from scipy import optimize  # as above

    wanted = (right.sum() + 0.5) / (len(right) + 1)
    return float(
        optimize.brentq(
            lambda added: scipy.special.expit(log_odds + added).mean() - wanted, -50, 50
        )
    )
