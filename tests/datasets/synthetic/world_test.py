"""The synthetic world: what its pages say, what its questions ask, and that nothing else is in them."""

import collections
import itertools
import json
import os
import re
import subprocess
import sys
import tracemalloc

import pytest

from opql_jax.corpus import documents as records
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.questions import parse_metaqa_file
from opql_jax.datasets.synthetic import world as synthetic
from opql_jax.datasets.synthetic.templates import FILLERS, PAGE_KINDS, RELATIONS, SENTENCES
from opql_jax.datasets.synthetic.wordings import UNSEEN_WORDINGS, WORDINGS

from synthetic_text import OTHER_PATTERNS, digest, pattern, read_facts, sentences_of, walk

SEEDS = (0, 7)
QUESTION_SETS = [(split, hops) for split in synthetic.SPLITS for hops in (1, 2, 3)] + [('unseen_wording', 1)]


@pytest.fixture(scope='module', params=SEEDS)
def world(request):
    return synthetic.World(request.param, num_documents=400)


@pytest.fixture(scope='module')
def documents(world):
    return list(world.documents())


@pytest.fixture(scope='module')
def facts(documents):
    """All facts read from the text alone, as (relation, subject key, object key)."""
    return set(itertools.chain.from_iterable(read_facts(document) for document in documents))


# An independent reader: every sentence is held against every template.


OTHER_PATTERNS += [pattern(template) for template in itertools.chain.from_iterable(FILLERS.values())]


def test_every_sentence_states_one_relation_or_none_and_the_text_states_exactly_the_facts(world, facts):
    expected = {
        (name, world.keys[s], world.keys[o])
        for name, table in world.facts.items()
        for s, o in zip(table.subjects, table.objects)
    }

    def canonical(fact):
        return (fact[0], *sorted(fact[1:])) if RELATIONS[fact[0]].symmetric else fact

    assert {canonical(fact) for fact in facts} == {canonical(fact) for fact in expected}


def test_documents_are_valid_and_mentions_spell_their_entities(world, documents):
    names = dict(zip(world.keys, world.names))
    for document in documents:
        records.validate(document, names)
        assert document.title == names[document.title_entity]
        for mention in document.mentions:
            assert document.text[mention.start : mention.end] == names[mention.entity]
        assert list(document.mentions) == sorted(document.mentions, key=lambda mention: mention.start)
    assert any(not name.isascii() for name in names.values())


def test_linking_by_name_finds_exactly_the_mentions(world, documents):
    linker = MentionLinker(world.vocab())
    for document in documents:
        gold = [(m.start, m.end, world.keys.index(m.entity)) for m in document.mentions]
        assert [tuple(found) for found in linker.link(document.text)] == gold


def test_the_first_sentence_names_the_page_and_some_later_ones_do_not(documents):
    later = []
    for document in documents:
        first, *rest = sentences_of(document)
        assert f'<{document.title_entity}>' in first
        later += [f'<{document.title_entity}>' in sentence for sentence in rest]
    assert 0.05 < sum(later) / len(later) < 0.5


