"""Reads the bytes that devices exchange from the text of a compiled program."""

import re

import numpy as np

_COLLECTIVE = re.compile(r'= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(')
_ARRAY = re.compile(r'\b(?:pred|[a-z]+(\d+))\[([\d,]*)\]')


def received_bytes(compiled, devices: int) -> dict[str, int]:
    """Bytes that a device receives in one run, by kind of collective."""
    received: dict[str, int] = {}
    for shapes, kind in _COLLECTIVE.findall(compiled.as_text()):
        # An all-reduce is a reduce-scatter and an all-gather; the result of a reduce-scatter is one device's share.
        times = {'all-reduce': 2, 'reduce-scatter': devices}.get(kind, 1) * (devices - 1) / devices
        for bits, dims in _ARRAY.findall(shapes):
            # A bool takes a byte.
            size = int(bits or 8) // 8 * int(np.prod([int(n) for n in dims.split(',') if n]))
            received[kind] = received.get(kind, 0) + round(times * size)
    return received


def arrays_exchanged(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """(kind of collective, shape) of each array that a program exchanges, from the text of the compiled program."""
    found = []
    for shapes, kind in _COLLECTIVE.findall(text):
        found += [(kind, tuple(int(n) for n in dims.split(',') if n)) for _, dims in _ARRAY.findall(shapes)]
    return found
