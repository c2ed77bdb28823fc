"""Metrics of ranked, weighted answers, over plain Python and numpy values."""

from collections.abc import Container, Iterable, Sequence

import numpy as np
import scipy.sparse

CUTOFFS = (1, 5, 10)
SET_THRESHOLD = 0.1


def hits(rank: int, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, bool]:
    """Whether the best-placed right answer is among the first so many: hits@{cutoff}."""
    return {f'hits@{cutoff}': 0 < rank <= cutoff for cutoff in cutoffs}


def rank_of(ranked: Iterable, gold: Container) -> int:
    """The 1-based rank of the best-placed answer that is in `gold`; 0 if there is none."""
    return next((place for place, answer in enumerate(ranked, 1) if answer in gold), 0)


def score(ranked, weights, gold, set_threshold: float = SET_THRESHOLD) -> dict[str, float]:
    """Hits@{1,5,10}, mrr and set_f1 of a ranking of falling weights; ValueError without `gold`.

    The predicted set has the answers with at least the share `set_threshold` of the best weight.
    """
    gold = set(gold)
    if not gold:
        raise ValueError('a question without gold answers cannot be scored')
    predicted = {a for a, w in zip(ranked, weights) if w >= set_threshold * weights[0] and w > 0}
    rank, correct = rank_of(ranked, gold), len(predicted & gold)
    mrr, f1 = 1 / rank if rank else 0.0, 2 * correct / (len(predicted) + len(gold))
    return hits(rank) | {'mrr': mrr, 'set_f1': f1}


def adjacency(topic, target, num_entities: int) -> scipy.sparse.csr_array:
    """The graph of a memory's entries `topic`, `target` [N] int: [n, n] float32, 1 for an entry."""
    pairs = scipy.sparse.coo_array(
        (np.ones(len(topic), np.float32), (topic, target)), shape=(num_entities, num_entities)
    )
    out = pairs.tocsr()
    out.data[:] = 1
    return out


def reachable(graph: scipy.sparse.csr_array, answers, hops: int) -> np.ndarray:
    """Entities from which an answer is exactly j hops away, j = 0 .. hops: [hops + 1, n, B] bool.

    Row 0 marks the answers, entity ids of each of B questions. `graph` is that of `adjacency`.
    """
    out = np.zeros((hops + 1, graph.shape[0], len(answers)), bool)
    for question, ids in enumerate(answers):
        out[0, list(ids), question] = True
    for hop in range(hops):
        out[hop + 1] = graph @ out[hop].astype(np.float32) > 0
    return out
