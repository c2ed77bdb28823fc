"""Building a memory: which entries, in which order, from which mentions; and builds that are
killed.
"""

import numpy as np
import pyarrow as pa
import pytest

from opql_jax.core.errors import InputError
from opql_jax.memory.build import AVERAGED_MENTIONS, EntryTable

from tiny_memories import ENTITIES, HASHES, digest_of_tree, make, make_table, relations_of


def all_relations(memory):
    return np.concatenate(memory.relation_shards)


def test_every_mention_pair_is_an_entry_sorted_by_topic_target_and_place(tmp_path):
    table = make_table()
    memory = make(tmp_path, table)
    rows = sorted(
        range(len(table)),
        key=lambda i: (
            table.topic[i],
            table.target[i],
            table.passage[i],
            table.topic_start[i],
            table.target_start[i],
        ),
    )
    np.testing.assert_array_equal(memory.topic, table.topic[rows])
    np.testing.assert_array_equal(memory.target, table.target[rows])
    np.testing.assert_array_equal(all_relations(memory), relations_of(rows))
    for entity in range(ENTITIES):
        of_topic = memory.topic[memory.offsets[entity] : memory.offsets[entity + 1]]
        assert (of_topic == entity).all() and len(of_topic) == (table.topic == entity).sum()


def test_provenance_of_an_entry_is_the_row_it_was_encoded_from(tmp_path):
    table = make_table()
    memory = make(tmp_path, table)
    ids = [39, 0, 7, 6, 7]  # any order, repeated, on both sides of a shard boundary
    for entry, found in zip(ids, memory.provenance(ids), strict=True):
        (row,) = np.flatnonzero(
            (relations_of(range(len(table))) == all_relations(memory)[entry]).all(1)
        )
        assert found == {
            'entry': entry,
            'passage': table.passage[row],
            'topic': (table.topic_start[row], table.topic_end[row]),
            'target': (table.target_start[row], table.target_end[row]),
            'topic_sentence': (table.topic_sentence_start[row], table.topic_sentence_end[row]),
            'target_sentence': (table.target_sentence_start[row], table.target_sentence_end[row]),
        }


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
        np.testing.assert_allclose(
            all_relations(memory)[entry], relations_of(rows).mean(0), rtol=1e-6, atol=1e-7
        )


def interrupted(directory, after_shards=2, **options):
    """A build that stops with an error after some shards."""
    calls = []

    def encode(rows):
        if len(calls) == after_shards:
            raise KeyboardInterrupt
        calls.append(rows)
        return relations_of(rows)

    with pytest.raises(KeyboardInterrupt):
        make(directory, encode=encode, **options)


def test_finished_shards_are_not_encoded_again(tmp_path):
    interrupted(tmp_path)
    encoded = []
    make(tmp_path, encode=lambda rows: encoded.append(len(rows)) or relations_of(rows))
    assert sum(encoded) == 40 - 2 * 7
    make(tmp_path, encode=lambda rows: pytest.fail('the memory is finished'))


def test_a_finished_shard_that_was_damaged_since_is_made_again(tmp_path):
    interrupted(tmp_path / 'resumed')
    shard = tmp_path / 'resumed/segment-00000/relations-00001.npy'
    shard.write_bytes(shard.read_bytes()[:-1] + b'x')
    make(tmp_path / 'resumed')
    make(tmp_path / 'undisturbed')
    assert digest_of_tree(tmp_path / 'resumed') == digest_of_tree(tmp_path / 'undisturbed')


@pytest.mark.parametrize('finished', [False, True])
@pytest.mark.parametrize(
    'change',
    [
        {'hashes': HASHES | {'encoder': 'f' * 64}},
        {'dtype': 'float16'},
        {'entries': make_table(seed=1)},
        {'shard_rows': 8},
    ],
)
def test_a_rerun_with_other_inputs_is_refused_naming_them(tmp_path, change, finished):
    make(tmp_path) if finished else interrupted(tmp_path)
    before = digest_of_tree(tmp_path)
    name = 'pairs_sha256' if 'entries' in change else next(iter(change))
    with pytest.raises(
        InputError, match=f'{"finished" if finished else "unfinished"}.*{name} is .*start over'
    ):
        make(tmp_path, **change)
    assert digest_of_tree(tmp_path) == before


@pytest.mark.parametrize('finished', [False, True])
def test_files_of_somebody_else_beside_a_memory_outlast_another_build(tmp_path, finished):
    """Also where they are named as the build names its own."""
    make(tmp_path) if finished else interrupted(tmp_path)
    names = [
        '.film.partial',
        'mine/.film.partial',
        'mine/shard-00000.json',
        'segment-mine/.x.1.partial',
    ]
    names += ['plan.json'] if finished else []
    for path in (tmp_path / name for name in names):
        path.parent.mkdir(exist_ok=True)
        path.write_text('precious')
    make(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in names} == dict.fromkeys(
        names, 'precious'
    )


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'num_entities': 4}, r'topic 4 is not an entity id; the vocabulary has 4'),
        ({'mentions': 'some'}, "mentions='some' is not one of all, average"),
        ({'dtype': 'int8'}, "dtype='int8' is not one of"),
        ({'shard_rows': 0}, 'shard_rows=0'),
        ({'hashes': {'encoder': 'x'}}, 'hashes lacks entity_table, vocabulary'),
        ({'entries': make_table(0)}, 'no pairs'),
        (
            {'encode': lambda rows: np.zeros((len(rows), 2))},
            r'shape \(7, 2\) for 7 rows of relation_dim 3',
        ),
        ({'encode': lambda rows: np.full((len(rows), 3), np.nan)}, 'not finite in float32'),
        (
            {'encode': lambda rows: np.full((len(rows), 3), 1e6), 'dtype': 'float16'},
            'not finite in float16',
        ),
    ],
)
def test_bad_input_is_named(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        make(tmp_path, **options)


PASSAGES = pa.table(
    {
        'text': ['Éa met Bo. They left.  Then Cy came.', 'Dee saw Bo.', 'No mention.'],
        'sentence_starts': [[0, 11, 23], [0], [0]],
        'mentions': [
            [
                {'start': 0, 'end': 2, 'entity': 0},
                {'start': 7, 'end': 9, 'entity': 1},
                {'start': 28, 'end': 30, 'entity': 2},
            ],
            [{'start': 0, 'end': 3, 'entity': 3}, {'start': 8, 'end': 10, 'entity': 1}],
            [],
        ],
    }
)


def pairs(**columns):
    return {name: np.array(column) for name, column in columns.items()}


def test_mined_pairs_get_the_spans_of_their_mentions_and_sentences():
    table = EntryTable.from_pairs(
        pairs(
            topic=[0, 1, 3],
            target=[2, 0, 1],
            passage=[0, 0, 1],
            topic_mention=[0, 1, 0],
            target_mention=[2, 0, 1],
        ),
        PASSAGES,
    )
    texts = [PASSAGES['text'][i].as_py() for i in table.passage]
    cut = lambda span: [
        text[a:b]
        for text, a, b in zip(texts, getattr(table, f'{span}_start'), getattr(table, f'{span}_end'))
    ]
    assert cut('topic') == ['Éa', 'Bo', 'Dee']
    assert cut('target') == ['Cy', 'Éa', 'Bo']
    assert cut('topic_sentence') == ['Éa met Bo. ', 'Éa met Bo. ', 'Dee saw Bo.']
    assert cut('target_sentence') == ['Then Cy came.', 'Éa met Bo. ', 'Dee saw Bo.']
