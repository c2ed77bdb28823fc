"""The batches of the training objectives."""

import collections
import dataclasses

import jax
import numpy as np
import one_marked
import pytest

from opql_jax.data.pair_selection import select_pair_rows
from opql_jax.data.prepared import Prepared
from opql_jax.data.sampling import COLUMNS
from opql_jax.data.sources import base
from opql_jax.data.sources.align import AlignSettings, AlignSource
from opql_jax.data.sources.align_passages import PassageAlignSettings, PassageAlignSource
from opql_jax.data.sources.base import Source, named_leaves
from opql_jax.data.sources.entities import EntitySource
from opql_jax.data.sources.follow import FollowSource
from opql_jax.data.sources.relations import PairPacker, RelationSettings, RelationSource

import tiny_prepared

SEED = 3


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


STEPS = 8
ALIGN_PASSAGES = PassageAlignSettings(passages=16, topics=4, questions=24)
SETTINGS = {
    'groups': (RelationSource, RelationSettings(rows=64, sampler='groups')),
    'shared': (RelationSource, RelationSettings(rows=64, sampler='shared')),
    'align': (AlignSource, AlignSettings(rows=24, topics=4, rows_per_topic=6)),
    'align passages': (PassageAlignSource, ALIGN_PASSAGES),
}
SOURCES = ['entities', *SETTINGS, 'follow']


def make(name, prepared, seed=SEED, **fields):
    if name == 'entities':
        return EntitySource(prepared, rows=32, seed=seed)
    if name == 'follow':
        return FollowSource(prepared, ['1-hop/train', '3-hop/train'], questions=5, seed=seed)
    source, settings = SETTINGS[name]
    return source(prepared, dataclasses.replace(settings, **fields), seed)


def batches(source, num_steps=STEPS):
    return [source[step] for step in range(num_steps)]


def same(a, b):
    a, b = named_leaves(a), named_leaves(b)
    equal = lambda x, y: np.array_equal(x, y) and x.dtype == y.dtype
    return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)


def rows_of(buckets):
    """The used rows of buckets: dicts of tokens without padding and the other features."""
    for bucket in buckets:
        used = bucket.entity if hasattr(bucket, 'entity') else bucket.topic
        # [CLS] [SEP].
        assert (used[used < 0] == -1).all()
        assert (np.count_nonzero(bucket.tokens[used < 0], axis=1) == 2).all()
        for i in np.flatnonzero(used >= 0):
            row = {name: value[i] for name, value in bucket._asdict().items()}
            yield {**row, 'tokens': row['tokens'][row['tokens'] != 0]}


@pytest.mark.parametrize('name', SOURCES)
def test_a_batch_is_a_function_of_seed_step_and_shard_of_one_shape(prepared, name):
    source, again = make(name, prepared), make(name, prepared)
    for step in (5, 0, 7):  # in any order
        assert same(source[step], again[step])
    assert not same(source[0], source[1])
    assert not same(source[0], make(name, prepared, seed=SEED + 1)[0])
    shards = [batches(source.shard(i, 2)) for i in range(2)]
    assert not same(shards[0][0], shards[1][0])
    described = lambda batch: {k: (v.shape, v.dtype) for k, v in named_leaves(batch).items()}
    first, *others = map(described, shards[0] + shards[1])
    assert all(other == first for other in others)
    for k, (_, dtype) in first.items():
        assert dtype == (bool if k.endswith('anchor') else np.int32)


@pytest.mark.parametrize(
    'name, given, said',
    [
        ('shared', {'seed': -1}, 'seed=-1: give a number of 0 to 4294967295'),
        ('align', {'pairs': 'both'}, "pairs='both': give one of 'title'"),
    ],
)
def test_bad_arguments_are_named(prepared, name, given, said):
    with pytest.raises(ValueError, match=said):
        make(name, prepared, **given)


def test_entity_rows_hide_a_mention_and_ask_for_it(prepared):
    special = prepared.special
    masked = lambda p: (one_marked.mask_mention(p, i, special) for i in range(len(p.entities)))
    mentions = (m for p in prepared.records for m in masked(p))
    possible = {(tuple(m.tokens.tolist()), m.position, m.entity) for m in mentions}
    seen = collections.Counter()
    for batch in batches(make('entities', prepared)):
        for row in rows_of(batch.mentions):
            assert (tuple(row['tokens'].tolist()), row['position'], row['entity']) in possible
            seen[int(row['entity'])] += 1
    assert sum(seen.values()) > 0.95 * 8 * 32 and len(seen) > tiny_prepared.ENTITIES / 2


@pytest.mark.parametrize('name', ['groups', 'shared'])
def test_relation_rows_are_rows_of_the_pair_table_and_come_once(prepared, name):
    p, special = prepared, prepared.special
    passages = list(p.records)
    table = collections.Counter()
    columns = (p.pairs[name].tolist() for name in ('passage', 'topic_mention', 'target_mention'))
    for passage, topic, target in zip(*columns):
        m = one_marked.mark_pair(passages[passage], topic, target, special, 2)
        tokens, context = (tuple(x.tolist()) for x in (m.tokens, m.context_entities))
        table[tokens, m.r1, m.r2, m.topic, m.target, context] += 1
    for batch in batches(make(name, prepared)):
        used = collections.Counter()
        for row in rows_of(batch.pairs):
            context = row['context_entities'][row['context_entities'] >= 0]
            tokens, context = (tuple(x.tolist()) for x in (row['tokens'], context))
            used[tokens, row['r1'], row['r2'], row['topic'], row['target'], context] += 1
        assert used <= table
        assert used.total() > 0.9 * 64


