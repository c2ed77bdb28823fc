"""MSF's files as a corpus with queries."""

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets import msf
from opql_jax.datasets.msf import Msf

import records
import tiny_sets


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_sets.write_msf(tmp_path_factory.mktemp('msf'))


def test_a_part_is_one_corpus_and_each_of_its_paragraphs_is_in_it_once(folder, tmp_path):
    reader = Msf(str(folder))
    vocab, documents = reader.read(tmp_path / 'rejected.jsonl')
    assert len(documents) == len({document.text for document in documents}) == 60
    assert all(document.id.startswith('onehop/train/') for document in documents)
    page = documents[0]
    assert vocab.names[vocab.id_of_key[page.title_entity]] == page.title and page.title in page.text
    assert {m.entity for d in documents for m in d.mentions} <= vocab.id_of_key.keys()


def test_queries_are_split_by_hops_and_answered_by_entities_of_the_corpus(folder, tmp_path):
    reader = Msf(str(folder), 'test', (2, 3))
    vocab, _ = reader.read(tmp_path / 'rejected.jsonl')
    splits = reader.questions(vocab, tmp_path / 'rejected.jsonl')
    found = {name: len(questions) for name, questions in splits.items()}
    assert found == {'2-hop/test': 40, '3-hop/test': 40}
    question = splits['2-hop/test'][0]
    assert question.text == ', '.join([vocab.names[question.topic_entity], *question.relations])
    assert question.hops == 2 == len(question.relations)
    assert question.answers and not question.unknown_answers


def query(target, *relations):
    subject = {'wikidata_id': 'Q1', 'aliases': {'douglas adams': 3}, 'mentions': [0]}
    chain = [{'wikidata_id': pid, 'text': [name]} for pid, name in relations]
    target = target and {'wikidata_id': target, 'aliases': {}, 'mention': 1}
    relation = chain if len(chain) > 1 else chain[0]
    return dict(id='q', subject=subject, relation=relation, object=target)


PARAGRAPH = {
    'id': 4, 'wikidata_id': 'Q1', 'context': 'Adams studied at St John , Cambridge in 1971 .',
    'mentions': [
        {'wikidata_id': 'Q1', 'start': 0, 'text': 'Adams'},
        {'wikidata_id': 'Q2', 'start': 17, 'text': 'St John , Cambridge'},
        {'wikidata_id': 'Q3', 'start': 27, 'text': 'Cambridge'},
        {'wikidata_id': 19710000, 'start': 40, 'text': '1971'},
        {'wikidata_id': None, 'start': 6, 'text': 'studied'},
    ],
}  # fmt: skip


def test_dates_are_numbers_and_what_is_inside_a_mention_or_of_no_entity_is_none(tmp_path):
    dated, unanswered = query(19520311, ('P569', 'born')), query(None, ('P69', 'educated at'))
    [found] = msf.queries(records.write(tmp_path / 'q.json', [dated, unanswered]))
    assert (found['question'], found['topics']) == ('douglas adams, born', [[0, 13]])
    assert (found['answers'], found['hops'], found['type']) == (['19520311'], 1, 'P569')
    [page] = msf.documents(records.write(tmp_path / 'p.json', [PARAGRAPH]))
    assert (page.title, page.title_entity) == ('Adams', 'Q1')
    shown = [(page.text[m.start : m.end], m.entity) for m in page.mentions]
    assert shown == [('Adams', 'Q1'), ('St John , Cambridge', 'Q2'), ('1971', '19710000')]


@pytest.mark.parametrize(
    ('read', 'record', 'message'),
    [
        (msf.queries, [], r'expected a JSON object, found \[\]'),
        (msf.queries, query('Q2', ('P1', None)), r'relation\[0\].text: expected a string'),
        (msf.documents, {**PARAGRAPH, 'mentions': [{'text': 'x'}]}, r'mentions\[0\].start: '),
        (msf.documents, {**PARAGRAPH, 'context': 'Adams'}, r'mentions\[1\].end: .* past the text'),
    ],
)
def test_a_bad_query_or_paragraph_is_named(tmp_path, read, record, message):
    with pytest.raises(InputError, match=f'x.json:1: {message}'):
        read(records.write(tmp_path / 'x.json', [record]))
