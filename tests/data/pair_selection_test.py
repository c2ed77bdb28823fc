"""Which pairs are learnt from."""

import pytest

from opql_jax.data import pair_selection
from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import RelationSettings, RelationSource

import tiny_prepared


def test_relations_may_be_learnt_from_the_best_pairs_only(tmp_path):
    prepared = Prepared(tiny_prepared.write(tmp_path))
    rows = select_pair_rows(prepared, 'all', min_count=2, max_pairs=20)
    pairs = set(zip(*(prepared.pairs[name][rows].tolist() for name in ('topic', 'target'))))
    assert len(pairs) == 40  # both ways; which are best is told by kb/update_memory_test.py
    source = RelationSource(prepared, RelationSettings(rows=64, min_count=2, max_pairs=20))
    for step in range(8):
        for bucket in source[step].pairs:
            assert set(zip(bucket.topic.tolist(), bucket.target.tolist())) <= pairs | {(-1, -1)}


def test_what_took_long_to_choose_is_kept_for_the_next_start(tmp_path, monkeypatch):
    prepared = Prepared(tiny_prepared.write(tmp_path / 'text'))
    settings = dict(pairs='all', min_count=2, max_pairs=20)
    monkeypatch.setenv('OPQL_CACHE', str(tmp_path / 'cache'))
    chosen = select_pair_rows(prepared, **settings)
    assert not (tmp_path / 'cache').exists()
    monkeypatch.setattr(pair_selection, '_WORTH_KEEPING', -1)
    select_pair_rows(prepared, **settings)
    (file,) = (tmp_path / 'cache').iterdir()
    other = select_pair_rows(prepared, **settings | {'max_pairs': 10})
    assert len(other) < len(chosen)
    with monkeypatch.context() as patched:
        again = lambda *_: pytest.fail('computed again')
        patched.setattr(pair_selection, 'mutual_information', again)
        assert select_pair_rows(Prepared(tmp_path / 'text'), **settings).tolist() == chosen.tolist()
    for damaged in (file.read_bytes()[:-9], b'', b'x' * 300, file.read_bytes()[:-8] + b'\xff' * 8):
        file.write_bytes(damaged)
        assert select_pair_rows(prepared, **settings).tolist() == chosen.tolist()
