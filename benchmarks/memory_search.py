"""The search of the memory against a bare product of its shape, `top_k` after it, and FAISS.

python benchmarks/memory_search.py --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --json

Half of `dim` is the relation's, half the entity's; an entity is the topic of 32 rows on average.
`concatenated` is the exact search over keys of `dim` numbers per row. `product` computes scores of
at most 256 queries at a time and discards them. FAISS (`pip install faiss-cpu`) is measured if it
is installed. `over_exact` are seconds over those of the exact search.
"""

import functools
import importlib.util
import resource

import jax
import jax.numpy as jnp
import numpy as np
from timing import SEARCH, chosen, make_parser, medians, show

from opql_jax.memory import search, search_keys
from opql_jax.memory.follow import Queries
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC = 32
PRODUCT_QUERIES = 256


class RandomMemory:
    """A random memory in each search mode, its keys, and a FAISS index of them."""

    def __init__(self, rows: int, dim: int):
        rng, half = np.random.default_rng(0), dim // 2
        num_topics = max(1, rows // ROWS_PER_TOPIC)
        topic = np.sort(rng.integers(0, num_topics, rows)).astype(np.int32)
        relations = rng.standard_normal((rows, half), np.float32)
        table = rng.standard_normal((num_topics, half), np.float32)
        mesh, self.half, self.table = make_mesh(1), half, jnp.asarray(table)
        with_keys = jax.jit(search_keys.with_keys)
        self.memories = {
            mode: with_keys(shard_memory(topic, topic, relations, mesh, mode), self.table)
            for mode in MODES
        }
        keys = np.concatenate([table[topic], relations], axis=1)
        self.concatenated = with_keys(shard_memory(topic, topic, keys, mesh), self.table[:, :0])
        self.keys = self.concatenated.relations[:rows]
        self.faiss = None
        if importlib.util.find_spec('faiss'):
            import faiss

            self.faiss = faiss.IndexFlatIP(dim)
            self.faiss.add(keys)

    def searches(self, num_queries: int, k: int):
        """Functions to time, by name, and the temporary bytes of each mode of the search."""
        query = jnp.asarray(
            np.random.default_rng(1).standard_normal((num_queries, 2 * self.half), np.float32)
        )
        queries = Queries(query[:, : self.half], query[:, self.half :])

        def compiled(*arguments):
            return jax.jit(lambda *given: search.top_k(*given, k)).lower(*arguments).compile()

        functions, temporary_bytes = {}, {}
        for mode, memory in self.memories.items():
            run = compiled(memory, self.table, queries)
            functions[mode] = functools.partial(run, memory, self.table, queries)
            temporary_bytes[mode] = run.memory_analysis().temp_size_in_bytes
        whole = self.concatenated, self.table[:, :0], Queries(jnp.zeros((num_queries, 0)), query)
        functions['concatenated'] = functools.partial(compiled(*whole), *whole)
        product = jax.jit(lambda query, keys: query @ keys.T)
        product_top_k = jax.jit(lambda query, keys: jax.lax.top_k(query @ keys.T, k))
        parts = [query[i : i + PRODUCT_QUERIES] for i in range(0, num_queries, PRODUCT_QUERIES)]

        def each_part(function):
            for part in parts:
                jax.block_until_ready(function(part, self.keys))

        functions['product'] = lambda: each_part(product)
        functions['product_top_k'] = lambda: each_part(product_top_k)
        if self.faiss is not None:
            host_query = np.asarray(query)
            functions['faiss'] = lambda: self.faiss.search(host_query, k)
        return functions, temporary_bytes


def main():
    """Prints a line for each number of queries."""
    options = make_parser(__doc__, **SEARCH).parse_args()
    memory = RandomMemory(options.rows, options.dim)
    exact_bytes = memory.memories['exact'].relations.nbytes + memory.table.nbytes
    for num_queries in options.queries:
        functions, temporary_bytes = memory.searches(num_queries, options.k)
        seconds = medians(functions)
        exact = seconds['exact']
        line = {
            **chosen(options, 'rows', 'dim', 'k'),
            'queries': num_queries,
            'seconds': {name: round(spent, 5) for name, spent in seconds.items()},
            'over_exact': {name: round(spent / exact, 2) for name, spent in seconds.items()},
            'temporary_bytes': temporary_bytes,
            'peak_bytes_of_process': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            'memory_bytes': {'factored': exact_bytes, 'keys': memory.keys.nbytes},
        }
        show(line, options.json)


if __name__ == '__main__':
    main()
