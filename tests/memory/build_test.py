"""Building a memory: which entries, of which mentions; and builds that are killed."""

import contextlib

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.memory.build import AVERAGED_MENTIONS

from tiny_memories import HASHES, digest_of_tree, make, make_table, relations_of


def test_averaged_entries_are_means_of_up_to_five_mentions_of_the_pair(tmp_path):
    table = make_table(120)
    memory = make(tmp_path, table, mentions='average', seed=3)
    pairs = sorted(set(zip(table.topic.tolist(), table.target.tolist())))
    assert list(zip(memory.topic.tolist(), memory.target.tolist())) == pairs
    of_row = {(int(table.passage[i]), int(table.topic_start[i])): i for i in range(len(table))}
    for entry, (topic, target) in enumerate(pairs):
        sources = memory.provenance([entry])
        rows = [of_row[source['passage'], source['topic'][0]] for source in sources]
        candidates = np.flatnonzero((table.topic == topic) & (table.target == target))
        assert len(set(rows)) == len(rows) == min(AVERAGED_MENTIONS, len(candidates))
        assert set(rows) <= set(candidates)
        mean = relations_of(rows).mean(0)
        np.testing.assert_allclose(memory.relations([entry])[0], mean, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize('finished', [False, True])
@pytest.mark.parametrize(
    'change',
    [
        {'hashes': HASHES | {'encoder': 'f' * 64}},
        {'dtype': 'float16'},
        {'entries': make_table(seed=1)},
    ],
)
def test_a_rerun_with_other_inputs_is_refused_naming_them(tmp_path, change, finished):
    shards = [relations_of] * (6 if finished else 2)  # then the encoder fails
    with contextlib.nullcontext() if finished else pytest.raises(IndexError):
        make(tmp_path, encode=lambda rows: shards.pop()(rows))
    before = digest_of_tree(tmp_path)
    name = 'pairs_sha256' if 'entries' in change else next(iter(change))
    state = 'finished' if finished else 'unfinished'
    with pytest.raises(InputError, match=f'{state}.*{name} is .*start over'):
        make(tmp_path, **change)
    assert digest_of_tree(tmp_path) == before


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'num_entities': 4}, r'topic 4 is not an entity id; the vocabulary has 4'),
        ({'mentions': 'some'}, "mentions='some': give one of 'all', 'average'"),
        ({'entries': make_table(0)}, 'no pairs'),
        ({'encode': lambda rows: np.zeros((len(rows), 2))}, r'\(7, 2\) for 7 rows of relation_dim'),
        ({'encode': lambda rows: np.full((len(rows), 3), np.nan)}, 'not finite in float32'),
        ({'encode': lambda rows: relations_of(rows) * 1e6, 'dtype': 'float16'}, 'in float16'),
    ],
)
def test_bad_input_is_named(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        make(tmp_path, **options)
