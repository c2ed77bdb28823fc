"""The synthetic worlds: what their text says and is silent about, and what questions ask."""

import collections
import itertools
import json
import os
import re
import subprocess
import sys

import pytest

from opql_jax.corpus import documents as records
from opql_jax.corpus.linking import MentionLinker
from opql_jax.datasets.synthetic import lm_world, pages
from opql_jax.datasets.synthetic.questions import (
    MAX_ANSWERS,
    QUESTION_SETS,
    question_type,
    questions,
)
from opql_jax.datasets.synthetic.reader import Synthetic
from opql_jax.datasets.synthetic.world import (
    CONJUNCTIONS,
    PAGES,
    RELATIONS,
    SPLITS,
    WORDINGS,
    generate,
)

SEEDS = (0, pytest.param(7, marks=pytest.mark.slow))
CHAINS = {question_type(chain.split('>')): chain.split('>') for chain in WORDINGS}


@pytest.fixture(scope='module', params=SEEDS)
def world(request):
    return generate(request.param, num_documents=SIZE)


@pytest.fixture(scope='module')
def documents(world):
    return list(pages.documents(world))


@pytest.fixture(scope='module')
def facts(documents):
    """All facts read from the text alone, as (relation, subject key, object key)."""
    return set(itertools.chain.from_iterable(read_facts(document) for document in documents))


# An independent reader: every sentence is held against every template.


def test_every_sentence_states_one_relation_or_none_and_text_the_facts(world, facts):
    assert set(map(canonical, facts)) == keys_of(world, world.facts)


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
    reader = Synthetic(world.seed, num_documents=SIZE, num_train=300, num_eval=60)
    vocab, read = reader.read(tmp_path / 'rejected.jsonl')
    assert (vocab.keys, vocab.names, read) == (world.keys, world.names, documents)
    splits = reader.questions(vocab, tmp_path / 'rejected.jsonl')
    assert splits.keys() == {f'{hops}-hop/{split}' for hops, split in QUESTION_SETS}
    for hops, split in QUESTION_SETS:
        expected = itertools.islice(questions(world, split, hops), 300 if split == 'train' else 60)
        assert splits[f'{hops}-hop/{split}'] == list(expected)


NAMED = r'<Q\d+>(?:, <Q\d+>)*(?: and <Q\d+>)?'
FORMS = {word for forms in PAGES['references'].values() for form in forms for word in form}
PRONOUN = '|'.join(sorted(FORMS, key=len, reverse=True))
SLOT = re.compile(r'\\\{([so])(?:\\\.(?:him|his|name))?\\\}')


def pattern(template):
    text = SLOT.sub(lambda slot: rf"(?P<{slot[1]}>{NAMED}|{PRONOUN})(?:'s)?", re.escape(template))
    return re.compile(text.replace(r'\ was', r'\ (?:was|were)') + r'\.', re.IGNORECASE)


PATTERNS = [(r.name, pattern(template)) for r in RELATIONS.values() for template in r.sentences]
OTHER_PATTERNS = [
    *(pattern(template) for every in PAGES['distractors'].values() for _, template in every),
    *(pattern(template) for every in PAGES['fillers'].values() for template in every),
]


def sentences_of(document):
    """Sentences with every mention replaced by its key: `<Q7> was directed by <Q3>.`"""
    text, position = '', 0
    for mention in document.mentions:
        text += document.text[position : mention.start] + f'<{mention.entity}>'
        position = mention.end
    return re.split(r'(?<=\.) ', text + document.text[position:])


def read_facts(document):
    for sentence in sentences_of(document):
        stated = {
            (relation, side, key)
            for relation, template in PATTERNS
            if (match := template.fullmatch(sentence))
            for side in 'so'
            for key in re.findall(r'Q\d+', match[side]) or [document.title_entity]
        }
        names = {relation for relation, _, _ in stated}
        is_other = any(p.fullmatch(sentence) for p in OTHER_PATTERNS)
        assert len(names) + is_other == 1, f'unclear: {sentence}'
        sides = ([key for _, side, key in stated if side == wanted] for wanted in 'so')
        yield from ((*names, s, o) for s, o in itertools.product(*sides))


