"""The batches of the training stages."""

import collections

import numpy as np
import pytest

from opql_jax.corpus.questions import to_record, write_questions
from opql_jax.data import batching, markup, passages, questions, sources
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import COLUMNS

import tiny_prepared

SEED = 3


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


MAKERS = {
    'entities': lambda p, **kw: sources.EntitySource(p, rows=32, **kw),
    'groups': lambda p, **kw: sources.RelationSource(p, rows=64, sampler='groups', **kw),
    'shared': lambda p, **kw: sources.RelationSource(p, rows=64, sampler='shared', **kw),
    'align': lambda p, split='1-hop/train', **kw: sources.AlignSource(
        p, split=split, rows=24, topics=4, rows_per_topic=6, **kw
    ),
    'align passages': lambda p, split='1-hop/train', **kw: passages.PassageAlignSource(
        p, split=split, passages=16, topics=4, questions=24, **kw
    ),
    'follow': lambda p, **kw: sources.FollowSource(p, splits=['1-hop/train', '3-hop/train'], questions=5, **kw),
}


def make(name, prepared, num_steps=8, seed=SEED, **kwargs):
    return MAKERS[name](prepared, num_steps=num_steps, seed=seed, **kwargs)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


def rows_of(batch):
    """The used rows of a packed batch: dicts of tokens without padding and the other features."""
    for length in batching.lengths_in(batch):
        names = [k.removesuffix(f'_{length}') for k in batch if k.endswith(f'_{length}')]
        for i in range(len(batch[f'tokens_{length}'])):
            row = {name: batch[f'{name}_{length}'][i] for name in names}
            if row.get('topic', row.get('entity')) >= 0:
                yield {**row, 'tokens': row['tokens'][row['tokens'] != 0], 'length': length}


@pytest.mark.parametrize('name', MAKERS)
def test_a_batch_is_a_function_of_seed_step_and_shard(prepared, name):
    source, again = make(name, prepared), make(name, prepared)
    for step in (5, 0, 7):  # in any order
        assert same(source[step], again[step])
    assert not same(source[0], source[1])
    assert not same(source[0], make(name, prepared, seed=SEED + 1)[0])
    shards = [make(name, prepared, shard_index=i, shard_count=2) for i in range(2)]
    assert not same(shards[0][0], shards[1][0])


@pytest.mark.parametrize('name', MAKERS)
def test_shapes_are_the_same_at_all_steps_and_shards(prepared, name):
    shapes = {
        tuple((k, v.shape, v.dtype) for k, v in batch.items())
        for shard in range(2)
        for batch in make(name, prepared, shard_index=shard, shard_count=2)
    }
    assert len(shapes) == 1
    assert all(dtype == (bool if k.startswith('anchor') else np.int32) for k, _, dtype in shapes.pop())


@pytest.mark.parametrize('name', MAKERS)
def test_the_number_of_steps_is_the_length(prepared, name):
    source = make(name, prepared, num_steps=3)
    assert len(source) == 3 and len(list(source)) == 3
    with pytest.raises(IndexError, match='step 3 of 3'):
        source[3]


def test_bad_arguments_are_named(prepared):
    with pytest.raises(ValueError, match='shard_index 2 must be one of 2'):
        make('shared', prepared, shard_index=2, shard_count=2)
    with pytest.raises(ValueError, match="sampler is 'best'; it must be one of"):
        sources.RelationSource(prepared, num_steps=1, seed=0, sampler='best')
    with pytest.raises(ValueError, match='exceeds the longest bucket 20'):
        sources.RelationSource(prepared, num_steps=1, seed=0, bucket_lengths=(10, 20))


# Entities.


