"""Question files in the MetaQA format, and their table."""

import pytest

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import Question, load_questions, parse_metaqa_file, save_questions

VOCAB = EntityVocab.from_names(['[REC]', 'Up', 'Ann Low', 'drama', 'Drama'])


def parse(tmp_path, text, hops=1):
    (tmp_path / 'dev.txt').write_text(text, encoding='utf-8')
    return parse_metaqa_file(tmp_path / 'dev.txt', VOCAB, hops)


def test_a_line_becomes_a_question_with_its_topic_marked(tmp_path):
    (question,) = parse(tmp_path, 'who acted in [Up] then\tAnn Low|Bob|Ann Low\tmovie_to_actor\t2\n', hops=2)
    assert question == Question('who acted in Up then', (13, 15), 1, [2], ['Bob'], 2, 'movie_to_actor', '2-hop/dev/1')
    assert question.text[slice(*question.topic)] == 'Up'


def test_type_and_answers_may_be_missing(tmp_path):
    official, open_ = parse(tmp_path, 'genre of [Up]\tDrama\r\n\ngenre of [Up]\t\n')
    assert (official.answers, official.type, official.id) == ([3], '', '1-hop/dev/1')
    assert (open_.answers, open_.unknown_answers, open_.id) == ([], [], '1-hop/dev/3')


def test_topics_may_hold_brackets(tmp_path):
    (question,) = parse(tmp_path, 'who directed [[REC]]\tAnn Low\n')
    assert (question.text, question.topic_entity) == ('who directed [REC]', 0)


def test_an_unknown_topic_is_kept(tmp_path):
    (question,) = parse(tmp_path, 'who directed [Down]\tAnn Low\n')
    assert question.topic_entity == -1 and question.answers == [2]


def test_a_question_without_answers_is_kept(tmp_path):
    for line in ('who directed [Up]', 'who directed [Up]\t'):
        (question,) = parse(tmp_path, line + '\n')
        assert (question.text, question.topic_entity) == ('who directed Up', 1)
        assert (question.answers, question.unknown_answers, question.via) == ([], [], [])


@pytest.mark.parametrize(
    'line, reason',
    [
        ('[Up]\ta\tb\tc\td', 'expected at most 4 columns separated by tabs .* found 5'),
        ('who directed Up\tAnn Low', 'no topic in brackets'),
        ('who directed ]Up[\tAnn Low', 'no topic in brackets'),
        ('who directed []\tAnn Low', 'topic in brackets is empty'),
    ],
)
def test_errors_name_file_and_line(tmp_path, line, reason):
    with pytest.raises(CorpusError, match=rf'dev\.txt:2: .*{reason}'):
        parse(tmp_path, f'who directed [Up]\tAnn Low\n{line}\n')


def test_missing_empty_and_undecodable_files_are_errors(tmp_path):
    with pytest.raises(CorpusError, match='none.txt: cannot be read'):
        parse_metaqa_file(tmp_path / 'none.txt', VOCAB, 1)
    with pytest.raises(CorpusError, match='no question in the file'):
        parse(tmp_path, '\n')
    (tmp_path / 'latin.txt').write_bytes(b'who directed [\xe9]\tUp\n')
    with pytest.raises(CorpusError, match='latin.txt: not UTF-8'):
        parse_metaqa_file(tmp_path / 'latin.txt', VOCAB, 1)


def test_the_table_gives_back_the_questions(tmp_path):
    questions = parse(tmp_path, 'who acted in [Up]\tAnn Low|Bob\tx\nwho acted in [Down]\t\n')
    save_questions(tmp_path / 'questions' / 'dev.parquet', questions)
    assert load_questions(tmp_path / 'questions' / 'dev.parquet') == questions