def test_every_page_entity_has_one_document_of_40_words_or_more(world, documents):
    pages = [key for kind in PAGE_KINDS for key in (world.keys[i] for i in world.ranges[kind])]
    assert sorted(document.title_entity for document in documents) == sorted(pages)
    assert len({document.id for document in documents}) == len(documents)
    lengths = sorted(len(document.text.split()) for document in documents)
    assert lengths[0] >= 35 and lengths[len(lengths) // 2] < 70


def test_some_facts_are_told_by_one_page_and_some_by_both_sides(documents):
    pages = collections.defaultdict(set)
    for document in documents:
        for fact in read_facts(document):
            pages[fact].add(document.id)
    both = sum(len(where) == 2 for where in pages.values()) / len(pages)
    assert 0.1 < both < 0.4


def test_names_differ_by_more_than_case_have_several_words_and_no_mark_of_the_question_format(world):
    assert len({name.casefold() for name in world.names}) == len(world.names)
    assert len(set(world.keys)) == len(world.keys)
    for name in world.names:
        assert ' ' in name and not set(name) & set('|\t\n[]{}')


def test_keys_do_not_tell_the_kind(world):
    numbers = {kind: sorted(int(world.keys[i][1:]) for i in ids) for kind, ids in world.ranges.items()}
    middle = 4.5 * len(world.names)
    for kind in ('film', 'person', 'book'):
        share = sum(number < middle for number in numbers[kind]) / len(numbers[kind])
        assert 0.25 < share < 0.75


@pytest.mark.parametrize('split,hops', QUESTION_SETS)
def test_answers_are_what_the_text_states(world, facts, split, hops):
    chains = collections.Counter()
    for question in world.questions(split, hops):
        chains[question.chain] += 1
        if chains[question.chain] <= 3:
            answers = {world.keys[answer] for answer in question.answers}
            assert answers == walk(facts, world.keys[question.topic], question.chain)
            assert 0 < len(answers) <= synthetic.MAX_ANSWERS and question.hops == hops
    assert {'>'.join(chain) for chain in chains} <= {c for c in WORDINGS if c.count('>') == hops - 1}


def test_every_hop_of_a_question_is_a_pair_of_a_title_and_a_mention(world, documents):
    pairs = {frozenset((d.title_entity, m.entity)) for d in documents for m in d.mentions}
    for hops in (1, 2, 3):
        for question in itertools.islice(world.questions('train', hops), 500):
            reached = {question.topic}
            for step in question.chain:
                following = {(a, b) for a in reached for b in world.neighbours(a, step)}
                assert all(frozenset((world.keys[a], world.keys[b])) in pairs for a, b in following)
                reached = {b for _, b in following}


def test_topics_of_a_split_are_in_no_other_split(world):
    topics = {split: {q.topic for hops in (1, 2, 3) for q in world.questions(split, hops)} for split in synthetic.SPLITS}
    for a, b in itertools.combinations(topics.values(), 2):
        assert not a & b
    unseen = list(world.questions('unseen_wording', 1))
    assert {question.topic for question in unseen} <= topics['test']
    assert len(topics['train']) > 4 * len(topics['test']) > 0


def test_questions_of_a_set_are_distinct_and_types_take_turns(world):
    for split, hops in QUESTION_SETS:
        questions = list(world.questions(split, hops))
        assert len({question.text for question in questions}) == len(questions)
        first = questions[: sum(chain.count('>') == hops - 1 for chain in WORDINGS)]
        assert len({question.type for question in first}) > 0.7 * len(first)


def test_the_number_of_relations_types_and_paraphrases():
    assert set(SENTENCES) == set(RELATIONS) and 12 <= len(RELATIONS) <= 14
    for templates in SENTENCES.values():
        subject_first = sum(t.index('{s') < t.index('{o') for t in templates)
        assert len(templates) >= 6 and 2 <= subject_first <= len(templates) - 2
    hops = collections.Counter(chain.count('>') + 1 for chain in WORDINGS)
    assert hops[2] >= 12 and hops[3] >= 10
    for chain, wordings in WORDINGS.items():
        assert len(wordings) >= (6 if '>' not in chain else 4)
    types = [synthetic.question_type(chain.split('>')) for chain in WORDINGS]
    assert len(set(types)) == len(types)
    every = [w for table in (WORDINGS, UNSEEN_WORDINGS) for wordings in table.values() for w in wordings]
    assert len(set(every)) == len(every) and all(w.count('{x}') == 1 for w in every)


def test_unseen_wordings_cover_every_1_hop_type_with_words_seen_elsewhere():
    assert set(UNSEEN_WORDINGS) == {chain for chain in WORDINGS if '>' not in chain}

    def words(texts):
        return set(re.findall(r'[a-z]+', re.sub(r'\{.*?\}', '', ' '.join(texts)).lower()))

    seen = words(itertools.chain.from_iterable([*WORDINGS.values(), *SENTENCES.values()]))
    unseen = [wording for wordings in UNSEEN_WORDINGS.values() for wording in wordings]
    assert words(unseen) <= seen
    for wording in itertools.chain.from_iterable(WORDINGS.values()):
        assert not [new for new in unseen if wording in new or new in wording], wording


def test_hubs_only_end_a_chain():
    hubs = {'city', 'country', 'university'}
    for chain in WORDINGS:
        *inner, _ = chain.split('>')
        assert all(RELATIONS[step.removesuffix('^-1')].object not in hubs for step in inner)
        last = chain.split('>')[-1]
        assert not (last.endswith('^-1') and RELATIONS[last.removesuffix('^-1')].object in hubs)


@pytest.mark.parametrize('size', (synthetic.MIN_DOCUMENTS, 137, 1500))
def test_a_world_has_as_many_documents_as_asked_for(size):
    world = synthetic.World(3, num_documents=size)
    assert sum(1 for _ in world.documents()) == size
    assert next(world.questions('train', 1)).answers


def test_documents_are_made_one_by_one():
    world = synthetic.World(0, num_documents=1500)
    for _ in itertools.islice(world.documents(), 200):  # fills the caches of templates
        pass
    tracemalloc.start()
    text = sum(len(document.text) for document in world.documents())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < text / 3


@pytest.mark.parametrize('arguments,field', [((-1, 100), 'seed'), ((0, 5), 'num_documents')])
def test_bad_arguments_are_named(arguments, field):
    with pytest.raises(ValueError, match=field):
        synthetic.World(*arguments)


@pytest.mark.parametrize('split,hops', [('validation', 1), ('train', 4), ('unseen_wording', 2)])
def test_asking_for_questions_that_do_not_exist_is_an_error(world, split, hops):
    with pytest.raises(ValueError, match='there are no'):
        next(world.questions(split, hops))


def test_the_same_seed_gives_the_same_bytes_in_every_process(tmp_path):
    synthetic.write(tmp_path / 'here', synthetic.World(5, num_documents=100), num_train=200, num_eval=50)
    code = (
        'import sys; from opql_jax.corpus import synthetic as s; '
        's.write(sys.argv[1], s.World(5, num_documents=100), num_train=200, num_eval=50)'
    )
    for hash_seed in ('1', '2'):
        environment = {**os.environ, 'PYTHONHASHSEED': hash_seed, 'PYTHONPATH': os.pathsep.join(sys.path)}
        subprocess.run([sys.executable, '-c', code, str(tmp_path / hash_seed)], env=environment, check=True)
        assert digest(tmp_path / hash_seed) == digest(tmp_path / 'here')
    synthetic.write(tmp_path / 'other', synthetic.World(6, num_documents=100), num_train=200, num_eval=50)
    assert digest(tmp_path / 'other')['corpus.jsonl'] != digest(tmp_path / 'here')['corpus.jsonl']


def test_written_files_read_back(world, documents, tmp_path):
    synthetic.write(tmp_path, world, num_train=300, num_eval=60)
    read = records.read_jsonl(
        tmp_path / 'corpus.jsonl',
        rejected_path=tmp_path / 'rejected.jsonl',
        max_reject_fraction=0,
        known_entities=set(world.keys),
    )
    assert read == documents
    rows = [json.loads(line) for line in open(tmp_path / 'entities.jsonl', encoding='utf-8')]
    assert [(row['id'], row['name']) for row in rows] == list(zip(world.keys, world.names))
    vocab = world.vocab()
    for split, hops in QUESTION_SETS:
        path = tmp_path / 'questions' / f'{hops}-hop' / f'{split}.txt'
        parsed = parse_metaqa_file(path, vocab, hops)
        limit = 300 if split == 'train' else 60
        expected = list(itertools.islice(world.questions(split, hops), limit))
        assert len(parsed) == len(expected)
        for row, question in zip(parsed, expected):
            assert (row.topic_entity, row.answers, row.type) == (question.topic, list(question.answers), question.type)
            assert not row.unknown_answers
        chains = [line.rstrip('\n').split('\t')[3] for line in open(path, encoding='utf-8')]
        assert chains == ['>'.join(question.chain) for question in expected]
