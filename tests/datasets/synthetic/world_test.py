"""The synthetic world: what its pages say and what its questions ask, and nothing else."""

import collections
import itertools
import os
import subprocess
import sys

import pytest

from opql_jax.corpus.linking import MentionLinker
from opql_jax.datasets.synthetic import pages
from opql_jax.datasets.synthetic.questions import (
    MAX_ANSWERS,
    QUESTION_SETS,
    question_type,
    questions,
)
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.datasets.synthetic.world import RELATIONS, SPLITS, WORDINGS, generate

from synthetic_text import read_facts, walk

SEEDS = (0, pytest.param(7, marks=pytest.mark.slow))
CHAINS = {question_type(chain.split('>')): chain.split('>') for chain in WORDINGS}


@pytest.fixture(scope='module', params=SEEDS)
def world(request):
    return generate(request.param, num_documents=400)


@pytest.fixture(scope='module')
def documents(world):
    return list(pages.documents(world))


@pytest.fixture(scope='module')
def facts(documents):
    """All facts read from the text alone, as (relation, subject key, object key)."""
    return set(itertools.chain.from_iterable(read_facts(document) for document in documents))


# An independent reader: every sentence is held against every template.


def test_every_sentence_states_one_relation_or_none_and_text_the_facts(world, facts):
    pairs = {name: zip(table.subjects, table.objects) for name, table in world.facts.items()}
    expected = {(n, world.keys[s], world.keys[o]) for n, joined in pairs.items() for s, o in joined}
    canonical = lambda fact: (fact[0], *sorted(fact[1:])) if RELATIONS[fact[0]].symmetric else fact
    assert set(map(canonical, facts)) == set(map(canonical, expected))


def test_linking_by_name_finds_exactly_the_mentions(world, documents):
    linker, number = MentionLinker(world.vocab()), {key: i for i, key in enumerate(world.keys)}
    for document in documents:
        gold = [(m.start, m.end, number[m.entity]) for m in document.mentions]
        assert linker.link(document.text) == gold


@pytest.mark.parametrize('hops,split', QUESTION_SETS)
def test_answers_are_what_the_text_states(world, facts, split, hops):
    types = collections.Counter()
    for question in questions(world, split, hops):
        types[question.type] += 1
        if types[question.type] <= 3:
            answers = {world.keys[answer] for answer in question.answers}
            assert answers == walk(facts, world.keys[question.topic_entity], CHAINS[question.type])
            assert 0 < len(answers) <= MAX_ANSWERS
            assert question.hops == len(CHAINS[question.type]) == hops


def test_topics_of_a_split_are_in_no_other_split(world):
    of = lambda split: (q for hops in (1, 2, 3) for q in questions(world, split, hops))
    topics = {split: {q.topic_entity for q in of(split)} for split in SPLITS}
    for a, b in itertools.combinations(topics.values(), 2):
        assert not a & b
    unseen = list(questions(world, 'unseen_wording', 1))
    assert {question.topic_entity for question in unseen} <= topics['test']
    assert len(topics['train']) > 4 * len(topics['test']) > 0


def test_bad_arguments_are_named_and_questions_that_do_not_exist_are_errors(world):
    for arguments, field in (((-1, 100), 'seed'), ((0, 5), 'num_documents')):
        with pytest.raises(ValueError, match=field):
            generate(*arguments)
    for split, hops in (('validation', 1), ('train', 4), ('unseen_wording', 2)):
        with pytest.raises(ValueError, match='no .-hop questions of split'):
            next(questions(world, split, hops))


DIGEST = """
import hashlib, itertools, json, sys
from opql_jax.corpus.questions import bracketed
from opql_jax.datasets.synthetic import pages
from opql_jax.datasets.synthetic.questions import QUESTION_SETS, questions
from opql_jax.datasets.synthetic.world import generate

world = generate(int(sys.argv[1]), num_documents=200)
said = [(d.id, d.title, d.text, d.title_entity, [(m.start, m.end, m.entity) for m in d.mentions]) for d in pages.documents(world)]
asked = [
    (bracketed(q), q.topic_entity, q.answers, q.via, q.type)
    for hops, split in QUESTION_SETS
    for q in itertools.islice(questions(world, split, hops), 500)
]
print(hashlib.sha256(json.dumps([world.names, world.keys, said, asked]).encode()).hexdigest())
"""  # noqa: E501


@pytest.mark.parametrize('hash_seed', ('1', '2'))
def test_the_world_of_a_seed_is_the_same_in_every_process_and_release(hash_seed):
    """Measured accuracies rest on these bytes: if they change, they are to be measured anew."""
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, 'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': path}
    found = subprocess.check_output([sys.executable, '-c', DIGEST, '0'], env=environment, text=True)
    assert found.strip() == '777c7d52d46f30c05179e2381f88c93b599e84a56ace0c937f7a9cbd1ffcc1d4'


def test_the_reader_gives_the_documents_and_questions_of_the_world(world, documents, tmp_path):
    reader = Synthetic(world.seed, num_documents=400, num_train=300, num_eval=60)
    vocab, read = reader.read(tmp_path / 'rejected.jsonl')
    assert (vocab.keys, vocab.names, read) == (world.keys, world.names, documents)
    splits = reader.questions(vocab, tmp_path / 'rejected.jsonl')
    assert splits.keys() == {f'{hops}-hop/{split}' for hops, split in QUESTION_SETS}
    for hops, split in QUESTION_SETS:
        expected = itertools.islice(questions(world, split, hops), 300 if split == 'train' else 60)
        assert splits[f'{hops}-hop/{split}'] == list(expected)
