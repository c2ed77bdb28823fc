"""Reads the bytes that devices exchange, and the cycles of a run, from the text of a compiled program."""

import re

import numpy as np

_COLLECTIVE = re.compile(r'= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(')
# The name and the lines of each computation.
_COMPUTATION = re.compile(r'^(?:ENTRY )?%([\w.-]+) \(.*\{\n((?:  .*\n)*)\}', re.MULTILINE)
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


def estimated_cycles(text: str) -> int:
    """Cycles that the TPU compiler estimates for a run, loop bodies as often as they run; instructions without an estimate count 0.

    Of a loop up to a constant, as `lax.scan` and `fori_loop` make them; the body of another counts once. Of a condition the branch
    that takes longest counts.
    """
    computations = {m[1]: m[2] for m in _COMPUTATION.finditer(text)}
    cycles: dict[str, int] = {}
    for name, body in computations.items():  # callers, and last the entry, stand after what they call
        cycles[name] = sum(map(int, re.findall(r'"estimated_cycles":"(\d+)"', body)))
        cycles[name] += sum(cycles[called] for called in re.findall(r'(?:calls|to_apply)=%([\w.-]+)', body))
        for loop in re.findall(r' while\(.*', body):
            condition, inner = (re.search(rf'\b{part}=%([\w.-]+)', loop)[1] for part in ('condition', 'body'))
            limit = re.findall(r'= [su]32\[\]\S* constant\((\d+)\)', computations[condition])
            cycles[name] += cycles[inner] * (int(limit[0]) if len(limit) == 1 else 1)
        for branches in re.findall(r'branch_computations=\{(.*?)\}', body):
            cycles[name] += max(cycles[branch] for branch in re.findall(r'%([\w.-]+)', branches))
        for yes, no in re.findall(r'true_computation=%([\w.-]+), false_computation=%([\w.-]+)', body):
            cycles[name] += max(cycles[yes], cycles[no])
    return cycles[list(computations)[-1]]
