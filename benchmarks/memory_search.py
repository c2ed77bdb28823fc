"""The search of the whole memory beside the bare product of the same shape, `top_k` after it, and FAISS, in one run.

python benchmarks/memory_search.py --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --json

Half of `dim` is the relation's, half the entity's; an entity is the topic of 32 rows on average. `concatenated` is the
same search over keys of `dim` numbers a row. `product` computes and forgets scores, of at most 256 queries at a time.
FAISS (`pip install faiss-cpu`) is measured if it is there.
"""

import argparse
import functools
import importlib.util
import json
import resource

import jax
import jax.numpy as jnp
import numpy as np
from timing import medians

from opql_jax.memory import search
from opql_jax.memory.follow import Queries
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC = 32
PRODUCT_QUERIES = 256


class Data:
    """A memory of random numbers, and the other things that search it."""

    def __init__(self, rows, dim):
        rng, half = np.random.default_rng(0), dim // 2
        num_topics = max(1, rows // ROWS_PER_TOPIC)
        topic = np.sort(rng.integers(0, num_topics, rows)).astype(np.int32)
        relations = rng.standard_normal((rows, half), np.float32)
        table = rng.standard_normal((num_topics, half), np.float32)
        mesh, self.half, self.table = make_mesh(1), half, jnp.asarray(table)
        self.memories = {mode: shard_memory(topic, topic, relations, mesh, mode) for mode in MODES}
        keys = np.concatenate([table[topic], relations], axis=1)
        self.concatenated = shard_memory(topic, topic, keys, mesh)
        self.keys = self.concatenated.relations[:rows]
        self.faiss = None
        if importlib.util.find_spec('faiss'):
            import faiss

            self.faiss = faiss.IndexFlatIP(dim)
            self.faiss.add(keys)

    def ways(self, queries, k):
        """What to time for a number of queries, and the bytes that each search of ours has alive besides its arguments."""
        query = jnp.asarray(np.random.default_rng(1).standard_normal((queries, 2 * self.half), np.float32))
        factored = Queries(query[:, : self.half], query[:, self.half :])
        whole = Queries(jnp.zeros((queries, 0)), query)

        def compiled(*arguments):
            run = jax.jit(lambda *arguments: search.top_k(*arguments, k)).lower(*arguments).compile()
            return run, functools.partial(run, *arguments)

        searches = {mode: compiled(memory, self.table, factored) for mode, memory in self.memories.items()}
        alive = {mode: run.memory_analysis().temp_size_in_bytes for mode, (run, _) in searches.items()}
        ways = {mode: call for mode, (_, call) in searches.items()}
        ways['concatenated'] = compiled(self.concatenated, self.table[:, :0], whole)[1]
        product = jax.jit(lambda query, keys: query @ keys.T)
        product_top_k = jax.jit(lambda query, keys: jax.lax.top_k(query @ keys.T, k))
        parts = [query[i : i + PRODUCT_QUERIES] for i in range(0, queries, PRODUCT_QUERIES)]

        def each(function):
            for part in parts:
                jax.block_until_ready(function(part, self.keys))

        ways['product'] = lambda: each(product)
        ways['product_top_k'] = lambda: each(product_top_k)
        if self.faiss is not None:
            asked = np.asarray(query)
            ways['faiss'] = lambda: self.faiss.search(asked, k)
        return ways, alive


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=1_600_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--queries', default='1,64,1024')
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    data = Data(options.rows, options.dim)
    for queries in map(int, options.queries.split(',')):
        ways, alive = data.ways(queries, options.k)
        times = medians(ways)
        line = {
            'rows': options.rows,
            'dim': options.dim,
            'queries': queries,
            'k': options.k,
            'seconds': {name: round(spent, 5) for name, spent in times.items()},
            'over_exact': {name: round(spent / times['exact'], 2) for name, spent in times.items()},
            'temporary_bytes': alive,
            'peak_bytes_of_process': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            'memory_bytes': {'factored': data.memories['exact'].relations.nbytes + data.table.nbytes, 'keys': data.keys.nbytes},
        }
        print(json.dumps(line) if options.json else '\n'.join(f'{key}: {value}' for key, value in line.items()), flush=True)


if __name__ == '__main__':
    main()
