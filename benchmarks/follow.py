"""Multi-hop relation following restricted to known topics, beside one search of the whole memory with the same filter.

python benchmarks/follow.py --rows 1600000 --dim 512 --hops 2 --k 32 --batch 1,256 --json

An entity is the topic of 32 rows on average; how many a topic has is skewed as in text (Zipf's law, 10,000 at most).
`whole` is a single hop: the exact search of all rows, with the filter inside its scan.
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
from timing import medians

from opql_jax.memory import follow, search
from opql_jax.memory.sharding import shard_memory
from opql_jax.models.follower import Follower
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC, MOST_ROWS = 32, 10_000


def random_memory(rows, dim):
    """MemoryArrays and entity table [n, dim / 2] with skewed numbers of rows a topic; targets are drawn evenly."""
    rng, num_entities = np.random.default_rng(0), rows // ROWS_PER_TOPIC
    share = 1 / np.arange(1, num_entities + 1)
    counts = np.minimum(rng.multinomial(rows, share / share.sum()), MOST_ROWS)
    while missing := rows - counts.sum():  # what the largest have too much goes to topics at random
        counts = np.minimum(counts + rng.multinomial(missing, np.full(num_entities, 1 / num_entities)), MOST_ROWS)
    rng.shuffle(counts)
    topic = np.repeat(np.arange(num_entities, dtype=np.int32), counts)
    memory = follow.MemoryArrays(
        jnp.asarray(topic),
        jnp.asarray(rng.integers(0, num_entities, rows).astype(np.int32)),
        jnp.asarray(rng.standard_normal((rows, dim // 2), np.float32)),
        jnp.asarray(np.append(0, np.cumsum(counts)).astype(np.int32)),
    )
    return memory, jnp.asarray(rng.standard_normal((num_entities, dim // 2), np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=1_600_000)
    parser.add_argument('--dim', type=int, default=512)
    parser.add_argument('--hops', type=int, default=2)
    parser.add_argument('--k', type=int, default=32)
    parser.add_argument('--batch', default='1,256')
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()

    memory, table = random_memory(options.rows, options.dim)
    half, mesh = options.dim // 2, make_mesh(1)
    whole = shard_memory(memory.topic, memory.target, memory.relations, mesh)
    follower = Follower(relation_dim=half, entity_dim=half, max_hops=options.hops)

    @jax.jit
    def followed(relation, topics, memory, table):
        params = follower.init(jax.random.key(0), relation, relation, 0, method=follower.query)
        return follower.apply(params, relation, topics, hops=options.hops, memory=memory, entity_table=table, k=options.k)

    @jax.jit
    def searched(relation, topics, memory, table):
        member = topics[:, None] == jnp.arange(len(table))
        return search.top_k(memory, table, follow.Queries(table[topics], relation), options.k, search.SearchFilter(member))

    rng = np.random.default_rng(1)
    for batch in map(int, options.batch.split(',')):
        # Another set of topics each time: how long it takes depends on how many rows they have.
        asked = [
            (
                jnp.asarray(rng.standard_normal((batch, half), np.float32)),
                memory.topic[rng.integers(0, options.rows, batch)],
            )
            for _ in range(20)
        ]
        turn = iter(range(10**9))
        ways = {
            'follow': lambda: followed(*asked[next(turn) % len(asked)], memory, table),
            'whole': lambda: searched(*asked[0], whole, table),
        }
        times = medians(ways, calls=20, limit=40)
        last = followed(*asked[0], memory, table)[-2 if options.hops > 1 else -1].entities
        rows = np.where(last >= 0, np.diff(memory.offsets)[np.maximum(last, 0)], 0).sum(axis=1)
        line = {
            'rows': options.rows,
            'dim': options.dim,
            'hops': options.hops,
            'k': options.k,
            'batch': batch,
            'rows_of_last_hop': {'median': int(np.median(rows)), 'most': int(rows.max())},
            'milliseconds': {name: round(1e3 * spent, 3) for name, spent in times.items()},
            'queries_per_second': round(batch / times['follow']),
            'whole_over_follow': round(times['whole'] / times['follow'], 1),
        }
        print(json.dumps(line) if options.json else '\n'.join(f'{key}: {value}' for key, value in line.items()), flush=True)


if __name__ == '__main__':
    main()
