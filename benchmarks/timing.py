"""What benchmarks share: their options, the lines that they print, and fair timing.

It imports JAX only where it is used: `others.py` compares what processes hold.
"""

import argparse
import functools
import importlib.util
import json
import pathlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

DATA = pathlib.Path('../shared/data'), 'the folder of the data sets'


def make_parser(description: str, **options: tuple[Any, str]) -> argparse.ArgumentParser:
    """A parser whose help shows a module's docstring as it is written, with the option --json.

    Each of `options` is a default and what it means. Its type is that of the default; lists are
    written with commas, and False is a switch.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--json', action='store_true', help='print each result as JSON on one line')
    for name, (default, meaning) in options.items():
        if default is False:
            parser.add_argument(f'--{name}', action='store_true', help=meaning)
        else:
            kind = type(default[0] if isinstance(default, list) else default)
            if isinstance(default, list):
                kind = functools.partial(_listed, kind)
            parser.add_argument(f'--{name}', type=kind, default=default, help=meaning)
    return parser


def _listed(kind: Callable[[str], Any], text: str) -> list:
    return [kind(one) for one in text.split(',') if one]


def chosen(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Some options by their names, to be printed with what was measured."""
    return {name: getattr(options, name) for name in names}


def show(line: dict, as_json: bool) -> None:
    """Prints one result."""
    print(json.dumps(line) if as_json else json.dumps(line, indent=1), flush=True)


def torch_device() -> str | None:
    """The device on which PyTorch can be compared with JAX, if any."""
    if not importlib.util.find_spec('torch'):
        return None
    import jax
    import torch

    platform = jax.default_backend()
    if platform == 'gpu':
        return 'cuda' if torch.cuda.is_available() else None
    return 'cpu' if platform == 'cpu' else None


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
