"""How probable it is that a passage is evidence for an answer, comparable between questions.

The score of a passage is its share of the chains for one question, so the best passage of a corpus
that knows nothing about the question has a high one, too. This is a logistic regression on that
score and on how well the passage, and the best one of the corpus, suit the question by themselves.
`benchmarks/retrieval.py evidence` fits its numbers.
"""

from typing import NamedTuple

import numpy as np
import scipy.special

from opql_jax.retrieval.view import FIRST, View

_WORDS = FIRST.index('words')
# Scores are clipped to [_CLOSEST, 1 - _CLOSEST].
_CLOSEST = 1e-4


class Weights(NamedTuple):
    """Of the score's log-odds, the passage's BM25 (a share) and cosine, and the corpus' best."""

    bias: float
    score: float
    words: float
    cosine: float
    most_words: float
    most_cosine: float


# Of 108 development questions of MuSiQue and HotpotQA over 236 of their documents, which have no
# evidence for 50 of them. Fitted to half of the questions, the Brier score of the other half's best
# passages is 0.117 and 0.046 (scores: 0.255 and 0.181).
FITTED = Weights(
    bias=-6.213, score=0.358, words=0.709, cosine=5.848, most_words=1.871, most_cosine=4.316
)


def quantities(view: View, passages: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """What the regression is on, but the bias: [n, 5] of passages [n] with their scores [n]."""
    clipped = np.clip(scores, _CLOSEST, 1 - _CLOSEST)
    words, cosines = view.first[:, _WORDS], view.cosines
    of_passage = [np.log(clipped / (1 - clipped)), words[passages], cosines[passages]]
    of_corpus = [np.full(len(passages), column.max()) for column in (words, cosines)]
    return np.stack([*of_passage, *of_corpus], 1)


def probabilities(quantities: np.ndarray, weights: Weights = FITTED) -> np.ndarray:
    """The probability [n] that each passage is evidence, of `quantities` [n, 5]."""
    return scipy.special.expit(weights.bias + quantities @ np.array(weights[1:]))
