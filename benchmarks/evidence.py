"""How probable it is that a passage is evidence: the fit, and how far it is from what comes true.

python benchmarks/evidence.py --kb KB --questions FILE --json

Questions are JSON Lines `{"question", "supporting": [ids of documents]}`; some should have no
supporting document in the knowledge base, as users ask about what a text does not say. It prints
the weights of `opql_jax.retrieval.evidence.FITTED` anew, and of each half of the questions, fitted
to the other one, the Brier score of the best passages beside that of their ranking scores, and how
often a passage that counts as evidence (a probability of 0.5 or a score of 0.5) comes first for a
question that has none.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from calibration import logistic
from timing import make_parser, show

from opql_jax.corpus.json_lines import read_json_lines
from opql_jax.kb.open_kb import open_kb
from opql_jax.kb.virtual_kb import VirtualKB
from opql_jax.retrieval import evidence
from opql_jax.retrieval.rank import Ranker

# Passages of each question that are looked at, and the penalty on weights of standardised
# quantities.
K, DECAY = 10, 1e-2


class Asked(NamedTuple):
    """A question's best passages: quantities [K, 5], ranking scores [K], whether evidence [K]."""

    quantities: np.ndarray
    scores: np.ndarray
    right: np.ndarray


def read(kb: VirtualKB, path: pathlib.Path) -> list[Asked]:
    """What is known of the questions of a file."""
    retriever, asked = kb.retriever, []
    ranker = Ranker(retriever.index, relations=retriever.relations)
    for _, record in read_json_lines(path):
        (question,) = retriever.questions([record['question']])
        (view,) = ranker.views([question])
        ranked = ranker.rank(question, K)
        passages = np.array([one.passage for one in ranked])
        scores = np.array([one.score for one in ranked])
        right = np.array([retriever.documents[row] in record['supporting'] for row in passages])
        asked.append(Asked(evidence.quantities(view, passages, scores), scores, right))
    return asked


def fit(asked: Sequence[Asked]) -> evidence.Weights:
    """The weights under which what is evidence is most probable."""
    found = np.concatenate([one.quantities for one in asked])
    right = np.concatenate([one.right for one in asked])
    bias, weights = logistic(found, right, DECAY, np.full(len(found), 1 / len(found)), 0.0)
    return evidence.Weights(*np.round([bias, *weights], 3).tolist())


def measure(asked: Sequence[Asked], weights: evidence.Weights) -> dict[str, float]:
    """Brier scores of best passages, and shares of false evidence where a question has none."""
    first = np.array([evidence.probabilities(one.quantities, weights)[0] for one in asked])
    score = np.array([one.scores[0] for one in asked])
    right = np.array([one.right[0] for one in asked])
    none = np.array([not one.right.any() for one in asked])
    told = {}
    for name, best in (('', first), ('_of_scores', score)):
        told[f'brier{name}'] = round(float(np.mean((best - right) ** 2)), 3)
        told[f'false_evidence{name}'] = round(float(np.mean(best[none] >= 0.5)), 3)
    return told | {'questions': len(asked), 'without_evidence': int(none.sum())}


def main() -> None:
    """Fits, and prints."""
    parser = make_parser(__doc__)
    parser.add_argument('--kb', required=True)
    parser.add_argument('--questions', type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    asked = read(open_kb(arguments.kb), arguments.questions)
    halves = asked[::2], asked[1::2]
    for half, other in (halves, halves[::-1]):
        show(measure(half, fit(other)), arguments.json)
    show({'weights': fit(asked)._asdict()}, arguments.json)


if __name__ == '__main__':
    main()
