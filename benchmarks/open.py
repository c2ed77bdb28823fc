"""What it costs that files are compared with their digests, and rows looked at: opening a memory and asking it, with and without.

python benchmarks/open.py --rows 285000 --dim 128 --json

Each call opens the memory, places it and follows two hops from a topic, with the compilation that a new process has. Its files are
in the page cache. `digests` is the time of SHA-256 alone, on one core; `_cpu` are seconds of all cores, which other programs disturb less.
"""

import dataclasses
import pathlib
import tempfile
import time
import unittest.mock

import jax
import jax.numpy as jnp
import numpy as np
from command_line import make_parser, show
from timing import medians

from opql_jax.core import arrays as arrays_lib
from opql_jax.core import files
from opql_jax.core import manifest as manifest_lib
from opql_jax.memory import format
from opql_jax.memory.build import BuildOptions, EntryTable, build
from opql_jax.models.follower import Follower

ROWS_PER_TOPIC = 8
HASHES = {name: '0' * 64 for name in ('encoder', 'entity_table', 'vocabulary')}


def write_memory(folder: pathlib.Path, rows: int, dim: int) -> int:
    """Writes a memory of random rows; returns its number of entities."""
    rng, entities = np.random.default_rng(0), rows // ROWS_PER_TOPIC
    columns = {field.name: np.zeros(rows, np.int32) for field in dataclasses.fields(EntryTable)}
    columns |= {name: rng.integers(0, entities, rows).astype(np.int32) for name in ('topic', 'target')}
    encode = lambda ids: rng.standard_normal((len(ids), dim), np.float32)
    build(folder, EntryTable(**columns), encode, BuildOptions(entities, dim, HASHES)).close()
    return entities


def main():
    """Prints one line."""
    parser = make_parser(__doc__)
    parser.add_argument('--rows', type=int, default=285_000)
    parser.add_argument('--dim', type=int, default=128)
    parser.add_argument('--k', type=int, default=64)
    parser.add_argument('--calls', type=int, default=7)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary, 'memory')
        entities = write_memory(folder, options.rows, options.dim)
        table = jnp.asarray(np.random.default_rng(1).standard_normal((entities, options.dim), np.float32))
        follower = Follower(relation_dim=options.dim, entity_dim=options.dim)
        relation, topics = jnp.ones((1, options.dim)), jnp.zeros(1, jnp.int32)

        def ask():
            jax.clear_caches()
            manifest_lib._checked.clear()
            arrays = format.Memory.open(folder).arrays()
            params = follower.init(jax.random.key(0), relation, relation, 0, method=follower.query)
            run = jax.jit(lambda arrays: follower.apply(params, relation, topics, 2, arrays, table, options.k))
            return run(arrays)

        def ask_unchecked():
            unchecked = lambda folder, name, *_: folder / name
            with (
                unittest.mock.patch.object(manifest_lib, 'checked_file', unchecked),
                unittest.mock.patch.object(format, 'bad_row', lambda rows: None),
                unittest.mock.patch.object(arrays_lib.ArraySchema, 'check_values', lambda *_: None),
                unittest.mock.patch.object(format.Memory, '_check_order', lambda *_, **__: None),
            ):
                return ask()

        stated = format.read_manifest(folder)
        read = [name for name in stated.files if not name.endswith('.parquet')]
        digests = lambda: [files.digest(folder / name) for name in read]
        functions = {'checked': ask, 'unchecked': ask_unchecked, 'digests': digests}
        wall, cpu = medians(functions, options.calls), medians(functions, options.calls, clock=time.process_time)
        megabytes = sum(stated.files[name].bytes for name in read) / 1e6
    line = {'rows': options.rows, 'dim': options.dim, 'megabytes': megabytes, **wall}
    line |= {f'{name}_cpu': seconds for name, seconds in cpu.items()}
    line |= {'checked_over_unchecked': wall['checked'] / wall['unchecked'], 'cpu_ratio': cpu['checked'] / cpu['unchecked']}
    show(line, options.json)


if __name__ == '__main__':
    main()
