"""Slot-filling queries: what they ask, that text supports them, how they are balanced and split."""

import collections
import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.align import AlignSettings, AlignSource
from opql_jax.data.sources.follow import FollowSource
from opql_jax.datasets import slot_filling
from opql_jax.datasets.slot_filling import SlotFilling

import tiny_sets

FACT = st.tuples(st.sampled_from('abcdef'), st.sampled_from('xyz'), st.sampled_from('abcdef'))
FACTS = st.lists(FACT, max_size=25)


@hypothesis.given(
    FACTS.map(lambda facts: [f for f in facts if f[0] != f[2]]), st.sampled_from([1, 2, 3])
)
def test_queries_are_all_chains_with_an_answer_and_what_a_walk_reaches(facts, hops):
    wanted = {}
    for topic, chain in itertools.product('abcdef', itertools.product('xyz', repeat=hops)):
        reached, here = [], {topic}
        for relation in chain:
            here = {tail for head, r, tail in facts if r == relation and head in here} - {topic}
            reached.append(here)
        if here:
            wanted[topic, chain] = reached
    found = slot_filling.queries(facts, hops)
    assert {(q.topic, q.chain): list(map(set, q.reached)) for q in found} == wanted
    assert len(found) == len(wanted)


def many_queries():
    """900 queries of two hops, in half of which the relation r0 has a part, and in a quarter r1."""
    rng = np.random.default_rng(0)
    chances = 0.5 ** np.arange(1, 13)
    chains = rng.choice(12, (900, 2), p=chances / chances.sum())
    query = lambda i, *of: slot_filling.Query(f'topic {i}', of, (('m',), ('t',)))
    return [query(i, f'r{a}', f'r{b}') for i, (a, b) in enumerate(chains)]


def counts_of(queries):
    return collections.Counter(relation for query in queries for relation in set(query.chain))


def test_balancing_cuts_the_most_frequent_relations_down_to_the_next_one():
    found = many_queries()
    before = counts_of(found)
    kept = slot_filling.balance(found, 3, seed=1)
    after = counts_of(kept)
    (_, first), *_, (_, most) = before.most_common(4)
    assert max(after.values()) == most < first / 3
    # Nothing is left out that could have been kept.
    left = [q for q in found if q not in kept]
    assert left and all(max(after[r] for r in q.chain) == most for q in left)
    # It depends on seed and queries, not on their order.
    assert slot_filling.balance(found[::-1], 3, seed=1) == kept
    assert set(slot_filling.balance(found, 3, seed=2)) != set(kept)
    assert slot_filling.balance(found, 12, seed=1) == found


@pytest.fixture(scope='module')
def file(tmp_path_factory):
    return tiny_sets.write_docred(tmp_path_factory.mktemp('docred'), tiny_sets.world())


def reader(file, **options):
    return SlotFilling(str(file), str(file.with_name('rel_info.json')), **options)


@pytest.fixture(scope='module')
def prepared(file, tmp_path_factory):
    folder = tmp_path_factory.mktemp('prepared')
    options = dict(wordpieces=600, max_tokens=40, title_prefix=False)
    prepare(kb=str(folder.parent), text=folder.name, reader=reader(file), **options)
    return Prepared(folder)


SPLITS = [f'{hops}-hop/{part}' for hops in (1, 2, 3) for part in ('dev', 'train')]


def test_parts_share_no_document_and_together_have_all(file, tmp_path):
    parts = {p: reader(file, part=p).read(tmp_path / p)[1] for p in ('train', 'dev', 'all')}
    ids = {part: {document.id for document in documents} for part, documents in parts.items()}
    assert not ids['train'] & ids['dev']
    assert ids['train'] | ids['dev'] == ids['all']
    assert len(ids['all']) == 120 and 5 < len(ids['dev']) < 45


def test_every_answer_has_a_sentence_of_its_part_at_every_hop(file, prepared):
    assert prepared.splits == SPLITS
    relations = {name: id for id, name in tiny_sets.RELATIONS.items()}
    for split in SPLITS:
        of_part = reader(file, part=split.split('/')[1])
        titles = {document.id for document in of_part.read(prepared.directory / 'ignored.jsonl')[1]}
        assert titles
        together = collections.defaultdict(set)
        for passage in prepared.passages.to_pylist():
            if passage['doc_id'] in titles:
                lines = np.cumsum([0] + [len(line) + 1 for line in passage['text'].split('\n')])
                line_of = lambda mention: np.searchsorted(lines, mention['start'], 'right')
                for a, b in itertools.permutations(passage['mentions'], 2):
                    if line_of(a) == line_of(b):
                        together[a['entity']].add(b['entity'])
        for question in prepared.questions(split):
            chain = [relations[name] for name in question.text.split(', ')[1:]]
            assert question.type.split(' > ') == chain
            assert len(chain) == question.hops == int(split[0])
            name = prepared.vocab.names[question.topic_entity]
            assert question.text[slice(*question.topic)] == name
            hops = [[question.topic_entity], *question.via, question.answers]
            assert len(hops) == question.hops + 1 and all(hops)
            for before, after in itertools.pairwise(hops):
                assert question.topic_entity not in after
                assert all(any(entity in together[b] for b in before) for entity in after)


def test_pairs_of_a_sentence_are_those_whose_mentions_begin_in_one(prepared):
    def sentence(row, mention):
        passage = prepared.passages.slice(int(row['passage']), 1).to_pylist()[0]
        start = passage['mentions'][int(row[mention])]['start']
        return sum(begin <= start for begin in passage['sentence_starts'])

    rows = [dict(zip(prepared.pairs, values)) for values in zip(*prepared.pairs.values())]
    is_inside = lambda row: sentence(row, 'topic_mention') == sentence(row, 'target_mention')
    together = [i for i, row in enumerate(rows) if is_inside(row)]
    assert prepared.pair_rows('sentence').tolist() == together
    assert 0 < len(together) < len(prepared.pair_rows('all')) == len(rows)


def test_questions_of_held_out_relations_are_in_no_batch(prepared):
    held_out, train_splits = ('P26', 'P36'), [split for split in SPLITS if 'train' in split]
    asked = [q for split in train_splits for q in prepared.questions(split)]
    spouses = {a for q in asked if q.type == 'P26' for a in q.answers}
    for source in (
        FollowSource(prepared, train_splits, held_out=held_out),
        AlignSource(prepared, AlignSettings(pairs='all', held_out=held_out)),
    ):
        answers = {int(a) for step in range(9) for a in source[step].questions.answers.ravel()}
        assert spouses and not spouses & answers
