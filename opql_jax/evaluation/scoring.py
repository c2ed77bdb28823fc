"""From the scores of single cases to metrics and their table, for all evaluations of answers.

A case has a row of scores, {metric: value}, without metrics that it has no value for. What is
asked, and what makes an answer good, is up to the evaluation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

_Case = TypeVar('_Case')


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
