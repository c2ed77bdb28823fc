"""How probable it is that an answer over plain text is right.

A logistic regression on what the search tells: the share of the weight that an entity has, and how well the facts of the best path fit the
question. `benchmarks/calibration.py` fits the numbers, and measures how far the probabilities are from what comes true. They are those of untrained
answers; training with questions adds a number to the log-odds, so that they come true on questions that were left out.
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special

# An answer with at least this probability is sure: more likely right than wrong, for questions such as the numbers were fitted to.
SURE = 0.5
# Shares are clipped to [_CLOSEST, 1 - _CLOSEST].
_CLOSEST = 1e-4


class Coefficients(NamedTuple):
    """The weights of the regression: of the log-odds of an answer's share, and of how well the facts fit."""

    bias: float
    share: float
    fit: float


# Of 1,999 of MetaQA's development questions, of one and two hops, over its passages.
FITTED = Coefficients(bias=-3.26, share=0.219, fit=4.089)


def probabilities(shares: np.ndarray, fit: float, coefficients: Coefficients = FITTED, added: float = 0.0) -> np.ndarray:
    """The probability of each answer to be right: [n] float32, falling with its share of the weight.

    They add up to more than 1 where several answers are probably right, and to less where none is.

    Args:
        shares: [n] of the weight.
        fit: of the facts, see `TextAnswerer.fit`.
        coefficients: as they were fitted.
        added: to the log-odds, see `fit_added`.
    """
    logits = added + coefficients.bias + coefficients.share * log_odds(shares) + coefficients.fit * fit
    return (1 / (1 + np.exp(-logits))).astype(np.float32)


def log_odds(shares: np.ndarray) -> np.ndarray:
    """Of each share of the weight against the rest."""
    shares = np.clip(shares, _CLOSEST, 1 - _CLOSEST)
    return np.log(shares / (1 - shares))


def fit_added(log_odds: np.ndarray, right: np.ndarray) -> float:
    """What to add to the log-odds of answers, so that their mean probability is the share of those that are right.

    Args:
        log_odds: [n] that each answer is right.
        right: [n] whether it is. Half of one more answer counts as right, so that there is a number where all are, or none is.
    """
    wanted = (right.sum() + 0.5) / (len(right) + 1)
    return float(scipy.optimize.brentq(lambda added: scipy.special.expit(log_odds + added).mean() - wanted, -50, 50))