def test_relations_may_be_learnt_from_the_best_pairs_only(prepared):
    rows = select_pair_rows(prepared, 'all', min_count=2, max_pairs=20)
    pairs = set(zip(*(prepared.pairs[name][rows].tolist() for name in ('topic', 'target'))))
    assert len(pairs) == 40  # both ways; which are best is told by kb/update_memory_test.py
    for batch in batches(make('groups', prepared, min_count=2, max_pairs=20)):
        for bucket in batch.pairs:
            assert set(zip(bucket.topic.tolist(), bucket.target.tolist())) <= pairs | {(-1, -1)}


def test_a_second_mention_in_a_passage_is_no_positive_of_the_first(prepared):
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


def test_follow_takes_hop_counts_in_turn_and_deals_questions_out(prepared):
    usable = [q for q in prepared.questions('1-hop/train') if q.topic_entity >= 0 and q.answers]
    sharded = [make('follow', prepared).shard(i, 2) for i in range(2)]
    assert [batch.hops for batch in batches(make('follow', prepared))] == [1, 3] * 4
    # lcm: as many draws as make whole epochs
    epochs = 5
    steps = len(usable) * epochs // 10
    assert steps * 10 == len(usable) * epochs
    seen = collections.Counter(
        (int(topic), tuple(sorted(answers[answers >= 0].tolist())))
        for source in sharded
        for step in range(0, 2 * steps, 2)
        for topic, answers in zip(source[step].questions.topic, source[step].questions.answers)
    )
    wanted = collections.Counter((q.topic_entity, tuple(sorted(q.answers))) for q in usable)
    assert seen == collections.Counter({k: epochs * n for k, n in wanted.items()})


def test_align_puts_an_answering_mention_and_others_beside_each_question(prepared):
    source = make('align', prepared)
    assert 0 < len(source.questions.topics) <= len(source.questions.pairs) < 20
    asked = {(q.topic_entity, tuple(q.answers)) for q in prepared.questions('1-hop/train')}
    kept = prepared.pair_columns('title')
    known = set(zip(kept['topic'].tolist(), kept['target'].tolist()))
    with_negatives = []
    for batch in batches(source):
        rows, asked_about = list(rows_of(batch.pairs)), batch.questions.topic
        topics = set(asked_about[asked_about >= 0].tolist())
        for topic, answers in zip(asked_about, batch.questions.answers):
            answers = answers[answers >= 0].tolist()
            targets = [r['target'] in answers for r in rows if r['topic'] == topic >= 0]
            assert any(targets) and (topic, tuple(answers)) in asked or (topic, answers) == (-1, [])
            with_negatives += [not all(targets)] * int(topic >= 0)
        for topic in topics:  # as many rows as asked for, or all that the topic has
            pairs = sum(topic == t for t, _ in known)
            assert sum(r['topic'] == topic for r in rows) == min(6, pairs)
        assert all(r['topic'] in topics and not r['anchor'] for r in rows)
    assert np.mean(with_negatives) > 0.8


def pairs_of(batch):
    """Each pair of a batch of passages: tokens, places of topic and target, topic, target."""
    for bucket in batch.passages:
        for i, slot in zip(*np.nonzero(bucket.topic >= 0)):
            mentions = bucket.topic_mention[i, slot], bucket.target_mention[i, slot]
            ends = [[int(end[i, m]) for end in (bucket.first, bucket.last)] for m in mentions]
            named = int(bucket.topic[i, slot]), int(bucket.target[i, slot])
            yield bucket.tokens[i].tolist(), *ends, *named


@pytest.mark.parametrize('pairs', ['title', 'sentence', 'all'])
def test_passages_hold_all_pairs_of_the_topics_that_are_asked_about(prepared, pairs):
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
    for batch in batches(make('align passages', prepared, pairs=pairs, pairs_per_passage=400)):
        topics, found = set(batch.questions.topic.tolist()) - {-1}, collections.defaultdict(list)
        for tokens, *pair in pairs_of(batch):
            plain = tokens[1 : tokens.index(prepared.special.sep)]
            found[texts[tuple(plain)]].append(tuple(pair))
        for passage, those in found.items():
            assert sorted(those) == sorted(p for p in of_passage[passage] if p[2] in topics)
        packed = {pair[2:] for those in found.values() for pair in those}
        for topic, answers in zip(batch.questions.topic.tolist(), batch.questions.answers.tolist()):
            answers = [answer for answer in answers if answer >= 0]
            assert topic < 0 or (topic, tuple(answers)) in asked
            right += [any((topic, answer) in packed for answer in answers)] * (topic >= 0)
    assert len(right) > 30 and all(right)


RUN_STEPS = 12


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    prepared = Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))
    return RelationSource(prepared, RelationSettings(rows=32), seed=1)


@pytest.mark.parametrize('options', [{}, {'worker_processes': 2}], ids=['threads', 'processes'])
def test_a_run_resumed_at_any_step_sees_the_batches_of_the_source(source, options):
    made = list(base.batches(source, 7, RUN_STEPS, **options))
    assert len(made) == RUN_STEPS - 7
    for step, batch in enumerate(made, 7):
        jax.tree.map(np.testing.assert_array_equal, batch, source[step])


class Squares(Source):
    def __init__(self):
        super().__init__(0)
        self.made = []

    def batch(self, step, rng):
        self.made.append(step)
        if step == 5:
            raise ValueError('passage 17 is damaged')
        return {'x': np.int32(step**2)}


def test_steps_come_in_order_no_further_ahead_than_needed_and_an_error_at_its_step():
    source = Squares()
    batches = base.batches(source, 0, 10**9)
    assert [int(next(batches)['x']) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert max(source.made) < 15
    with pytest.raises(Exception, match='passage 17 is damaged'):
        next(batches)
