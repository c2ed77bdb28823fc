"""Time of the ScaNN index against exact search and faiss.IndexFlatIP, with its recall.

python benchmarks/ann.py --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --recall 0.95 --json

The memory is generated. Half of `dim` is for entities and half for relations, both in clusters: a
vector is the sum of its cluster's centre, of length 1 in a space of 16 dimensions, and Gaussian
noise of length 0.5 in all dimensions. There are rows / 32 topics in 64 clusters (types of entities)
and 500 clusters of relations (in MetaQA's trained memory 8 of 128 dimensions hold 95 % of the
variance of relations; here 16 hold 80 %). Queries are keys with Gaussian noise of half their
length, unlike those that the index is tuned on.
"""

import dataclasses
import functools
import importlib.util
import pathlib
import resource
import tempfile
import time

import numpy as np
from timing import SEARCH, chosen, make_parser, medians, show

from opql_jax.memory import ann
from opql_jax.memory.ann_build import MIN_ENTRIES, build_index
from opql_jax.memory.build import BuildOptions, EntryTable, build

TYPES, RELATIONS, RANK, SPREAD = 64, 500, 16, 0.5


def clustered(rng, rows, centres, dim):
    """[rows, dim] float32 in clusters."""
    mixing = rng.standard_normal((RANK, dim), np.float32) / np.float32(dim**0.5)
    centres = rng.standard_normal((centres, RANK), np.float32) @ mixing / np.float32(RANK**0.5)
    points = rng.standard_normal((rows, dim), np.float32)
    points *= np.float32(SPREAD / dim**0.5)
    for part in np.array_split(np.arange(rows), max(1, rows >> 16)):
        points[part] += centres[rng.integers(0, len(centres), len(part))]
    return points


def make(directory, rows, dim, rng):
    """A memory and its entity table [rows / 32, dim / 2]."""
    table = clustered(rng, max(1, rows // 32), TYPES, dim // 2)
    relations = clustered(rng, rows, RELATIONS, dim // 2)
    columns = {field.name: np.zeros(rows, np.int32) for field in dataclasses.fields(EntryTable)}
    columns |= {name: rng.integers(0, len(table), rows) for name in ('topic', 'target')}
    hashes = dict.fromkeys(('encoder', 'entity_table', 'vocabulary'), '0' * 64)
    entries = EntryTable(**columns)
    options = BuildOptions(len(table), dim // 2, hashes)
    return build(directory, entries, lambda rows: relations[rows], options), table


def keys_of(memory, table, rows):
    """Keys [E[topic] ; r] of rows of a memory: [n, dim] float32."""
    return np.concatenate([table[memory.topic[rows]], memory.relations(rows)], axis=1)


def main():
    """Builds the index, and prints a line about it and one for each number of queries."""
    parser = make_parser(__doc__, recall=(0.95, 'to which the index is tuned'), **SEARCH)
    options = parser.parse_args()
    if options.rows < MIN_ENTRIES or not importlib.util.find_spec('scann'):
        parser.error(f'needs ScaNN, and at least {MIN_ENTRIES} rows: fewer are searched exactly')
    rng, half, k = np.random.default_rng(0), options.dim // 2, options.k
    with tempfile.TemporaryDirectory() as folder:
        memory, table = make(pathlib.Path(folder, 'memory'), options.rows, options.dim, rng)
        start = time.perf_counter()
        where = pathlib.Path(folder, 'index')
        index = build_index(where, memory, table, k=k, recall=options.recall)
        seconds = time.perf_counter() - start
        index_bytes = sum(file.bytes for file in index.manifest.files.values())
        key_bytes = 4 * options.rows * options.dim
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = chosen(options, 'rows', 'dim', 'k')
        line |= {'build_seconds': seconds, 'index_bytes': index_bytes}
        line |= {'key_bytes': key_bytes, 'build_peak_bytes': peak}
        tuned = ('num_leaves', 'leaves', 'depth', 'recall', 'recall_standard_error')
        show(line | {name: getattr(index.manifest, name) for name in tuned}, options.json)

        exact = ann.ExactIndex(memory, table)
        searches = {
            'scann': lambda e, r: index.search(e, r, k),
            'exact': lambda e, r: exact.search(e, r, k),
        }
        if importlib.util.find_spec('faiss'):
            import faiss

            flat = faiss.IndexFlatIP(2 * half)
            for rows in np.array_split(np.arange(len(memory)), max(1, len(memory) >> 16)):
                flat.add(keys_of(memory, table, rows))
            searches['faiss'] = lambda e, r: flat.search(np.concatenate([e, r], axis=1), k)
        for batch in options.queries:
            keys = keys_of(memory, table, rng.integers(0, len(memory), batch))
            noise = rng.standard_normal(keys.shape, np.float32) * np.float32(0.5 / options.dim**0.5)
            keys += noise * np.linalg.norm(keys, axis=1, keepdims=True)
            query = keys[:, :half], keys[:, half:]
            found, true = (searches[name](*query)[1] for name in ('scann', 'exact'))
            recall = np.mean([np.isin(expected, row).mean() for expected, row in zip(true, found)])
            calls = {name: functools.partial(run, *query) for name, run in searches.items()}
            times = medians(calls, calls=3)
            line = {'queries': batch, f'recall@{k}': float(recall), 'seconds': times}
            others = [name for name in times if name != 'scann']
            line |= {f'{name}_over_scann': times[name] / times['scann'] for name in others}
            told = 'measured' if 'faiss' in times else 'skipped: not installed'
            show(line | {'faiss': told}, options.json)


if __name__ == '__main__':
    main()
