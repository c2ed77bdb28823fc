"""Other wordings of questions: a file of types and texts in which [X] stands for the topic."""

import collections
import dataclasses

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.corpus.wordings import in_other_wordings, read_wordings, reworded

UP = Question('q', 'who directed Up', ((13, 15),), (7,), answers=(3, 4), type='movie_to_director')


def write(folder, *lines):
    path = folder / 'wordings.tsv'
    path.write_text('\n'.join(lines), encoding='utf-8')
    return path


def test_wordings_are_read_by_their_type_and_in_order(tmp_path):
    path = write(
        tmp_path, 'a > b\tRéalisateur of [X]?', '', 'c\t[X]', '  ', 'a > b\t by whom is [X], pray '
    )
    assert read_wordings(path) == {
        'a > b': [('Réalisateur of ', '?'), ('by whom is ', ', pray')],
        'c': [('', '')],
    }


@pytest.mark.parametrize(
    'line',
    ['no tab [X]', 'a\tno topic', 'a\t[X] and [X]', '  \t[X]', 'a\t[x]', b'a\t[X]\xed\xa0\x80'],
)
def test_a_line_that_is_no_wording_is_named(tmp_path, line):
    path = tmp_path / 'wordings.tsv'
    path.write_bytes(b'a\t[X]\n' + (line if isinstance(line, bytes) else line.encode()))
    with pytest.raises(InputError, match=r'wordings\.tsv:2'):
        read_wordings(path)


def test_a_file_without_wordings_is_refused(tmp_path):
    for lines in ((), ('', '  ')):
        with pytest.raises(InputError, match='no wording in the file'):
            read_wordings(write(tmp_path, *lines))
    with pytest.raises(InputError, match='none.tsv'):
        read_wordings(tmp_path / 'none.tsv')


@pytest.mark.parametrize('wording', [('', ''), ('who made ', '?'), ('Ünder whom was ', ' shot')])
def test_a_question_in_another_wording_is_about_the_same_first_topic_and_otherwise_the_same(
    wording,
):
    other = reworded(UP, wording)
    assert other.text == 'Up'.join(wording) and other.text[slice(*other.topic)] == 'Up'
    assert dataclasses.replace(other, text=UP.text, topics=UP.topics) == UP
    both = dataclasses.replace(UP, text='Up and Down', topics=((0, 2), (7, 11)), entities=(7, 8))
    assert reworded(both, wording) == other


def test_each_question_of_a_type_gets_one_of_its_wordings_and_the_seed_says_which():
    wordings = {'movie_to_director': [('a ', ''), ('b ', ''), ('c ', '')], 'unused': [('d ', '')]}
    questions = [dataclasses.replace(UP, id=f'q{number}') for number in range(300)] + [
        dataclasses.replace(UP, type='other')
    ]
    other = in_other_wordings(questions, wordings, seed=1)
    assert [q.id for q in other] == [f'{q.id} in other words' for q in questions[:300]]
    counts = collections.Counter(question.text for question in other)
    assert counts.keys() == {'a Up', 'b Up', 'c Up'} and min(counts.values()) > 60
    assert (
        in_other_wordings(questions, wordings, seed=1)
        == other
        != in_other_wordings(questions, wordings, seed=2)
    )
    assert in_other_wordings(questions, {}) == []
