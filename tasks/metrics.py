"""Metric functions of SeqIO tasks, see `seqio.Task`."""

import numpy as np

from opql_jax.core.errors import InputError

CUTOFFS = (1, 5, 10)


def ranked_entities(targets, predictions) -> dict[str, float]:
    """Hits@{1,5,10}, and `answer_coverage`, the share of questions with an answer in the memory.

    Questions without one count as wrong; questions without gold answers do not count.

    Args:
        targets: of each batch [n, A], see `EachQuestion.targets`.
        predictions: entity ids of each batch, [n, K], best first; -1 where there are fewer.

    Raises:
        InputError: no answer is known to any question.
    """
    rows = [
        row
        for batch in zip(targets, predictions, strict=True)
        for row in zip(*map(np.asarray, batch), strict=True)
    ]
    rows = [(answers[answers >= 0], ranked) for answers, ranked in rows if (answers != -1).any()]
    if not rows:
        raise InputError(
            'no question has gold answers, so nothing can be scored: evaluate a set that has'
        )
    found = [np.flatnonzero(np.isin(ranked, known)) for known, ranked in rows]
    hits = {
        f'hits@{cutoff}': float(np.mean([bool((at < cutoff).any()) for at in found]))
        for cutoff in CUTOFFS
    }
    return hits | {'answer_coverage': float(np.mean([len(known) > 0 for known, _ in rows]))}


def mean_loss(targets, scores) -> dict[str, float]:
    """The mean of the losses; `scores` are their negatives, one a batch. Targets are not used."""
    del targets
    return {'loss': -float(np.mean(scores))}
