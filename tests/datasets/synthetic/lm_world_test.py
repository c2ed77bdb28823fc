"""The synthetic world for language models: what its training text is silent about; questions."""

import itertools
import json

import pytest

from opql_jax.corpus import documents as records
from opql_jax.datasets.synthetic import lm_world
from opql_jax.datasets.synthetic.questions import question_type
from opql_jax.datasets.synthetic.world import CONJUNCTIONS, RELATIONS, WORDINGS, generate

from synthetic_text import read_facts, sentences_of, walk

SIZE, SHARE = 400, 0.15
CORPORA = ('train', 'facts', 'changed')
CHAINS = {question_type(key.split('>')): key.split('>') for key in WORDINGS}


@pytest.fixture(scope='module', params=(0, pytest.param(7, marks=pytest.mark.slow)))
def seed(request):
    return request.param


@pytest.fixture(scope='module')
def world(seed):
    return generate(seed, num_documents=SIZE)


@pytest.fixture(scope='module')
def written(seed, tmp_path_factory):
    directory = tmp_path_factory.mktemp('lm_world')
    lm_world.write_lm_world(
        directory, seed=seed, num_documents=SIZE, held_out=SHARE, num_train=400, num_eval=120
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
def questions(written):
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
def test_answers_are_what_the_text_states(stated, questions, name):
    rows = list(itertools.chain(*(rows[:100] for rows in split_by_kind(questions[name]))))
    assert rows
    for row in rows:
        assert row['answers'] and row['hops'] == (2 if name == 'two_hop' else row['hops'])
        for corpus in ANSWERED[name]:
            assert set(row['answers']) == answers_of(row, stated[corpus])
        if name == 'held_out':
            assert not answers_of(row, stated['train']) and '^-1' not in CHAINS[row['type']][0]
        if len(row['entities']) == 2:  # a conjunction needs both topics
            assert max(map(len, constraints_of(row, stated['everything']))) > len(row['answers'])


def test_changed_questions_are_the_held_out_ones_with_another_answer(questions):
    held_out = {row['id'].removeprefix('held_out-'): row for row in questions['held_out']}
    relations = [CHAINS[row['type']][0] for row in held_out.values()]
    assert len(questions['changed']) == sum(r in lm_world.FUNCTIONAL for r in relations)
    for row in questions['changed']:
        true = held_out[row['id'].removeprefix('changed-')]
        assert row == {**true, 'id': row['id'], 'answers': row['answers']}
        assert len(row['answers']) == 1 and not set(row['answers']) & set(true['answers'])


def test_topics_of_evaluation_are_not_trained_on(questions):
    one, two, conjunctions = split_by_kind(questions['train'])
    topics = lambda rows: {key for row in rows for key in row['entities']}
    pairs = lambda rows: {frozenset(row['entities']) for row in rows}
    assert not topics(questions['dev_known']) & topics(questions['train'])
    assert not topics(questions['two_hop']) & topics(two)
    assert not pairs(questions['conjunction']) & pairs(conjunctions)
    assert topics(one) & topics(questions['two_hop'])


@pytest.mark.parametrize(
    'size, share, error', [(50, 1, 'between 0 and 1, got 1'), (20, 0.01, '20 are too')]
)
def test_a_bad_share_and_a_world_too_small_for_a_file_are_errors(tmp_path, size, share, error):
    with pytest.raises(ValueError, match=error):
        lm_world.write_lm_world(tmp_path / 'small', num_documents=size, held_out=share)
    assert not (tmp_path / 'small').exists()