def walk(facts, topic, chain):
    """Answers by brute force over facts read from the text; the topic is never visited again."""
    reached = {topic}
    for step in chain:
        name, inverse = step.removesuffix('^-1'), step.endswith('^-1')
        found = set()
        for relation, subject, object in facts:
            if relation == name:
                if subject in reached and (not inverse or RELATIONS[name].symmetric):
                    found.add(object)
                if object in reached and (inverse or RELATIONS[name].symmetric):
                    found.add(subject)
        reached = found - {topic}
    return reached


SIZE, SHARE = 400, 0.15
CORPORA = ('train', 'facts', 'changed')


@pytest.fixture(scope='module')
def written(world, tmp_path_factory):
    directory = tmp_path_factory.mktemp('lm_world')
    lm_world.write_lm_world(
        directory, seed=world.seed, num_documents=SIZE, held_out=SHARE, num_train=400, num_eval=120
    )
    return directory


@pytest.fixture(scope='module')
def corpora(written, world):
    """The documents of each corpus, all of them valid."""
    checks = dict(max_reject_fraction=0, known_entities=set(world.keys))
    checks['rejected_path'] = written / 'rejected.jsonl'
    return {name: records.read_jsonl(written / name / 'corpus.jsonl', **checks) for name in CORPORA}


@pytest.fixture(scope='module')
def stated(corpora):
    """Of each corpus all facts that its text states: (relation, subject key, object key)."""
    facts_of = lambda documents: {canonical(fact) for d in documents for fact in read_facts(d)}
    found = {name: facts_of(documents) for name, documents in corpora.items()}
    return found | {'everything': found['train'] | found['facts']}


@pytest.fixture(scope='module')
def questions_of(written):
    read = lambda name: (written / f'questions/{name}.jsonl').read_text('utf-8').splitlines()
    return {name: list(map(json.loads, read(name))) for name in lm_world.QUESTION_FILES}


def canonical(fact):
    return (fact[0], *sorted(fact[1:])) if RELATIONS[fact[0]].symmetric else fact


def keys_of(world, facts):
    rows = ((n, s, o) for n, table in facts.items() for s, o in zip(table.subjects, table.objects))
    return {canonical((name, world.keys[s], world.keys[o])) for name, s, o in rows}


def test_training_text_and_held_out_text_state_every_fact_and_none_is_in_both(world, stated):
    assert stated['train'] | stated['facts'] == keys_of(world, world.facts)
    assert not stated['train'] & stated['facts']


def test_no_training_page_says_anything_about_both_entities_of_a_held_out_fact(corpora, stated):
    """No page of one mentions the other, and no sentence mentions both."""
    held_out = {frozenset(fact[1:]) for fact in stated['facts']}
    keys_in = lambda sentence: {part.split('>')[0] for part in sentence.split('<')[1:]}
    for document in corpora['train']:
        together = [(document.title_entity, mention.entity) for mention in document.mentions]
        for sentence in sentences_of(document):
            together += itertools.combinations(keys_in(sentence), 2)
        assert held_out.isdisjoint(map(frozenset, together))


def test_changed_text_gives_each_held_out_subject_another_object_of_the_kind_it_had(world, stated):
    functional = {fact for fact in stated['facts'] if fact[0] in lm_world.FUNCTIONAL}
    assert sorted(fact[:2] for fact in functional) == sorted(fact[:2] for fact in stated['changed'])
    kinds = {key: world.kind(i) for i, key in enumerate(world.keys)}
    related = {frozenset(fact[1:]) for fact in keys_of(world, world.facts)}
    for relation, subject, object in stated['changed']:
        assert kinds[object] == RELATIONS[relation].object
        assert frozenset((subject, object)) not in related


