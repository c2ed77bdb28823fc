"""Time of the exact search beside the bare product of the same shape, and product and `top_k`, in one run.

python benchmarks/memory_search.py --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --json
"""

import argparse
import importlib.util
import json
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from opql_jax.memory import search
from opql_jax.parallel.mesh import make_mesh

REPEATS = 5


def median(function, *arguments):
    """Median seconds of REPEATS calls after one that compiles."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(rows, dim, queries, k):
    """Seconds of each way for one batch size; half of `dim` is the relation's, half the entity's."""
    rng, mesh, half = np.random.default_rng(0), make_mesh(1), dim // 2
    topic = np.sort(rng.integers(0, max(1, rows // 32), rows)).astype(np.int32)
    relations = rng.standard_normal((rows, half), np.float32)
    table = jnp.asarray(rng.standard_normal((topic.max() + 1, half), np.float32))
    memory = search.shard_memory(topic, topic, relations, mesh)
    keys = jnp.concatenate([table[topic], memory.relations], axis=1)
    query = jnp.asarray(rng.standard_normal((queries, 2 * half), np.float32))
    exact = jax.jit(lambda q, memory, table: search.topk(q[:, :half], q[:, half:], memory, table, mesh, k))
    times = {
        'exact': median(exact, query, memory, table),
        'product': median(jax.jit(lambda q, keys: q @ keys.T), query, keys),
        'product_top_k': median(jax.jit(lambda q, keys: jax.lax.top_k(q @ keys.T, k)), query, keys),
    }
    if importlib.util.find_spec('faiss'):
        import faiss

        index = faiss.IndexFlatIP(2 * half)
        index.add(np.asarray(keys))
        times['faiss'] = median(lambda q: index.search(q, k), np.asarray(query))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rows', type=int, default=1_600_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', default='1,64,1024')
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    for queries in map(int, options.queries.split(',')):
        times = measure(options.rows, options.dim, queries, options.k)
        ratios = {f'exact_over_{name}': times['exact'] / spent for name, spent in times.items() if name != 'exact'}
        line = {'rows': options.rows, 'dim': options.dim, 'queries': queries, 'k': options.k, 'seconds': times} | ratios
        line['faiss'] = 'measured' if 'faiss' in times else 'skipped: not installed'
        print(json.dumps(line) if options.json else line, flush=True)


if __name__ == '__main__':
    main()
