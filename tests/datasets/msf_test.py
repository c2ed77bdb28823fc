"""MSF's files as a corpus with queries."""

import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets import readers
from opql_jax.datasets.msf import Msf

import tiny_msf


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tiny_msf.write(tmp_path_factory.mktemp('msf'))


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


@pytest.mark.parametrize(
    ('part', 'hops', 'message'),
    [('dev', (1,), "part='dev' is not"), ('test', (1, 4), r'hops=\(1, 4\) not in 1, 2, 3')],
)
def test_parts_and_data_sets_that_there_are_not_are_refused(part, hops, message):
    with pytest.raises(InputError, match=message):
        Msf('folder', part, hops)


def test_a_missing_or_broken_file_is_named(folder, tmp_path):
    with pytest.raises(InputError, match=r'onehop/train/paragraphs.json: no such file'):
        readers.identity(Msf(str(tmp_path)))
    broken = tmp_path / 'twohop/test'
    broken.mkdir(parents=True)
    (broken / 'paragraphs.json').write_text('{"id": 1, "wikidata_id": "Q1", "mentions": []}')
    with pytest.raises(InputError, match='paragraphs.json:1: context: '):
        Msf(str(tmp_path), 'test', (2,)).read(tmp_path / 'rejected.jsonl')
