"""Questions that a follower learns from: each as it is and, with other wordings, once more so."""

import collections
import dataclasses

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.follow import FollowSource, in_other_wordings, read_wordings

import tiny_prepared

SPLIT = '1-hop/train'
UP = Question('q', 'who directed Up', ((13, 15),), (7,), answers=(3, 4), type='movie_to_director')


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    folder = tiny_prepared.write(tmp_path_factory.mktemp('prepared'))
    tiny_prepared.set_types(folder, SPLIT, ('P1', 'P2', 'P3'))
    return Prepared(folder)


def rows(batch):
    """(tokens, topic, answers) of the questions of a batch."""
    values = zip(batch.tokens, batch.topic, batch.answers)
    row = lambda t, topic, a: (tuple(t[t != 0].tolist()), int(topic), frozenset(a[a >= 0].tolist()))
    return [row(*each) for each in values if each[1] >= 0]


def write(path, *lines):
    path.write_text('\n'.join(lines), encoding='utf-8')
    return str(path)


def test_an_epoch_has_each_question_and_once_more_in_a_wording_of_its_type(prepared, tmp_path):
    usable = [q for q in prepared.questions(SPLIT) if q.topic_entity >= 0 and q.answers]
    path = write(tmp_path / 'w.tsv', 'P1\triver of [X] saw song', 'P1\tnever [X]', 'P3\tlater [X]')
    other = in_other_wordings(usable, read_wordings(path), seed=5)
    assert 0 < len(other) < len(usable)
    source = FollowSource(prepared, [SPLIT], wordings=path, questions=1, seed=5)
    epoch = [r for step in range(len(usable) + len(other)) for r in rows(source[step].questions)]
    arrays = questions.QuestionArrays([*usable, *other], prepared.tokenizer, prepared.special)
    every = arrays.batch(range(len(arrays.topic)), len(arrays.topic), 64, np.random.default_rng(0))
    assert sorted(epoch, key=repr) == sorted(rows(every), key=repr)


@pytest.mark.parametrize(
    ('line', 'options', 'said'),
    [
        ('director_to_movie\tlater [X]', {}, "no question .* has the type 'director_to_movie'"),
        ('P2\tnever [X]', {'held_out': ['P2']}, 'no question that is learnt from has one of its'),
        (f'P1\t{"never " * 600}[X]', {}, 'question 1-hop/train/[0-9]+ in other words has [0-9]+'),
    ],
)  # fmt: skip
def test_wordings_that_cannot_be_used_are_refused(prepared, tmp_path, line, options, said):
    with pytest.raises(InputError, match=said):
        FollowSource(prepared, [SPLIT], wordings=write(tmp_path / 'wordings.tsv', line), **options)


@pytest.mark.parametrize(
    'line',
    ['no tab [X]', 'a\tno topic', 'a\t[X] and [X]', '  \t[X]', 'a\t[x]', b'a\t[X]\xed\xa0\x80'],
)
def test_a_line_that_is_no_wording_is_named(tmp_path, line):
    path = tmp_path / 'wordings.tsv'
    path.write_bytes(b'a\t[X]\n' + (line if isinstance(line, bytes) else line.encode()))
    with pytest.raises(InputError, match=r'wordings\.tsv:2'):
        read_wordings(path)


def test_each_question_of_a_type_gets_one_of_its_wordings_and_the_seed_says_which():
    wordings = {'movie_to_director': [('a ', ''), ('', ' b'), ('Ünder ', '?')], 'unused': []}
    both = dataclasses.replace(UP, text='Up and Down', topics=((0, 2), (7, 11)), entities=(7, 8))
    asked = [dataclasses.replace(UP if i % 2 else both, id=f'q{i}') for i in range(300)]
    other = in_other_wordings([*asked, dataclasses.replace(UP, type='other')], wordings, seed=1)
    counts = collections.Counter(question.text for question in other)
    assert counts.keys() == {'a Up', 'Up b', 'Ünder Up?'} and min(counts.values()) > 60
    for before, after in zip(asked, other, strict=True):
        assert after.id == f'{before.id} in other words'
        assert after.text[slice(*after.topic)] == 'Up' and after.entities == (7,)
        assert dataclasses.replace(after, id=UP.id, text=UP.text, topics=UP.topics) == UP
    assert in_other_wordings(asked, wordings, seed=1) == other
    assert in_other_wordings(asked, wordings, seed=2) != other
    assert in_other_wordings(asked, {}) == []
