"""Which pairs are learnt from."""

from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import RelationSettings, RelationSource

import tiny_prepared


def test_relations_may_be_learnt_from_the_best_pairs_only(tmp_path):
    prepared = Prepared(tiny_prepared.write(tmp_path))
    rows = select_pair_rows(prepared, 'all', min_count=2, max_pairs=20)
    pairs = set(zip(*(prepared.pairs[name][rows].tolist() for name in ('topic', 'target'))))
    assert 0 < len(pairs) <= 40
    source = RelationSource(prepared, RelationSettings(rows=64, min_count=2, max_pairs=20))
    for step in range(8):
        for bucket in source[step].pairs:
            assert set(zip(bucket.topic.tolist(), bucket.target.tolist())) <= pairs | {(-1, -1)}
