"""Batches of the language model: what is hidden, which entries are gold, what null is for."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.cloze import ClozeSource, EntryIndex
from opql_jax.data.sources.names import NameSource
from opql_jax.data.sources.open_questions import MOST_EXCLUDED, OpenQuestionSource

import tiny_training


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_training.write_prepared(tmp_path_factory.mktemp('prepared')))


@pytest.fixture(scope='module')
def memory(prepared):
    """Columns of a memory of three quarters of the pairs, some of them of two passages."""
    rng = np.random.default_rng(0)
    kept = np.flatnonzero(rng.random(len(prepared.pairs['topic'])) < 0.75)
    topic, target, passage = (prepared.pairs[name][kept] for name in ('topic', 'target', 'passage'))
    second = np.where(rng.random(len(kept)) < 0.3, rng.permutation(passage), -1)
    return topic, target, np.stack([passage, second], axis=1)


def rows_of(buckets):
    for bucket in buckets:
        features = bucket._asdict()
        features |= features.pop('texts')._asdict()
        for i in np.flatnonzero(bucket.label >= 0):
            yield {name: value[i] for name, value in features.items()}


def cloze(prepared, memory, **options):
    entries = None if memory is None else EntryIndex(*memory)
    return ClozeSource(prepared, entries=entries, rows=32, seed=1, **options)


def test_a_cloze_hides_its_label_and_its_topics_are_visible(prepared, memory):
    ent, r1, r2 = prepared.special.ent, prepared.special.r1, prepared.special.r2
    seen = 0
    for row in rows_of(cloze(prepared, memory, topics=3)[0].texts):
        passage = prepared.records.read([row['passage']])[0]
        assert row['label'] in passage.entities and row['answers'].tolist() == [row['label']]
        assert row['tokens'][row['r2'] - 1 : row['r2'] + 1].tolist() == [ent, r2]
        hidden = (passage.entities == row['label']).sum()
        assert (row['tokens'] == ent).sum() == hidden
        for start, mark, topic, used in zip(row['start'], row['r1'], row['topic'], row['used']):
            assert used == (topic >= 0)
            if used:
                spans = zip(passage.starts, passage.ends, passage.entities)
                named = [passage.tokens[a:b].tolist() for a, b, entity in spans if entity == topic]
                assert row['tokens'][start:mark].tolist() in named
                assert row['tokens'][mark] == r1 and topic != row['label']
                seen += 1
    assert seen > 30


def test_gold_entries_state_the_pair_elsewhere_and_null_is_right_without_any(prepared, memory):
    topic, target, passages = memory
    absent = present = 0
    for row in rows_of(cloze(prepared, memory)[1].texts):
        for entity, gold, missing, used in zip(*map(row.get, ('topic', 'gold', 'absent', 'used'))):
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


def question(number, answers, hops=1, topics=1):
    text = 'song river ' * topics
    mentions = tuple((11 * t, 11 * t + 4) for t in range(topics))
    return Question(f'q{number}', text.strip(), mentions, (-1,) * topics, tuple(answers), hops=hops)


def test_questions_come_by_hops_with_one_of_their_answers_as_label(prepared):
    asked = [question(0, [3, 4]), question(1, [5], topics=2), question(2, [7], hops=2)]
    asked.append(question(3, []))
    source = OpenQuestionSource(prepared, asked, rows=4)
    assert source.hop_counts == [1, 2]
    labels = {1: set(), 2: set()}
    for step in range(8):
        batch = source[step]
        for row in rows_of(batch.questions):
            labels[batch.hops].add(int(row['label']))
            assert row['label'] in row['answers']
            assert row['passage'] == -1 and not row['absent'].any()
            assert (row['topic'] == -1).all()
            assert row['used'].sum() == (2 if row['label'] == 5 else 1)
            for mark in row['r1'][row['used']]:
                assert row['tokens'][mark] == prepared.special.r1
    assert labels == {1: {3, 4, 5}, 2: {7}}
    with pytest.raises(InputError, match='no question has an answer'):
        OpenQuestionSource(prepared, asked[3:])


def test_some_questions_must_do_without_their_answers(prepared):
    many = list(range(1, 2 + MOST_EXCLUDED))
    asked = [
        question(0, [3, 4]), question(1, [5]), question(2, [7], hops=2), question(3, many),
        question(4, [7], topics=2),
    ]  # fmt: skip
    source = OpenQuestionSource(prepared, asked, rows=8, absent_rate=0.5)
    absent = []
    for step in range(40):
        for row in rows_of(source[step].questions):
            missing, answers = row['absent'][row['used']].any(), row['answers'][row['answers'] >= 0]
            assert set(row['exclude'][row['exclude'] >= 0]) == (set(answers) if missing else set())
            if len(answers) <= 2 and 7 not in answers:
                absent.append(missing)
            # Too many answers to bar, of two hops the first is as good as ever, and so are two
            # topics one by one.
            else:
                assert not missing
    assert 0.3 < np.mean(absent) < 0.7


def test_names_of_all_entities_are_put_in_place_of_a_topic(prepared):
    vocab, tokenizer, special = prepared.vocab, prepared.tokenizer, prepared.special
    other = Question('x', 'who saw it', ((8, 10),), (-1,))
    asked = [question(0, [1]), question(1, [2], topics=2), other]
    source = NameSource(prepared, asked, rows=10, seed=3)
    after_who_saw = 1 + len(tokenizer.encode('who saw', add_special_tokens=False).ids)
    entities, starts = [], set()
    for step in range(4):  # an epoch of 40
        (bucket,) = source[step].texts
        assert (bucket.label == -1).all() and (bucket.texts.gold == -1).all()
        for row in np.flatnonzero(bucket.texts.used[:, 0]):
            entity, tokens = int(bucket.topic[row, 0]), bucket.texts.tokens[row]
            start, mark = int(bucket.texts.start[row, 0]), int(bucket.texts.r1[row, 0])
            assert tokens[mark] == special.r1 and tokens[bucket.texts.r2[row]] == special.r2
            found = tokens[start:mark].tolist()
            assert found == tokenizer.encode(vocab.names[entity], add_special_tokens=False).ids
            entities.append(entity)
            starts.add(start)
    # Of both questions about one topic.
    assert len(set(entities)) == len(entities) > 35 and starts == {1, after_who_saw}
    with pytest.raises(InputError, match='no question has just one topic'):
        NameSource(prepared, asked[1:2])