def test_entity_rows_hide_a_mention_and_ask_for_it(prepared):
    special = prepared.special
    possible = {
        (tuple(m.tokens.tolist()), m.position, m.entity)
        for p in prepared.records
        for m in (markup.mask_mention(p, i, special) for i in range(len(p.entities)))
    }
    seen = collections.Counter()
    for batch in make('entities', prepared):
        for row in rows_of(batch):
            assert (tuple(row['tokens'].tolist()), row['position'], row['entity']) in possible
            seen[int(row['entity'])] += 1
    assert sum(seen.values()) > 0.95 * 8 * 32 and len(seen) > tiny_prepared.ENTITIES / 2


# Relations.


@pytest.mark.parametrize('name', ['groups', 'shared'])
def test_relation_rows_are_rows_of_the_pair_table_and_come_once(prepared, name):
    p, special = prepared, prepared.special
    passages = list(p.records)
    table = collections.Counter()
    for row in range(len(p.pairs['topic'])):
        m = markup.mark_pair(
            passages[p.pairs['passage'][row]], p.pairs['topic_mention'][row], p.pairs['target_mention'][row], special, 4
        )
        table[(tuple(m.tokens.tolist()), m.r1, m.r2, m.topic, m.target, tuple(m.context_entities.tolist()))] += 1
    for batch in make(name, prepared):
        used = collections.Counter()
        for row in rows_of(batch):
            context = row['context_entities'][row['context_entities'] >= 0]
            key = (tuple(row['tokens'].tolist()), row['r1'], row['r2'], row['topic'], row['target'], tuple(context.tolist()))
            used[key] += 1
        assert used <= table
        assert used.total() > 0.9 * 64


def test_in_groups_only_group_anchors_count_and_each_has_a_positive_and_hard_negatives(prepared):
    for batch in make('groups', prepared):
        rows = list(rows_of(batch))
        anchors = [r for r in rows if r['anchor']]
        assert 64 / 11 - 2 < len(anchors) < 64 / 4
        for a in anchors:
            same_topic = [r['topic'] == a['topic'] for r in rows]
            same_target = [r['target'] == a['target'] for r in rows]
            assert sum(t and o for t, o in zip(same_topic, same_target)) >= 2
            assert sum(t != o for t, o in zip(same_topic, same_target)) >= 1


def test_in_shared_batches_every_row_with_another_of_its_pair_is_an_anchor(prepared):
    shares = []
    for batch in make('shared', prepared):
        rows = list(rows_of(batch))
        count = collections.Counter((int(r['topic']), int(r['target'])) for r in rows)
        for r in rows:
            assert r['anchor'] == (count[int(r['topic']), int(r['target'])] > 1)
        shares.append(np.mean([r['anchor'] for r in rows]))
    assert np.mean(shares) > 0.5  # against 1/11 in groups


def test_fewer_neighbours_make_more_neighbourhoods(prepared):
    def connected(neighbours):
        source = sources.RelationSource(prepared, num_steps=1, seed=SEED, rows=64, neighbours=neighbours)
        rows, _ = next(source._sampler.draw(np.random.default_rng(0)))
        return len(np.unique(source._rows.index.pair_of(rows)))

    assert [connected(n) for n in (1, 3, 16)] == [1, 3, 16]


# Questions.


def test_each_question_comes_once_an_epoch_over_all_shards():
    a, b = questions.Epochs(10, 1, 2), questions.Epochs(10, 1, 2)
    assert a.take(3, 30).tolist() == b.take(0, 33).tolist()[3:]
    for epoch in range(3):
        assert sorted(a.take(10 * epoch, 10)) == list(range(10))
    assert a.take(0, 10).tolist() != a.take(10, 10).tolist()
    assert a.take(0, 10).tolist() != questions.Epochs(10, 1, 3).take(0, 10).tolist()


