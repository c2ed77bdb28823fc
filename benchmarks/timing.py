"""What benchmarks share: their command line, the lines that they print, and fair timing.

It imports JAX only where it is used: `others.py` compares what processes hold.
"""

import argparse
import importlib.util
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

DATA = pathlib.Path('../shared/data')
# A subject of a benchmark: from its options the lines that it prints.
Subject = Callable[[argparse.Namespace], Iterable[dict]]


def run(doc: str, subjects: Mapping[str, Subject] | Subject, **options: Any) -> None:
    """Reads the command line of a benchmark, and prints each result of its subject.

    Help shows `doc`, which says what options are; --json prints a result on a line. An option is of
    the type of its default, or is a type without a default; a list is written with commas, a tuple
    has the choices, the first by default, and False is a switch.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if isinstance(subjects, Mapping):
        parser.add_argument('subject', choices=subjects)
    for name, default in {'json': False, **options}.items():
        one = default[0] if isinstance(default, (list, tuple)) else default
        kind: Any = one if isinstance(one, type) else type(one)
        how: dict[str, Any] = {'type': kind, 'default': None if kind is one else one}
        if default is False:
            how = {'action': 'store_true'}
        elif isinstance(default, list):
            parse = lambda text, kind=kind: [kind(each) for each in text.split(',')]
            how = {'type': parse, 'default': default}
        elif isinstance(default, tuple):
            how['choices'] = default
        parser.add_argument(f'--{name}', help=f'default: {how.get("default", False)}', **how)
    given = parser.parse_args()
    subject = subjects[given.subject] if isinstance(subjects, Mapping) else subjects
    for line in subject(given):
        print(json.dumps(line, indent=None if given.json else 1), flush=True)


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Some options by their names, to be printed with what was measured."""
    return {name: getattr(options, name) for name in names}


def milliseconds(seconds: Mapping[str, float]) -> dict[str, float]:
    """Times as they are printed."""
    return {name: round(1e3 * spent, 3) for name, spent in seconds.items()}


def over(seconds: Mapping[str, float], baseline: str) -> dict[str, float]:
    """Each time over that of a baseline."""
    return {name: round(spent / seconds[baseline], 3) for name, spent in seconds.items()}


def torch_device() -> str | None:
    """The device on which PyTorch can be compared with JAX, if any."""
    if not importlib.util.find_spec('torch'):
        return None
    import jax
    import torch

    device = {'gpu': 'cuda', 'cpu': 'cpu'}.get(jax.default_backend())
    return device if device != 'cuda' or torch.cuda.is_available() else None


def medians(
    functions: Mapping[str, Callable[[], object]], calls: int = 5, limit: float = 60
) -> dict[str, float]:
    """Median seconds of each function, called in turn: a busy moment of the machine falls on all.

    The first call of each, which may compile, is not counted; no round of `calls` begins once
    `limit` seconds were measured in all.
    """
    import jax

    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        jax.block_until_ready(function())
    for _ in range(calls):
        for name, function in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(function())
            seconds[name].append(time.perf_counter() - start)
        if sum(map(sum, seconds.values())) > limit:
            break
    return {name: statistics.median(times) for name, times in seconds.items()}
