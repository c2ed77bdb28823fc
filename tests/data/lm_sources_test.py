"""Batches of the language model: what is hidden, which entries are gold, and what null must be right for."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import batching, lm_sources
from opql_jax.data.prepared import Prepared

import tiny_training


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_training.write_prepared(tmp_path_factory.mktemp('prepared')))


@pytest.fixture(scope='module')
def memory(prepared):
    """Columns (topic, target, passages) of a memory that holds three quarters of the pairs, some of them of two passages."""
    rng = np.random.default_rng(0)
    kept = np.flatnonzero(rng.random(len(prepared.pairs['topic'])) < 0.75)
    topic, target, passage = (prepared.pairs[name][kept] for name in ('topic', 'target', 'passage'))
    second = np.where(rng.random(len(kept)) < 0.3, rng.permutation(passage), -1)
    return topic, target, np.stack([passage, second], axis=1)


def rows_of(batch):
    """The used rows of a batch as dicts of its features."""
    for length in batching.lengths_in(batch):
        features = {name.removesuffix(f'_{length}'): value for name, value in batch.items() if name.endswith(f'_{length}')}
        for i in np.flatnonzero(features['label'] >= 0):
            yield {name: value[i] for name, value in features.items()}


def cloze(prepared, memory, **options):
    entries = None if memory is None else lm_sources.Entries(*memory)
    return lm_sources.ClozeSource(prepared, num_steps=4, seed=1, entries=entries, rows=32, **options)


def test_entries_are_found_by_pair_but_those_of_the_passage_alone(memory):
    topic, target, passages = memory
    entries = lm_sources.Entries(*memory)
    for a, b, p in [(topic[0], target[0], -1), (topic[5], target[5], passages[5, 0]), (topic[7], target[7], 3), (0, 999, -1)]:
        same = (topic == a) & (target == b) & ~((passages == p).any(axis=1) & (p >= 0))
        assert sorted(entries.find(a, b, p)) == np.flatnonzero(same).tolist()


def test_a_cloze_hides_its_label_and_its_topics_are_visible(prepared, memory):
    ent, r1, r2 = prepared.special.ent, prepared.special.r1, prepared.special.r2
    seen = 0
    for row in rows_of(cloze(prepared, memory, topics=3)[0]):
        passage = prepared.records.read([row['passage']])[0]
        assert row['label'] in passage.entities and row['answers'].tolist() == [row['label']]
        assert row['tokens'][row['r2'] - 1 : row['r2'] + 1].tolist() == [ent, r2]
        hidden = (passage.entities == row['label']).sum()
        assert (row['tokens'] == ent).sum() == hidden
        for start, mark, topic, used in zip(row['start'], row['r1'], row['topic'], row['used']):
            assert used == (topic >= 0)
            if used:
                mention = next(
                    i
                    for i in np.flatnonzero(passage.entities == topic)
                    if passage.tokens[passage.starts[i] : passage.ends[i]].tolist() == row['tokens'][start:mark].tolist()
                )
                assert row['tokens'][mark] == r1 and passage.entities[mention] != row['label']
                seen += 1
    assert seen > 30


def test_gold_entries_state_the_pair_elsewhere_and_null_is_right_without_any(prepared, memory):
    topic, target, passages = memory
    absent = present = 0
    for row in rows_of(cloze(prepared, memory)[1]):
        for entity, gold, missing, used in zip(row['topic'], row['gold'], row['absent'], row['used']):
            if not used:
                assert not missing and (gold == -1).all()
                continue
            elsewhere = ~(passages == row['passage']).any(axis=1)
            expected = np.flatnonzero((topic == entity) & (target == row['label']) & elsewhere)
            found = gold[gold >= 0]
            assert set(found) <= set(expected) and len(found) == min(len(expected), len(gold))
            assert missing == (len(expected) == 0)
            absent, present = absent + missing, present + (len(found) > 0)
    assert absent > 5 and present > 5


def test_batches_are_a_function_of_seed_and_step(prepared, memory):
    for step in (0, 3):
        one, two = cloze(prepared, memory)[step], cloze(prepared, memory)[step]
        assert one.keys() == two.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], two[name])
    first, second = cloze(prepared, memory)[0], cloze(prepared, memory)[1]
    assert any((first[name] != second[name]).any() for name in first)


def test_without_a_memory_nothing_is_gold_or_absent(prepared):
    for row in rows_of(cloze(prepared, None)[0]):
        assert (row['gold'] == -1).all() and not row['absent'].any()


def question(number, answers, hops=1, topics=1):
    text = 'song river ' * topics
    mentions = tuple((11 * t, 11 * t + 4) for t in range(topics))
    return Question(f'q{number}', text.strip(), mentions, (-1,) * topics, tuple(answers), hops=hops)


def test_questions_come_by_hops_with_one_of_their_answers_as_label(prepared):
    asked = [question(0, [3, 4]), question(1, [5], topics=2), question(2, [7], hops=2), question(3, [])]
    source = lm_sources.OpenQuestionSource(prepared, asked, num_steps=8, seed=0, rows=4)
    assert (source.num_questions, source.num_left_out, source.hop_counts) == (3, 1, [1, 2])
    labels = {1: set(), 2: set()}
    for step in range(8):
        batch = source[step]
        for row in rows_of(batch):
            labels[int(batch['hops'])].add(int(row['label']))
            assert row['label'] in row['answers'] and row['passage'] == -1 and not row['absent'].any()
            assert (row['topic'] == -1).all()
            assert row['used'].sum() == (2 if row['label'] == 5 else 1)
            for mark in row['r1'][row['used']]:
                assert row['tokens'][mark] == prepared.special.r1
    assert labels == {1: {3, 4, 5}, 2: {7}}


def test_questions_without_any_known_answer_are_refused(prepared):
    with pytest.raises(InputError, match='no question has an answer'):
        lm_sources.OpenQuestionSource(prepared, [question(0, [])], num_steps=1, seed=0)


def test_some_questions_must_do_without_their_answers(prepared):
    many = list(range(1, 2 + lm_sources.MOST_BARRED))
    asked = [question(0, [3, 4]), question(1, [5]), question(2, [7], hops=2), question(3, many), question(4, [7], topics=2)]
    source = lm_sources.OpenQuestionSource(prepared, asked, num_steps=40, seed=0, rows=8, absent_rate=0.5)
    absent = []
    for step in range(40):
        for row in rows_of(source[step]):
            missing, answers = row['absent'][row['used']].any(), row['answers'][row['answers'] >= 0]
            assert set(row['exclude'][row['exclude'] >= 0]) == (set(answers) if missing else set())
            if len(answers) <= 2 and 7 not in answers:
                absent.append(missing)
            else:  # too many answers to bar, of two hops the first is as good as ever, and so are two topics one by one
                assert not missing
    assert 0.3 < np.mean(absent) < 0.7


def test_names_of_all_entities_are_put_in_place_of_a_topic(prepared):
    vocab, tokenizer, special = prepared.vocab, prepared.tokenizer, prepared.special
    asked = [question(0, [1]), question(1, [2], topics=2), Question('x', 'who saw it', ((8, 10),), (-1,))]
    source = lm_sources.NameSource(prepared, asked, num_steps=20, seed=3, rows=10)
    after_who_saw = 1 + len(tokenizer.encode('who saw', add_special_tokens=False).ids)
    entities, texts = [], set()
    for step in range(4):  # an epoch of 40
        batch = source[step]
        (length,) = batching.lengths_in(batch)
        assert (batch[f'label_{length}'] == -1).all() and (batch[f'gold_{length}'] == -1).all()
        for row in np.flatnonzero(batch[f'used_{length}'][:, 0]):
            entity = int(batch[f'topic_{length}'][row, 0])
            tokens = batch[f'tokens_{length}'][row]
            start, mark = int(batch[f'start_{length}'][row, 0]), int(batch[f'r1_{length}'][row, 0])
            assert tokens[mark] == special.r1 and tokens[batch[f'r2_{length}'][row]] == special.r2
            assert tokens[start:mark].tolist() == tokenizer.encode(vocab.names[entity], add_special_tokens=False).ids
            entities.append(entity)
            texts.add(start)
    assert len(set(entities)) == len(entities) > 35 and texts == {1, after_who_saw}  # of both questions about one topic
    with pytest.raises(InputError, match='no question has just one topic'):
        lm_sources.NameSource(prepared, asked[1:2], num_steps=1, seed=0)


def test_shards_of_several_sources_are_shards_of_each(prepared):
    asked = lm_sources.OpenQuestionSource(prepared, [question(i, [i]) for i in range(1, 9)], num_steps=2, seed=0, rows=2)
    text = lm_sources.ClozeSource(prepared, num_steps=2, seed=1, entries=None, rows=4)
    names = lm_sources.NameSource(prepared, [question(0, [1])], num_steps=2, seed=2, rows=4)
    shards = [lm_sources.Beside(asked, text=text, names=names).shard(i, 2)[0] for i in (0, 1)]
    apart = [(first, *others.values()) for first, others in map(lm_sources.Beside.apart, shards)]
    for i, parts in enumerate(apart):
        for of_both, source in zip(parts, (asked, text, names), strict=True):
            expected = source.shard(i, 2)[0]
            assert of_both.keys() == expected.keys()
            for name, value in expected.items():
                np.testing.assert_array_equal(of_both[name], value, err_msg=name)
    for one, other in zip(*apart):
        assert any(not np.array_equal(one[name], other[name]) for name in one)