def test_follow_takes_hop_counts_in_turn_and_deals_questions_out(prepared):
    usable = [q for q in prepared.questions('1-hop/train') if q.topic_entity >= 0 and q.answers]
    sharded = [make('follow', prepared, num_steps=200, shard_index=i, shard_count=2) for i in range(2)]
    assert sharded[0].num_left_out > 0
    assert [int(b['hops']) for b in make('follow', prepared)] == [1, 3] * 4
    # lcm: as many draws as make whole epochs
    epochs = 5
    steps = len(usable) * epochs // 10
    assert steps * 10 == len(usable) * epochs
    seen = collections.Counter(
        (int(topic), tuple(sorted(answers[answers >= 0].tolist())))
        for source in sharded
        for step in range(0, 2 * steps, 2)
        for topic, answers in zip(source[step]['question_topic'], source[step]['answers'])
    )
    wanted = collections.Counter((q.topic_entity, tuple(sorted(q.answers))) for q in usable)
    assert seen == collections.Counter({k: epochs * n for k, n in wanted.items()})


def test_question_features_are_the_marked_questions(prepared):
    asked = prepared.questions('2-hop/train')
    arrays = questions.QuestionArrays(asked, prepared.tokenizer, prepared.special)
    assert arrays.length % 8 == 0 and len(arrays) == len(asked)
    ids = [5, 0, 6, 39]
    batch = arrays.features(ids, 6)
    for name, shape in (('question_tokens', (6, arrays.length)), ('question_r1', (6,)), ('question_topic', (6,))):
        assert batch[name].shape == shape and batch[name].dtype == np.int32
    for k, q in enumerate(asked[i] for i in ids):
        row = {name: value[k] for name, value in batch.items()}
        marked = markup.mark_question(prepared.tokenizer, q.text, *q.topic, prepared.special)
        assert row['question_tokens'][: len(marked.tokens)].tolist() == marked.tokens.tolist()
        assert not row['question_tokens'][len(marked.tokens) :].any()
        assert (row['question_r1'], row['question_r2'], row['question_topic']) == (marked.r1, marked.r2, q.topic_entity)
    assert batch['question_topic'][4:].tolist() == [-1] * 2


def test_answers_are_padded_and_longer_lists_cut_at_random():
    rng = np.random.default_rng(0)
    padded = questions.pad_answers([np.arange(3), np.arange(50), np.arange(0)], 4, 8, rng)
    assert padded[0].tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
    assert len(set(padded[1].tolist())) == 8 and padded[1].tolist() != list(range(8))
    assert (padded[2:] == -1).all()
    kept = questions.pad_answers([np.arange(50)], 1, 8, rng, first=[np.array([40, 41, 42, 99])])
    assert {40, 41, 42} <= set(kept[0].tolist())


def title_pairs(prepared):
    p = prepared.pairs
    return {(int(t), int(o)) for t, o, title in zip(p['topic'], p['target'], p['is_title']) if title}


def test_align_puts_an_answering_mention_and_others_beside_each_question(prepared):
    source = make('align', prepared)
    assert 0 < len(source.questions.topics) <= len(source.questions) < source.questions.num_questions == 20
    asked = {(q.topic_entity, tuple(q.answers)) for q in prepared.questions('1-hop/train')}
    known = title_pairs(prepared)
    with_negatives = []
    for batch in source:
        rows = list(rows_of(batch))
        topics = set(batch['question_topic'][batch['question_topic'] >= 0].tolist())
        assert len(topics) > 1 and len(batch['question_topic']) == 4 * 4
        for topic, answers in zip(batch['question_topic'], batch['answers']):
            answers = answers[answers >= 0].tolist()
            if topic < 0:
                assert not answers
                continue
            assert (topic, tuple(answers)) in asked
            targets = [r['target'] in answers for r in rows if r['topic'] == topic]
            assert any(targets)
            with_negatives.append(not all(targets))
        for topic in topics:  # as many rows as asked for, or all that the topic has
            pairs = sum(topic == t for t, _ in known)
            assert sum(r['topic'] == topic for r in rows) == min(6, pairs)
        assert all(r['topic'] in topics for r in rows)
        assert not any(r['anchor'] for r in rows)
    assert np.mean(with_negatives) > 0.8


