"""Time of the ScaNN index beside exact search and faiss.IndexFlatIP, with the recall measured in the same run.

python benchmarks/ann.py --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --recall 0.95 --json

The memory is generated, half of `dim` for entities and half for relations, each a cloud of clusters: a vector is one of the
cluster's centre, of length 1 and from a space of 16 dimensions, and Gaussian noise of length 0.5 in all dimensions. There are
rows / 32 topics in 64 clusters (types of entities) and 500 clusters of relations (in MetaQA's trained memory 8 of 128
dimensions hold 95 % of the variance of relations; here 16 hold 80 %). Queries are keys with Gaussian noise of half their length,
drawn otherwise than those that the index is tuned on.
"""

import argparse
import dataclasses
import functools
import importlib.util
import json
import pathlib
import resource
import tempfile
import time

import numpy as np
from timing import medians

from opql_jax.memory import ann
from opql_jax.memory.ann_build import MIN_ENTRIES, build_index
from opql_jax.memory.build import EntryTable, build

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
    sizes = {'num_entities': len(table), 'relation_dim': dim // 2}
    return build(directory, entries, lambda rows: relations[rows], hashes=hashes, **sizes), table


def keys_of(memory, table, rows):
    return np.concatenate([table[memory.topic[rows]], memory.relations(rows)], axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=1_600_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', default='1,64,1024')
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--recall', type=float, default=0.95)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    if options.rows < MIN_ENTRIES or not importlib.util.find_spec('scann'):
        parser.error(f'needs ScaNN, and at least {MIN_ENTRIES} rows: fewer are searched exactly')
    say = lambda line: print(json.dumps(line) if options.json else line, flush=True)
    rng, half, k = np.random.default_rng(0), options.dim // 2, options.k
    batches = [int(number) for number in options.queries.split(',')]
    with tempfile.TemporaryDirectory() as folder:
        memory, table = make(pathlib.Path(folder, 'memory'), options.rows, options.dim, rng)
        start = time.perf_counter()
        index = build_index(pathlib.Path(folder, 'index'), memory, table, k=k, recall=options.recall)
        seconds = time.perf_counter() - start
        index_bytes = sum(file['bytes'] for file in index.manifest['files'].values())
        key_bytes = 4 * options.rows * options.dim
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = {'rows': options.rows, 'dim': options.dim, 'k': k, 'build_seconds': seconds, 'index_bytes': index_bytes}
        line |= {'key_bytes': key_bytes, 'build_peak_bytes': peak}
        stated = ('num_leaves', 'leaves', 'depth', 'recall', 'recall_standard_error')
        say(line | {name: index.manifest[name] for name in stated})

        exact = ann.ExactIndex(memory, table)
        ways = {'scann': lambda e, r: index.search(e, r, k), 'exact': lambda e, r: exact.search(e, r, k)}
        if importlib.util.find_spec('faiss'):
            import faiss

            flat = faiss.IndexFlatIP(2 * half)
            for rows in np.array_split(np.arange(len(memory)), max(1, len(memory) >> 16)):
                flat.add(keys_of(memory, table, rows))
            ways['faiss'] = lambda e, r: flat.search(np.concatenate([e, r], axis=1), k)
        for batch in batches:
            keys = keys_of(memory, table, rng.integers(0, len(memory), batch))
            noise = rng.standard_normal(keys.shape, np.float32) * np.float32(0.5 / options.dim**0.5)
            keys += noise * np.linalg.norm(keys, axis=1, keepdims=True)
            query = keys[:, :half], keys[:, half:]
            found, true = (way(*query)[1] for way in (ways['scann'], ways['exact']))
            recall = np.mean([np.isin(want, got).mean() for want, got in zip(true, found)])
            times = medians({name: functools.partial(way, *query) for name, way in ways.items()}, repeats=3)
            line = {'queries': batch, f'recall@{k}': float(recall), 'seconds': times}
            line |= {f'{name}_over_scann': times[name] / times['scann'] for name in times if name != 'scann'}
            say(line | {'faiss': 'measured' if 'faiss' in times else 'skipped: not installed'})


if __name__ == '__main__':
    main()
