"""Searches of a generated memory and following, each against an exact search.

python benchmarks/search.py memory --rows 1600000 --dim 512 --queries 1,64,1024 --k 32 --json
python benchmarks/search.py follow --queries 1,256 --json
python benchmarks/search.py index --json
JAX_PLATFORMS=cuda,cpu python benchmarks/search.py memory --matrix 8192 --json

A memory has so many `rows` of `dim` numbers, half of them the relation's, half the entity's, which
is the topic of 32 rows on average. `k` rows are found for each of so many `queries` of a call.

memory  `concatenated` is the exact search over keys of `dim` numbers per row. `product` computes
        scores of at most 256 queries at a time and discards them. FAISS (`pip install faiss-cpu`)
        is measured if it is installed. `over_exact` are times over that of the exact search. With
        --matrix also `over_limit`: the limit is the larger of reading the keys once and of
        multiplying them, at the rates of a maximum over them and of a bfloat16 product of so many
        rows. PyTorch, if it sees the device, searches the same keys in bfloat16: it sends the
        queries and fetches what is found, ours leaves both on the device.
follow  Two hops from known topics, over rows per topic skewed as in text (Zipf's law, at most
        10,000). `whole` is a single hop: the exact search of all rows with the filter inside.
index   ScaNN's, with its recall. Both halves lie in clusters: a vector is the sum of its cluster's
        centre, of length 1 in a space of 16 dimensions, and Gaussian noise of length 0.5 in all.
        There are 64 clusters of topics and 500 of relations (in MetaQA's trained memory 8 of 128
        dimensions hold 95 % of the variance of relations; here 16 hold 80 %). Queries are keys with
        Gaussian noise of half their length, unlike those that the index is tuned on.
"""

import dataclasses
import functools
import importlib.util
import itertools
import os
import pathlib
import resource
import tempfile
import time
from collections.abc import Callable, Iterator

# PyTorch wants a part of the memory.
os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')

import jax
import jax.numpy as jnp
import numpy as np
from timing import chosen, medians, milliseconds, over, run, torch_device

from opql_jax.memory import ann, search, search_keys
from opql_jax.memory.ann_build import MIN_ENTRIES, build_index
from opql_jax.memory.build import BuildOptions, EntryTable, build
from opql_jax.memory.follow import MemoryArrays, Queries
from opql_jax.memory.sharding import MODES, shard_memory
from opql_jax.models.follower import Follower
from opql_jax.parallel.mesh import make_mesh

ROWS_PER_TOPIC, MAX_ROWS_PER_TOPIC = 32, 10_000
PRODUCT_QUERIES = 256
HOPS = 2
# Of the clustered memory: clusters of entities and of relations, dimensions of their centres, and
# the length of the noise.
TYPES, RELATIONS, RANK, SPREAD = 64, 500, 16, 0.5


# ---- The whole memory ----