def test_align_knows_only_the_pairs_of_a_title_with_a_mention(prepared):
    known = title_pairs(prepared)
    assert known < set(zip(prepared.pairs['topic'].tolist(), prepared.pairs['target'].tolist()))
    seen = {(int(r['topic']), int(r['target'])) for batch in make('align', prepared) for r in rows_of(batch)}
    assert seen <= known
    aligned = [q for q in prepared.questions('1-hop/train') if any((q.topic_entity, answer) in known for answer in q.answers)]
    assert len(make('align', prepared).questions) == len(aligned)


def test_align_knows_every_pair_of_a_passage_where_it_is_told_to(prepared):
    p = prepared.pairs
    known = set(zip(p['topic'].tolist(), p['target'].tolist()))
    source = make('align', prepared, pairs='all', num_steps=40)
    seen = {(int(r['topic']), int(r['target'])) for batch in source for r in rows_of(batch)}
    assert seen <= known and not seen <= title_pairs(prepared)
    asked = prepared.questions('1-hop/train')
    assert len(source.questions) == sum(any((q.topic_entity, answer) in known for answer in q.answers) for q in asked)
    with pytest.raises(ValueError, match="pairs='both': 'title', 'sentence', 'all'"):
        make('align', prepared, pairs='both')


def test_align_deals_topics_out_evenly(prepared):
    source = make('align', prepared, num_steps=40)
    draws = collections.Counter(int(t) for batch in source for t in np.unique(batch['question_topic']) if t >= 0)
    # Each topic is drawn 160 / num_topics times; at the border of two epochs a second draw of it is dropped.
    assert len(draws) == len(source.questions.topics)
    assert max(draws.values()) - min(draws.values()) <= 0.2 * 160 / len(source.questions.topics) + 1


def pairs_of(batch):
    """The pairs of a batch of passages: (tokens of the passage, places of topic and target, topic, target), as lists."""
    for length in batching.lengths_in(batch):
        get = lambda name: batch[f'{name}_{length}']
        for i, slot in zip(*np.nonzero(get('topic') >= 0)):
            ends = [
                [int(get(end)[i, get(f'{side}_mention')[i, slot]]) for end in ('first', 'last')] for side in ('topic', 'target')
            ]
            yield get('tokens')[i].tolist(), *ends, int(get('topic')[i, slot]), int(get('target')[i, slot])


@pytest.mark.parametrize('pairs', ['title', 'sentence', 'all'])
def test_passages_hold_all_pairs_of_the_topics_that_are_asked_about(prepared, pairs):
    """Against the pair table: in each passage of a batch all rows of these topics are there, each where its mentions are."""
    kept = prepared.pair_rows(pairs)
    columns = {name: column[kept].tolist() for name, column in prepared.pairs.items()}
    of_passage, texts = collections.defaultdict(list), {}
    for topic, target, passage, i, j in zip(*(columns[name] for name in COLUMNS)):
        plain = prepared.records[passage]
        spans = [[1 + int(plain.starts[k]), int(plain.ends[k])] for k in (i, j)]
        of_passage[passage].append((*spans, topic, target))
        texts[tuple(plain.tokens.tolist())] = passage
    asked = {(q.topic_entity, tuple(q.answers)) for q in prepared.questions('1-hop/train')}
    right = []
    for batch in make('align passages', prepared, pairs=pairs, pairs_per_passage=400):
        topics, found = set(batch['question_topic'].tolist()) - {-1}, collections.defaultdict(list)
        for tokens, *pair in pairs_of(batch):
            plain = tokens[1 : tokens.index(prepared.special.sep)]
            found[texts[tuple(plain)]].append(tuple(pair))
        for passage, those in found.items():
            assert sorted(those) == sorted(pair for pair in of_passage[passage] if pair[2] in topics)
        packed = {pair[2:] for those in found.values() for pair in those}
        for topic, answers in zip(batch['question_topic'].tolist(), batch['answers'].tolist()):
            answers = [answer for answer in answers if answer >= 0]
            assert topic < 0 or (topic, tuple(answers)) in asked
            right += [any((topic, answer) in packed for answer in answers)] * (topic >= 0)
    assert len(right) > 30 and all(right)