def split_by_kind(rows):
    """Questions of 1 hop, of 2 hops, and about two topics."""
    single = [row for row in rows if len(row['entities']) == 1]
    one, two = ([row for row in single if row['hops'] == hops] for hops in (1, 2))
    return one, two, [row for row in rows if len(row['entities']) == 2]


def answers_of(row, facts):
    """Answers by brute force over facts read from text."""
    if len(row['entities']) == 1:
        return walk(facts, row['entities'][0], CHAINS[row['type']])
    return set.intersection(*constraints_of(row, facts))


def constraints_of(row, facts):
    """What each of two topics alone leads to."""
    sources, target = row['type'].split('_to_')
    ends = lambda step: question_type((step,)).split('_to_')
    wanted = sources.split('_and_'), target
    kinds = lambda steps: ([ends(step)[0] for step in steps], ends(steps[0])[1])
    (steps,) = [steps for steps in CONJUNCTIONS if kinds(steps) == wanted]
    # A wording may name the topics in either order; only one order fits the kinds or, of two
    # people, the roles.
    bare = lambda wording: wording.replace('{x}', '').replace('{y}', '')
    wordings = {bare(wording): wording for wording in CONJUNCTIONS[steps]}
    (a, b), (c, d) = row['topics']
    wording = wordings[row['question'][:a] + row['question'][b:c] + row['question'][d:]]
    topics = row['entities'][:: 1 if wording.index('{x}') < wording.index('{y}') else -1]
    return [walk(facts, topic, [step]) for topic, step in zip(topics, steps)]


# Of each file the corpora whose text gives its answers.
ANSWERED = {
    'train': ('train', 'everything'),
    'dev_known': ('train', 'everything'),
    'two_hop': ('everything',),
    'conjunction': ('everything',),
    'held_out': ('facts',),
    'changed': ('changed',),
}


@pytest.mark.parametrize('name', ANSWERED)
def test_answers_for_a_language_model_are_what_the_text_of_a_corpus_states(
    stated, questions_of, name
):
    rows = list(itertools.chain(*(rows[:100] for rows in split_by_kind(questions_of[name]))))
    assert rows
    for row in rows:
        assert row['answers'] and row['hops'] == (2 if name == 'two_hop' else row['hops'])
        for corpus in ANSWERED[name]:
            assert set(row['answers']) == answers_of(row, stated[corpus])
        if name == 'held_out':
            assert not answers_of(row, stated['train']) and '^-1' not in CHAINS[row['type']][0]
        if len(row['entities']) == 2:  # a conjunction needs both topics
            assert max(map(len, constraints_of(row, stated['everything']))) > len(row['answers'])


def test_changed_questions_are_the_held_out_ones_with_another_answer(questions_of):
    held_out = {row['id'].removeprefix('held_out-'): row for row in questions_of['held_out']}
    relations = [CHAINS[row['type']][0] for row in held_out.values()]
    assert len(questions_of['changed']) == sum(r in lm_world.FUNCTIONAL for r in relations)
    for row in questions_of['changed']:
        true = held_out[row['id'].removeprefix('changed-')]
        assert row == {**true, 'id': row['id'], 'answers': row['answers']}
        assert len(row['answers']) == 1 and not set(row['answers']) & set(true['answers'])


def test_topics_of_evaluation_are_not_trained_on(questions_of):
    one, two, conjunctions = split_by_kind(questions_of['train'])
    topics = lambda rows: {key for row in rows for key in row['entities']}
    pairs = lambda rows: {frozenset(row['entities']) for row in rows}
    assert not topics(questions_of['dev_known']) & topics(questions_of['train'])
    assert not topics(questions_of['two_hop']) & topics(two)
    assert not pairs(questions_of['conjunction']) & pairs(conjunctions)
    assert topics(one) & topics(questions_of['two_hop'])
