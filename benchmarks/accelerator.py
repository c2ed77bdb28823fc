"""What one accelerator makes of search, following and training steps, in under ten minutes.

JAX_PLATFORMS=cuda,cpu python benchmarks/accelerator.py

A search is compared with its limit: the larger of reading its keys once and of multiplying them, at
the rates that this run measures with a maximum over the keys and with a large bfloat16 product.
Where PyTorch sees the same device, it does the search, `topk` of a product with the same bfloat16
keys, and the step (see `train_step.py`) there as well, and `over_torch` are our seconds over its;
its search sends the queries and fetches what is found, ours leaves both on the device. MFU of a
step is of the nominal peak. `memory_on` are the seconds of a step of the language model over those
without its memory (see `lm_step.py`).
"""

from opql_jax.training import malloc

if __name__ == '__main__':
    malloc.keep_freed_memory()

import argparse
import os
import time
from collections.abc import Iterator

# PyTorch wants a part of the memory.
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')

import follow
import jax
import jax.numpy as jnp
import lm_step
import numpy as np
import train_step
from memory_search import RandomMemory
from timing import SEARCH, TIMING, Size, devices, make_parser, medians, show

FOLLOWED = (1, 256)  # queries of two hops
DTYPE = 'bfloat16'


class TorchSearch:
    """The exact search of bfloat16 keys in PyTorch."""

    def __init__(self, keys, device: str):
        import torch

        self.torch, self.device = torch, device
        self.keys = torch.tensor(np.asarray(keys, np.float32)).to(device, torch.bfloat16)

    def __call__(self, queries, k: int):
        """Scores and rows of the best k."""
        scores = self.torch.from_numpy(queries).to(self.device, self.torch.bfloat16) @ self.keys.T
        best, rows = scores.topk(k, dim=1)
        return best.cpu(), rows.cpu()


def rates(keys, size: int) -> dict[str, float]:
    """Bytes a second of reading keys, and FLOP/s of a bfloat16 product [size, size]."""
    keys = jnp.asarray(keys, DTYPE)
    matrix = jax.random.normal(jax.random.key(0), (size, size), DTYPE)
    read, product = jax.jit(lambda keys: keys.max()), jax.jit(lambda matrix: matrix @ matrix)
    seconds = medians({'read': lambda: read(keys), 'product': lambda: product(matrix)}, calls=20)
    return {'read': keys.nbytes / seconds['read'], 'product': 2 * size**3 / seconds['product']}


def searches(options) -> Iterator[dict]:
    """One line for each number of queries and search mode, after one with the device's rates."""
    memory, device = RandomMemory(options.rows, options.dim), train_step.torch_device()
    rate = rates(memory.keys, options.matrix)
    yield {'subject': 'device', 'size': devices(), **rate}
    torch_search = TorchSearch(memory.keys, device) if device else None
    for queries in options.queries:
        functions, _ = memory.searches(queries, options.k)
        functions = {name: functions[name] for name in ('exact', 'approx')}
        if torch_search:
            asked = np.random.default_rng(1).standard_normal((queries, options.dim), np.float32)
            functions['torch'] = lambda asked=asked: torch_search(asked, options.k)
        seconds = medians(functions, calls=20, limit=15)
        numbers = options.rows * options.dim
        for mode in ('exact', 'approx'):
            read = numbers * (4 if mode == 'exact' else 2) / rate['read']  # float32 if exact
            limit = max(read, 2 * queries * numbers / rate['product'])
            size = f'{queries} queries, {options.rows:,} x {options.dim}'
            line = {'subject': f'search, {mode}', 'size': size}
            line |= {'milliseconds': 1e3 * seconds[mode], 'over_limit': seconds[mode] / limit}
            yield line | ({'over_torch': seconds[mode] / seconds['torch']} if torch_search else {})


def steps(options) -> Iterator[dict]:
    """A line for each shape of a step of relation pretraining."""
    fields = {'dtype': DTYPE, 'max_length': max(options.lengths)}
    encoder = train_step.make_encoder(options.model, train_step.VOCABULARY, **fields)
    for rows, length in zip(options.step_rows, options.lengths):
        batch = train_step.random_batch(rows, length, np.random.default_rng(0), options.entities)
        timing = options.calls, options.limit
        measured = train_step.measure(encoder, options.entities, batch, *timing)
        size = f'{rows} x {length}, {options.model}, {options.entities:,} entities'
        line = {'subject': 'step of relations', 'size': size, 'mfu': measured['ours']['mfu']}
        line['milliseconds'] = 1e3 * measured['ours']['step_seconds']
        if 'torch' in measured:
            line |= {'over_torch': 1 / measured['ratio'], 'mfu_of_torch': measured['torch']['mfu']}
        yield line


def language_model(options) -> Iterator[dict]:
    """A line with the step of the language model."""
    rows, length = options.step_rows[1], options.lengths[1]
    sizes = {'entries': options.rows, 'rows': rows, 'length': length, 'topics': 2}
    fields = vars(options) | sizes | {'size': options.lm_size, 'modes': ['approx'], 'dtype': DTYPE}
    seconds, _ = lm_step.measure(argparse.Namespace(**fields))
    yield {
        'subject': 'step of the LM',
        'size': f'{rows} x {length}, {options.lm_size}, {options.rows:,} entries',
        'milliseconds': 1e3 * seconds['approx'],
        'memory_on': seconds['approx'] / seconds['memory_off'],
    }


def following(options) -> Iterator[dict]:
    """A line for each number of queries of two hops."""
    for line in follow.measure(options.rows, options.dim, 2, options.k, FOLLOWED):
        yield {
            'subject': 'follow, 2 hops',
            'size': f'{line["batch"]} queries, {options.rows:,} x {options.dim}',
            'milliseconds': line['milliseconds']['follow'],
        }


def main():
    """Prints a line for each subject and size: a table, or JSON."""
    parser = make_parser(
        __doc__,
        matrix=(8192, 'rows of the large product'),
        model=(Size('base'), 'in gin/models'),
        lm_size=(Size('base'), 'that of the language model'),
        entities=(1_000_000, 'rows of the entity table'),
        step_rows=([32, 64, 128], 'of a batch'),
        lengths=([64, 128, 128], 'tokens of these rows'),
        **SEARCH,
        **TIMING,
    )
    parser.set_defaults(calls=10)
    options = parser.parse_args()
    start = time.perf_counter()
    columns = ('milliseconds', 'over_limit', 'over_torch', 'mfu', 'mfu_of_torch', 'memory_on')
    if not options.json:
        print(f'{"":20}{"":44}' + ''.join(f'{name:>14}' for name in columns))
    for subject in (searches, following, steps, language_model):
        for line in subject(options):
            if options.json:
                show(line, True)
            elif line['subject'] == 'device':
                print(
                    f'{line["size"]}: reads {line["read"] / 1e12:.2f} TB/s, multiplies '
                    f'{line["product"] / 1e12:.0f} TFLOP/s'
                )
            else:
                numbers = (f'{line[name]:.3f}' if name in line else '' for name in columns)
                row = ''.join(f'{number:>14}' for number in numbers)
                print(f'{line["subject"]:20}{line["size"]:44}{row}', flush=True)
    total = time.perf_counter() - start
    if options.json:
        show({'subject': 'all', 'seconds': round(total)}, True)
    else:
        print(f'{total:.0f} s')


if __name__ == '__main__':
    main()
