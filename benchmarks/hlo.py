"""Reads exchanged bytes and cycles of a run from the text of a compiled program."""

import math
import re
from collections.abc import Iterator

_COLLECTIVE = re.compile(
    r'= (.*?) (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)(?:-start)?\('
)
# The name and the lines of each computation.
_COMPUTATION = re.compile(r'^(?:ENTRY )?%([\w.-]+) \(.*\{\n((?:  .*\n)*)\}', re.MULTILINE)
_ARRAY = re.compile(r'\b(?:pred|[a-z]+(\d+))\[([\d,]*)\]')


def _collectives(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """(kind, [(bits, dimensions) of each array it makes]) of each collective of a compiled program.

    A TPU overlaps some with other work, and repeats each in what runs meanwhile and where it ends:
    they count where they begin. `all-reduce-scatter` is its name for a sum of which each device
    keeps a part; it makes the whole of it inside.
    """
    for name, body in _COMPUTATION.findall(text):
        if name.startswith('async_collective_fusion') or '"AsyncCollectiveDone"' in body:
            continue
        for shapes, kind in _COLLECTIVE.findall(body):
            scatter = name.startswith('all-reduce-scatter')
            yield 'all-reduce-scatter' if scatter else kind, _ARRAY.findall(shapes)


def _size(bits: str, dims: str) -> int:
    """Bytes of an array as `_ARRAY` finds it."""
    return int(bits or 8) // 8 * _numbers(dims)  # a bool takes a byte


def _numbers(dims: str) -> int:
    return math.prod(int(n) for n in dims.split(',') if n)


def _received(bits: str, dims: str, kind: str, devices: int) -> int:
    """Bytes that a device receives for an array that a collective makes."""
    # An all-reduce is a reduce-scatter and an all-gather; the result of a reduce-scatter is one
    # device's share.
    times = {'all-reduce': 2, 'reduce-scatter': devices}.get(kind, 1)
    return round(times * (devices - 1) / devices * _size(bits, dims))


def received_bytes(text: str, devices: int) -> dict[str, int]:
    """Bytes that a device receives in one run, by kind of collective."""
    received: dict[str, int] = {}
    for kind, arrays in _collectives(text):
        total = sum(_received(*array, kind, devices) for array in arrays)
        name = kind.replace('all-reduce-scatter', 'reduce-scatter')
        received[name] = received.get(name, 0) + total
    return received


def bytes_of_other_slices(text: str) -> int:
    """Bytes that a TPU receives from other slices in one run, through their hosts."""
    received = re.findall(r'= \((.*?), u32\[\].* recv\(.*"xla_megascale_runtime"', text)
    return sum(_size(*array) for array in _ARRAY.findall(' '.join(received)))


def largest_exchanged(text: str) -> int:
    """How many numbers the largest array has that a program exchanges; 0 if there is none."""
    arrays = [array for _, found in _collectives(text) for array in found]
    return max((_numbers(dims) for _, dims in arrays), default=0)


def estimated_cycles(text: str) -> int:
    """Cycles that the TPU compiler estimates for a run; instructions without an estimate count 0.

    A loop's body counts as often as it runs up to a constant, as those of `lax.scan` and
    `fori_loop` do, else once; of a condition the branch that takes longest counts.
    """
    computations = {m[1]: m[2] for m in _COMPUTATION.finditer(text)}
    cycles: dict[str, int] = {}
    # callers, and last the entry, stand after what they call.
    for name, body in computations.items():
        cycles[name] = sum(map(int, re.findall(r'"estimated_cycles":"(\d+)"', body)))
        cycles[name] += sum(
            cycles[called] for called in re.findall(r'(?:calls|to_apply)=%([\w.-]+)', body)
        )
        for loop in re.findall(r' while\(.*', body):
            condition, inner = (
                re.search(rf'\b{part}=%([\w.-]+)', loop)[1] for part in ('condition', 'body')
            )
            limit = re.findall(r'= [su]32\[\]\S* constant\((\d+)\)', computations[condition])
            cycles[name] += cycles[inner] * (int(limit[0]) if len(limit) == 1 else 1)
        for branches in re.findall(r'branch_computations=\{(.*?)\}', body):
            cycles[name] += max(cycles[branch] for branch in re.findall(r'%([\w.-]+)', branches))
        for yes, no in re.findall(
            r'true_computation=%([\w.-]+), false_computation=%([\w.-]+)', body
        ):
            cycles[name] += max(cycles[yes], cycles[no])
    return cycles[list(computations)[-1]]
