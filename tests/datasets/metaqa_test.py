"""The MetaQA reader on a folder of its shape."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.documents import Document
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question
from opql_jax.datasets import metaqa

VOCAB = EntityVocab.from_names(['[REC]', 'Up', 'Ann Low', 'drama', 'Drama'])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / 'entities.txt').write_text('drama\nDrama\nUp\nAnn Low\n', encoding='utf-8')
    passage = {'id': 0, 'title': 'Up', 'year': 2009, 'text': 'Up is a drama by Ann Low.'}
    (tmp_path / 'passages.jsonl').write_text(json.dumps(passage) + '\n')
    return tmp_path


def test_passages_are_about_their_title_and_case_variants_of_names_are_one_entity(folder):
    vocab = metaqa.entity_vocab(folder)
    assert vocab.keys == ['drama', 'Up', 'Ann Low'] and vocab.aliases[0] == ['Drama']
    found = metaqa.documents(folder, vocab, rejected_path=folder / 'rejected.jsonl')
    assert found == [Document('0', 'Up', 'Up is a drama by Ann Low.', None, 'Up')]


def read(tmp_path, text, hops=1):
    (tmp_path / 'dev.txt').write_text(text, encoding='utf-8')
    return metaqa.read_questions(tmp_path / 'dev.txt', VOCAB, hops)


def test_a_line_becomes_a_question_with_its_topic_marked(tmp_path):
    line = 'who acted in [Up] then\tAnn Low|Bob|Ann Low\tmovie_to_actor\t2\n'
    asked = '2-hop/dev/1', 'who acted in Up then', ((13, 15),), (1,)
    expected = Question(*asked, (2,), ('Bob',), 2, 'movie_to_actor')
    assert read(tmp_path, line, hops=2) == [expected]


def test_type_and_answers_may_be_missing_and_topics_be_unknown_or_hold_brackets(tmp_path):
    lines = 'genre of [Up]\tDrama\r\n\ngenre of [Up]\nwho made [[REC]]\nwho made [Down]\tAnn Low\n'
    official, open_, brackets, unknown = read(tmp_path, lines)
    assert (official.answers, official.type, official.id) == ((3,), '', '1-hop/dev/1')
    assert (open_.answers, open_.unknown_answers, open_.id) == ((), (), '1-hop/dev/3')
    assert (brackets.text, brackets.topic_entity) == ('who made [REC]', 0)
    assert unknown.topic_entity == -1 and unknown.answers == (2,)


@pytest.mark.parametrize(
    'line, reason',
    [
        ('[Up]\ta\tb\tc\td', 'expected question, answers and type, found 5 columns'),
        ('who directed Up\tAnn Low', 'no topic in brackets'),
        ('who directed [U\tp]\tAnn Low', 'the topic has a tab, which ends the question'),
    ],
)
def test_errors_name_file_and_line(tmp_path, line, reason):
    with pytest.raises(InputError, match=rf'dev\.txt:2: .*{reason}'):
        read(tmp_path, f'who directed [Up]\tAnn Low\n{line}\n')


def test_types_name_the_relations_of_their_hops(tmp_path):
    types = 'film_to_actor_to_film', 'birthplace', ''
    lines = '\n'.join(f'who [Up]\tAnn\t{type}' for type in types)
    found = [question.relations for question in read(tmp_path, lines, 2)]
    assert found == [('film_to_actor', 'actor_to_film'), ('birthplace',), ()]