def test_passages_keep_the_answers_where_a_passage_has_too_many_pairs(prepared):
    for batch in make('align passages', prepared, pairs='all', pairs_per_passage=3):
        answers = {
            (topic, answer)
            for topic, those in zip(batch['question_topic'].tolist(), batch['answers'].tolist())
            for answer in those
            if answer >= 0
        }
        for length in batching.lengths_in(batch):
            for topics, targets in zip(batch[f'topic_{length}'].tolist(), batch[f'target_{length}'].tolist()):
                right = [pair in answers for pair in zip(topics, targets)]
                assert right == sorted(right, reverse=True) and len(right) == 3


def test_passages_deal_topics_out_evenly(prepared):
    source = passages.PassageAlignSource(
        prepared, split='1-hop/train', num_steps=40, seed=0, passages=16, topics=4, questions=4
    )
    draws = collections.Counter(int(t) for batch in source for t in np.unique(batch['question_topic']) if t >= 0)
    assert len(draws) == len(source.questions.topics)
    assert max(draws.values()) - min(draws.values()) <= 0.2 * 160 / len(source.questions.topics) + 1


def test_align_keeps_the_answers_of_packed_mentions_when_it_cuts(prepared):
    source = make('align', prepared, max_answers=1)
    assert source[0]['answers'].shape == (16, 8)  # widths are rounded up
    everyone = [np.arange(tiny_prepared.ENTITIES)] * len(source.questions)
    source.questions.arrays.answers = everyone
    for batch in source:
        for topic, answers in zip(batch['question_topic'], batch['answers']):
            packed = {int(r['target']) for r in rows_of(batch) if r['topic'] == topic}
            assert len(packed & set(answers.tolist())) == min(8, len(packed))


@pytest.mark.parametrize('name', ['align', 'align passages'])
def test_open_questions_are_aligned_as_a_split_is_where_their_only_mention_is_known(prepared, name, tmp_path):
    keys = prepared.vocab.keys
    split = [q for q in prepared.questions('1-hop/train') if q.topic_entity >= 0 and q.answers]
    one = [
        {
            'id': q.id,
            'question': q.text,
            'topics': [q.topic],
            'entities': [keys[q.topic_entity]],
            'answers': [keys[a] for a in q.answers],
        }
        for q in split
    ]
    others = [
        {**one[0], 'id': 'two hops', 'hops': 2},
        {**one[1], 'id': 'unknown', 'entities': [None]},
        {**one[2], 'id': 'two', 'question': 'Ann Bob', 'topics': [[0, 3], [4, 7]], 'entities': one[2]['entities'] * 2},
    ]
    write_questions(tmp_path / 'open.jsonl', [*others, *one])
    source = make(name, prepared, split=str(tmp_path / 'open.jsonl'))
    assert source.questions.num_questions == len(one) > 10
    assert all(same(a, b) for a, b in zip(source, make(name, prepared), strict=True))
    write_questions(tmp_path / 'none.jsonl', others)
    with pytest.raises(ValueError, match='none.jsonl: no question has one hop and one topic, of an entity'):
        make(name, prepared, split=str(tmp_path / 'none.jsonl'))


def test_splits_that_teach_nothing_are_refused(prepared, tmp_path):
    tiny_prepared.write(tmp_path / 'p')
    unknown = [q for q in prepared.questions('2-hop/train') if q.topic_entity < 0]
    write_questions(tmp_path / 'p' / 'questions' / 'unknown.jsonl', (to_record(q, prepared.vocab) for q in unknown))
    other = Prepared(tmp_path / 'p')
    with pytest.raises(ValueError, match='unknown: no question has a known topic'):
        sources.FollowSource(other, splits=['unknown'], num_steps=1, seed=0)
    with pytest.raises(ValueError, match='unknown: no question has a passage'):
        sources.AlignSource(other, split='unknown', num_steps=1, seed=0)