def search_memory(options) -> Iterator[dict]:
    """A line for each number of queries, over topics drawn evenly."""
    rng, half, device = np.random.default_rng(0), options.dim // 2, torch_device()
    entities = max(1, options.rows // ROWS_PER_TOPIC)
    topic = np.sort(rng.integers(0, entities, options.rows)).astype(np.int32)
    relations = rng.standard_normal((options.rows, half), np.float32)
    table = rng.standard_normal((entities, half), np.float32)
    host_keys = np.concatenate([table[topic], relations], axis=1)
    mesh, table, with_keys = make_mesh(1), jnp.asarray(table), jax.jit(search_keys.with_keys)

    def placed(vectors, table, mode='exact'):
        return with_keys(shard_memory(topic, topic, vectors, mesh, mode), table), table

    memories = {mode: placed(relations, table, mode) for mode in MODES}
    memories['concatenated'] = placed(host_keys, table[:, :0])
    keys = memories['concatenated'][0].relations[: options.rows]
    top_k = jax.jit(lambda *given: search.top_k(*given, options.k))
    product = jax.jit(lambda query, keys: query @ keys.T)
    others: dict[str, Callable] = {}
    if importlib.util.find_spec('faiss'):
        import faiss

        index = faiss.IndexFlatIP(options.dim)
        index.add(host_keys)
        others['faiss'] = lambda query: index.search(query, options.k)
    if options.matrix and device:
        others['torch'] = torch_search(host_keys, options.k, device)
    rate = rates(keys, options.matrix) if options.matrix else {}
    for count in options.queries:
        host_query = np.random.default_rng(1).standard_normal((count, options.dim), np.float32)
        query = jnp.asarray(host_query)
        functions = {name: functools.partial(of, host_query) for name, of in others.items()}
        for name, (memory, of_topics) in memories.items():
            width = of_topics.shape[1]
            queries = Queries(query[:, :width], query[:, width:])
            functions[name] = functools.partial(top_k, memory, of_topics, queries)

        def products(query=query):
            for start in range(0, len(query), PRODUCT_QUERIES):
                jax.block_until_ready(product(query[start : start + PRODUCT_QUERIES], keys))

        seconds = medians(functions | {'product': products}, calls=20, limit=60)
        line = {**chosen(options, 'rows', 'dim', 'k'), 'queries': count}
        line |= {'milliseconds': milliseconds(seconds), 'over_exact': over(seconds, 'exact')}
        if rate:
            line |= {'rates': rate, 'over_limit': {}}
            for mode, size in (('exact', 4), ('approx', 2)):  # bytes of a number
                limit = max(size / rate['read'], 2 * count / rate['product']) * keys.size
                line['over_limit'][mode] = round(seconds[mode] / limit, 2)
        yield line


def torch_search(keys: np.ndarray, k: int, device: str) -> Callable:
    """The exact search of bfloat16 keys in PyTorch: scores and rows of the best k."""
    import torch

    placed = torch.tensor(keys).to(device, torch.bfloat16)

    def search(query: np.ndarray):
        scores = torch.from_numpy(query).to(device, torch.bfloat16) @ placed.T
        return [found.cpu() for found in scores.topk(k, dim=1)]

    return search


def rates(keys, size: int) -> dict[str, float]:
    """Bytes a second of reading keys, and FLOP/s of a bfloat16 product [size, size]."""
    keys = jnp.asarray(keys, jnp.bfloat16)
    matrix = jax.random.normal(jax.random.key(0), (size, size), jnp.bfloat16)
    read, product = jax.jit(lambda keys: keys.max()), jax.jit(lambda matrix: matrix @ matrix)
    seconds = medians({'read': lambda: read(keys), 'product': lambda: product(matrix)}, calls=20)
    return {'read': keys.nbytes / seconds['read'], 'product': 2 * size**3 / seconds['product']}


# ---- Following ----


def skewed_memory(rows: int, dim: int) -> tuple[MemoryArrays, jax.Array]:
    """A memory with skewed rows per topic and uniform targets, and its E [n, dim / 2]."""
    rng, entities = np.random.default_rng(0), rows // ROWS_PER_TOPIC
    share = 1 / np.arange(1, entities + 1)
    counts = np.minimum(rng.multinomial(rows, share / share.sum()), MAX_ROWS_PER_TOPIC)
    # What the largest topics may not have goes to topics at random.
    while missing := rows - counts.sum():
        more = rng.multinomial(missing, np.full(entities, 1 / entities))
        counts = np.minimum(counts + more, MAX_ROWS_PER_TOPIC)
    rng.shuffle(counts)
    memory = MemoryArrays(
        jnp.asarray(np.repeat(np.arange(entities, dtype=np.int32), counts)),
        jnp.asarray(rng.integers(0, entities, rows).astype(np.int32)),
        jnp.asarray(rng.standard_normal((rows, dim // 2), np.float32)),
        jnp.asarray(np.append(0, np.cumsum(counts)).astype(np.int32)),
    )
    return memory, jnp.asarray(rng.standard_normal((entities, dim // 2), np.float32))


def follow_topics(options) -> Iterator[dict]:
    """A line for each number of queries of two hops."""
    memory, table = skewed_memory(options.rows, options.dim)
    rng, half, k = np.random.default_rng(1), options.dim // 2, options.k
    placed = shard_memory(memory.topic, memory.target, memory.relations, make_mesh(1))
    whole_memory = jax.jit(search_keys.with_keys)(placed, table)
    follower = Follower(relation_dim=half, entity_dim=half, max_hops=HOPS)

    @jax.jit
    def follow(relation, topics, memory, table):
        params = follower.init(jax.random.key(0), relation, relation, 0, method=follower.query)
        over_memory = {'hops': HOPS, 'memory': memory, 'entity_table': table, 'k': k}
        return follower.apply(params, relation, topics, **over_memory)

    @jax.jit
    def search_whole(relation, topics, memory, table):
        allowed = search.SearchFilter(topics=topics[:, None])
        return search.top_k(memory, table, Queries(table[topics], relation), k, allowed)

    for count in options.queries:
        # New topics in each call: the time depends on how many rows they have.
        drawn = lambda: memory.topic[rng.integers(0, options.rows, count)]
        relation = lambda: jnp.asarray(rng.standard_normal((count, half), np.float32))
        queries = [(relation(), drawn()) for _ in range(20)]
        turns = itertools.cycle(queries)
        functions = {
            'follow': lambda turns=turns: follow(*next(turns), memory, table),
            'whole': lambda queries=queries: search_whole(*queries[0], whole_memory, table),
        }
        seconds = medians(functions, calls=20, limit=40)
        line = {**chosen(options, 'rows', 'dim', 'k'), 'queries': count}
        line |= {'milliseconds': milliseconds(seconds)}
        line['queries_per_second'] = round(count / seconds['follow'])
        yield line | {'whole_over_follow': over(seconds, 'follow')['whole']}


# ---- The index ----


def clustered(rng, rows: int, centres: int, dim: int) -> np.ndarray:
    """[rows, dim] float32 in clusters."""
    mixing = rng.standard_normal((RANK, dim), np.float32) / np.float32(dim**0.5)
    centres = rng.standard_normal((centres, RANK), np.float32) @ mixing / np.float32(RANK**0.5)
    points = rng.standard_normal((rows, dim), np.float32)
    points *= np.float32(SPREAD / dim**0.5)
    for part in np.array_split(np.arange(rows), max(1, rows >> 16)):
        points[part] += centres[rng.integers(0, len(centres), len(part))]
    return points


def search_index(options) -> Iterator[dict]:
    """A line about the index, and one for each number of queries."""
    if options.rows < MIN_ENTRIES or not importlib.util.find_spec('scann'):
        raise SystemExit(f'needs ScaNN, and {MIN_ENTRIES} rows: fewer are searched exactly')
    rng, half, k = np.random.default_rng(0), options.dim // 2, options.k
    table = clustered(rng, options.rows // ROWS_PER_TOPIC, TYPES, half)
    relations = clustered(rng, options.rows, RELATIONS, half)
    zeros = np.zeros(options.rows, np.int32)
    columns = {field.name: zeros for field in dataclasses.fields(EntryTable)}
    columns |= {name: rng.integers(0, len(table), options.rows) for name in ('topic', 'target')}
    made_with = BuildOptions(
        len(table), half, dict.fromkeys(('encoder', 'entity_table', 'vocabulary'), '0' * 64)
    )
    with tempfile.TemporaryDirectory() as folder:
        of, to = pathlib.Path(folder, 'memory'), pathlib.Path(folder, 'index')
        memory = build(of, EntryTable(**columns), lambda rows: relations[rows], made_with)
        start = time.perf_counter()
        searches = {'scann': build_index(to, memory, table, k=k)}
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = chosen(options, 'rows', 'dim', 'k')
        yield line | {'build_seconds': round(seconds, 1), 'build_peak_bytes': peak}
        searches['exact'] = ann.ExactIndex(memory, table)
        for count in options.queries:
            rows = rng.integers(0, len(memory), count)
            keys = np.concatenate([table[memory.topic[rows]], memory.relations(rows)], axis=1)
            noise = rng.standard_normal(keys.shape, np.float32) * np.float32(0.5 / options.dim**0.5)
            keys += noise * np.linalg.norm(keys, axis=1, keepdims=True)
            calls = {
                name: functools.partial(of.search, keys[:, :half], keys[:, half:], k)
                for name, of in searches.items()
            }
            found, true = (call()[1] for call in calls.values())
            recall = np.mean([np.isin(expected, row).mean() for expected, row in zip(true, found)])
            times = medians(calls, calls=3)
            line = {'queries': count, f'recall@{k}': float(recall)}
            line['milliseconds'] = milliseconds(times)
            yield line | {'exact_over_scann': over(times, 'scann')['exact']}


if __name__ == '__main__':
    subjects = {'memory': search_memory, 'follow': follow_topics, 'index': search_index}
    run(__doc__, subjects, rows=1_600_000, dim=512, queries=[1, 64, 1024], k=32, matrix=0)
