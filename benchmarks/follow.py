"""Multi-hop following from known topics against one search of the memory with the same filter.

python benchmarks/follow.py --rows 1600000 --dim 512 --hops 2 --k 32 --batch 1,256 --json

An entity is the topic of 32 rows on average; the number of rows per topic is skewed as in text
(Zipf's law, at most 10,000). `whole` is a single hop: the exact search of all rows, with the filter
inside its scan.
"""

import itertools
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from timing import SEARCH, make_parser, medians, show

from opql_jax.memory import search, search_keys
from opql_jax.memory.follow import MemoryArrays, Queries
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.follower import Follower
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC, MAX_ROWS_PER_TOPIC = 32, 10_000


def random_memory(rows: int, dim: int) -> tuple[MemoryArrays, jax.Array]:
    """A memory with skewed rows per topic and uniform targets, and its E [n, dim / 2]."""
    rng, num_entities = np.random.default_rng(0), rows // ROWS_PER_TOPIC
    share = 1 / np.arange(1, num_entities + 1)
    counts = np.minimum(rng.multinomial(rows, share / share.sum()), MAX_ROWS_PER_TOPIC)
    # What the largest topics may not have goes to topics at random.
    while missing := rows - counts.sum():
        more = rng.multinomial(missing, np.full(num_entities, 1 / num_entities))
        counts = np.minimum(counts + more, MAX_ROWS_PER_TOPIC)
    rng.shuffle(counts)
    memory = MemoryArrays(
        jnp.asarray(np.repeat(np.arange(num_entities, dtype=np.int32), counts)),
        jnp.asarray(rng.integers(0, num_entities, rows).astype(np.int32)),
        jnp.asarray(rng.standard_normal((rows, dim // 2), np.float32)),
        jnp.asarray(np.append(0, np.cumsum(counts)).astype(np.int32)),
    )
    return memory, jnp.asarray(rng.standard_normal((num_entities, dim // 2), np.float32))


def measure(rows: int, dim: int, hops: int, k: int, batches: Sequence[int]) -> Iterator[dict]:
    """A line for each number of queries."""
    memory, table = random_memory(rows, dim)
    half = dim // 2
    placed = shard_memory(memory.topic, memory.target, memory.relations, make_mesh(1))
    whole_memory = jax.jit(search_keys.with_keys)(placed, table)
    follower = Follower(relation_dim=half, entity_dim=half, max_hops=hops)

    @jax.jit
    def follow(relation, topics, memory, table):
        params = follower.init(jax.random.key(0), relation, relation, 0, method=follower.query)
        return follower.apply(
            params, relation, topics, hops=hops, memory=memory, entity_table=table, k=k
        )

    @jax.jit
    def search_whole(relation, topics, memory, table):
        allowed = search.SearchFilter(topics=topics[:, None])
        return search.top_k(memory, table, Queries(table[topics], relation), k, allowed)

    rng = np.random.default_rng(1)
    for batch in batches:
        draw = lambda batch=batch: (
            jnp.asarray(rng.standard_normal((batch, half), np.float32)),
            memory.topic[rng.integers(0, rows, batch)],
        )
        # New topics in each call: the time depends on how many rows they have.
        queries = [draw() for _ in range(20)]
        turns = itertools.cycle(queries)
        functions = {
            'follow': lambda turns=turns: follow(*next(turns), memory, table),
            'whole': lambda queries=queries: search_whole(*queries[0], whole_memory, table),
        }
        seconds = medians(functions, calls=20, limit=40)
        topics = follow(*queries[0], memory, table)[-2 if hops > 1 else -1].entities
        counts = np.diff(memory.offsets)[np.maximum(topics, 0)]
        of_topics = np.where(topics >= 0, counts, 0).sum(axis=1)
        yield {
            **{'rows': rows, 'dim': dim, 'hops': hops, 'k': k, 'batch': batch},
            'rows_of_last_hop': {'median': int(np.median(of_topics)), 'max': int(of_topics.max())},
            'milliseconds': {name: round(1e3 * spent, 3) for name, spent in seconds.items()},
            'queries_per_second': round(batch / seconds['follow']),
            'whole_over_follow': round(seconds['whole'] / seconds['follow'], 1),
        }


def main():
    """Prints a line for each batch size."""
    sizes = {name: SEARCH[name] for name in ('rows', 'dim', 'k')}
    batch = [1, 256], 'queries of a call'
    options = make_parser(__doc__, hops=(2, 'of a query'), batch=batch, **sizes).parse_args()
    for line in measure(options.rows, options.dim, options.hops, options.k, options.batch):
        show(line, options.json)


if __name__ == '__main__':
    main()
