"""Metrics of ranked, weighted answers, {metric: value} a case, their means, and tables."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import scipy.sparse

CUTOFFS = (1, 5, 10)
SET_THRESHOLD = 0.1
_Case = TypeVar('_Case')


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


def means(rows: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over the rows that have it."""
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    return {name: float(np.mean(found)) for name, found in values.items()}


def grouped(cases: Iterable[_Case], group: Callable[[_Case], Any]) -> dict[Any, list[_Case]]:
    """Cases by group, the groups in rising order."""
    groups: dict[Any, list[_Case]] = {}
    for case in cases:
        groups.setdefault(group(case), []).append(case)
    return dict(sorted(groups.items()))


def table(metrics: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A line for each set of {set: metrics}, with the metrics below their names."""
    first = max(map(len, metrics))
    widths = [max(len(column), 8) + 2 for column in columns]
    lines = [' ' * first + ''.join(f'{name:>{n}}' for name, n in zip(columns, widths))]
    for name, row in metrics.items():
        cells = (_cell(row.get(column)).rjust(n) for column, n in zip(columns, widths))
        lines.append(f'{name:{first}}' + ''.join(cells))
    return '\n'.join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return '–'
    return f'{value:.4f}' if isinstance(value, float) else str(value)
