"""Questions that a follower learns from: with other wordings each comes as it is, and once more in
other words.
"""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.wordings import in_other_wordings, read_wordings
from opql_jax.data import questions
from opql_jax.data.prepared import Prepared
from opql_jax.data.sources.follow import FollowSource

import tiny_prepared

SPLIT = '1-hop/train'


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    folder = tiny_prepared.write(tmp_path_factory.mktemp('prepared'))
    tiny_prepared.set_types(folder, SPLIT, ('P1', 'P2', 'P3'))
    return Prepared(folder)


def rows(batch):
    """(tokens, topic, answers) of the questions of a batch."""
    values = zip(batch.tokens, batch.topic, batch.answers)
    return [
        (tuple(t[t != 0].tolist()), int(topic), frozenset(a[a >= 0].tolist()))
        for t, topic, a in values
        if topic >= 0
    ]


def write(path, *lines):
    path.write_text('\n'.join(lines), encoding='utf-8')
    return str(path)


def test_an_epoch_has_each_question_as_it_is_and_each_of_a_type_once_in_a_wording_of_it(
    prepared, tmp_path
):
    usable = [q for q in prepared.questions(SPLIT) if q.topic_entity >= 0 and q.answers]
    path = write(
        tmp_path / 'wordings.tsv', 'P1\triver of [X] saw song', 'P1\tnever [X]', 'P3\tlater [X]'
    )
    other = in_other_wordings(usable, read_wordings(path), seed=5)
    assert (
        {q.type for q in other} == {'P1', 'P3'}
        and 0 < len(other) < len(usable)
        and len({q.text for q in other}) > 2
    )
    source = FollowSource(prepared, [SPLIT], wordings=path, questions=1, seed=5)
    epoch = [r for step in range(len(usable) + len(other)) for r in rows(source[step].questions)]
    arrays = questions.QuestionArrays([*usable, *other], prepared.tokenizer, prepared.special)
    every = arrays.batch(np.arange(len(arrays)), len(arrays), 64, np.random.default_rng(0))
    assert sorted(epoch, key=repr) == sorted(rows(every), key=repr)


@pytest.mark.parametrize(
    ('line', 'options', 'said'),
    [
        ('director_to_movie\tlater [X]', {},
            "no question .* has the type 'director_to_movie'; its types include 'P1', 'P2', 'P3'"),
        ('P2\tnever [X]', {'held_out': ['P2']},
            'no question that is learnt from has one of its types'),
        (f'P1\t{"never " * 600}[X]', {},
            'question 1-hop/train/[0-9]+ in other words has [0-9]+ tokens'),
    ],
)  # fmt: skip
def test_wordings_that_cannot_be_used_are_refused(prepared, tmp_path, line, options, said):
    with pytest.raises(InputError, match=said):
        FollowSource(prepared, [SPLIT], wordings=write(tmp_path / 'wordings.tsv', line), **options)
