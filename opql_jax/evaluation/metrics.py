"""Metrics over ranked, weighted answers. Everything here works on plain Python and numpy values."""

import dataclasses

import numpy as np

CUTOFFS = (1, 5, 10)


@dataclasses.dataclass(frozen=True)
class Scored:
    """One question scored against its gold answers.

    Attributes:
        rank: 1-based rank of the best-placed gold answer; 0 if none was returned.
        precision, recall, f1: of the predicted *set* (see `score`).
    """

    rank: int
    precision: float
    recall: float
    f1: float


def score(ranked, weights, gold, set_threshold: float = 0.1) -> Scored:
    """Scores a ranking.

    Args:
        ranked: answers, best first (any hashable).
        weights: their weights, falling.
        gold: the set of right answers; never empty.
        set_threshold: the predicted set holds the answers with at least this share of the best one's weight.

    Raises:
        ValueError: no gold answers: such a question cannot be scored.
    """
    gold = set(gold)
    if not gold:
        raise ValueError('a question without gold answers cannot be scored')
    rank = next((i for i, answer in enumerate(ranked, 1) if answer in gold), 0)
    chosen = {a for a, w in zip(ranked, weights) if w >= set_threshold * weights[0] and w > 0}
    right = len(chosen & gold)
    precision = right / len(chosen) if chosen else 0.0
    recall = right / len(gold)
    return Scored(rank, precision, recall, 2 * precision * recall / (precision + recall) if right else 0.0)


def summarise(scored: list[Scored]) -> dict[str, float]:
    """Means over all questions: hits@{1,5,10}, mrr, set_f1."""
    ranks = np.array([s.rank for s in scored])
    found = ranks > 0
    out = {f'hits@{cutoff}': float((found & (ranks <= cutoff)).mean()) for cutoff in CUTOFFS}
    out['mrr'] = float(np.where(found, 1.0 / np.maximum(ranks, 1), 0.0).mean())
    out['set_f1'] = float(np.mean([s.f1 for s in scored]))
    return out


def reachable(topic, target, num_entities: int, answers, hops: int) -> np.ndarray:
    """From which entities an answer can be reached in exactly j hops over the memory, j = 0 .. hops, whatever the relation.

    Args:
        topic, target: [N] int, the memory's entries.
        num_entities: n.
        answers: entity ids.
        hops: number of hops.

    Returns:
        [hops + 1, n] bool; row 0 marks the answers themselves.
    """
    out = np.zeros((hops + 1, num_entities), bool)
    out[0, list(answers)] = True
    for hop in range(hops):
        out[hop + 1, topic[out[hop][target]]] = True
    return out
