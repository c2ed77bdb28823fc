"""Metrics of ranked, weighted answers, over plain Python and numpy values."""

import dataclasses

import numpy as np
import scipy.sparse

CUTOFFS = (1, 5, 10)
SET_THRESHOLD = 0.1


@dataclasses.dataclass(frozen=True)
class Score:
    """One ranking compared with its gold answers."""

    rank: int  # 1-based rank of the best-placed gold answer; 0 if there is none
    precision: float  # of the predicted set, see `score`
    recall: float  # likewise
    f1: float  # likewise


def score(ranked, weights, gold, set_threshold: float = SET_THRESHOLD) -> Score:
    """Scores a ranking, best first, whose weights fall, against the `gold` answers.

    The predicted set has the answers with at least the share `set_threshold` of the best weight.
    ValueError if `gold` is empty.
    """
    gold = set(gold)
    if not gold:
        raise ValueError('a question without gold answers cannot be scored')
    rank = next((i for i, answer in enumerate(ranked, 1) if answer in gold), 0)
    predicted = {a for a, w in zip(ranked, weights) if w >= set_threshold * weights[0] and w > 0}
    correct = len(predicted & gold)
    precision = correct / len(predicted) if predicted else 0.0
    recall = correct / len(gold)
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return Score(rank, precision, recall, f1)


def summarise(scores: list[Score]) -> dict[str, float]:
    """Means over all questions: hits@{1,5,10}, mrr, set_f1."""
    ranks = np.array([s.rank for s in scores])
    ranked = ranks > 0
    out = {f'hits@{cutoff}': float((ranked & (ranks <= cutoff)).mean()) for cutoff in CUTOFFS}
    out['mrr'] = float(np.where(ranked, 1.0 / np.maximum(ranks, 1), 0.0).mean())
    out['set_f1'] = float(np.mean([s.f1 for s in scores]))
    return out


def adjacency(topic, target, num_entities: int) -> scipy.sparse.csr_array:
    """The graph of a memory of entries `topic`, `target` [N] int: [n, n] float32.

    1 where it has an entry (topic, target).
    """
    pairs = scipy.sparse.coo_array(
        (np.ones(len(topic), np.float32), (topic, target)), shape=(num_entities, num_entities)
    )
    out = pairs.tocsr()
    out.data[:] = 1
    return out


def reachable(graph: scipy.sparse.csr_array, answers, hops: int) -> np.ndarray:
    """Entities from which an answer is exactly j hops away, j = 0 .. hops, by any relation.

    [hops + 1, n, B] bool.

    Row 0 marks the answers themselves: entity ids of each of B questions. The graph is that of
    `adjacency`.
    """
    out = np.zeros((hops + 1, graph.shape[0], len(answers)), bool)
    for question, ids in enumerate(answers):
        out[0, list(ids), question] = True
    for hop in range(hops):
        out[hop + 1] = graph @ out[hop].astype(np.float32) > 0
    return out
