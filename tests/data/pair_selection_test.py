"""Which pairs are learnt from."""

import collections
import itertools
import math

from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import RelationSettings, RelationSource

import tiny_prepared


def best_pairs(prepared, min_count, count):
    """The pairs of the highest mutual information, low entity first, of those that enough passages mention; by counting."""
    mentioned = [{mention['entity'] for mention in mentions} for mentions in prepared.passages['mentions'].to_pylist()]
    alone = collections.Counter(itertools.chain(*mentioned))
    together = collections.Counter(pair for entities in mentioned for pair in itertools.combinations(sorted(entities), 2))
    information = lambda pair: math.log(together[pair] * len(mentioned) / (alone[pair[0]] * alone[pair[1]]))
    return sorted((pair for pair, n in together.items() if n >= min_count), key=lambda pair: (-information(pair), pair))[:count]


def test_relations_may_be_learnt_from_the_best_pairs_only(tmp_path):
    prepared = Prepared(tiny_prepared.write(tmp_path))
    rows = select_pair_rows(prepared, 'all', min_count=2, max_pairs=20)
    pairs = set(zip(*(prepared.pairs[name][rows].tolist() for name in ('topic', 'target'))))
    best = best_pairs(prepared, min_count=2, count=20)
    assert pairs == {*best, *((b, a) for a, b in best)}
    source = RelationSource(prepared, RelationSettings(rows=64, min_count=2, max_pairs=20))
    for step in range(8):
        for bucket in source[step].pairs:
            assert set(zip(bucket.topic.tolist(), bucket.target.tolist())) <= pairs | {(-1, -1)}
