"""Marked pairs are packed into batches once a passage."""

import numpy as np

from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.relations import PairPacker

import tiny_prepared


def test_a_second_mention_in_a_passage_is_no_positive_of_the_first(tmp_path):
    prepared = Prepared(tiny_prepared.write(tmp_path))
    packer = PairPacker(prepared, prepared.pairs, rows=64, max_context=2)
    index = packer.index
    same = [index.topic, index.target, index.passage]
    first = np.flatnonzero(np.all([column[1:] == column[:-1] for column in same], axis=0))
    assert len(first), 'the world has no pair twice in a passage'
    twice = np.array([first[0], first[0] + 1])
    packed = lambda rows: packer.pack(iter([(rows, np.ones(len(rows), bool))]))
    assert sum((bucket.topic >= 0).sum() for bucket in packed(twice)) == 1
    assert not any(bucket.anchor.any() for bucket in packed(twice))
    repeated = np.flatnonzero(index.repeated)[0]
    rows = index.rows(repeated, 2, np.random.default_rng(0))
    assert sum(bucket.anchor.sum() for bucket in packed(rows)) == 2
