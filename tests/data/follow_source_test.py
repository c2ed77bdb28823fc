"""Questions that a follower learns from: with other wordings each comes as it is, and once more in other words."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.wordings import in_other_wordings
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
    return [(tuple(t[t != 0].tolist()), int(topic), frozenset(a[a >= 0].tolist())) for t, topic, a in values if topic >= 0]


def test_an_epoch_has_each_question_as_it_is_and_each_of_a_type_once_in_a_wording_of_it(prepared):
    usable = [q for q in prepared.questions(SPLIT) if q.topic_entity >= 0 and q.answers]
    wordings = {'P1': [('river of ', ' saw song'), ('never ', '')], 'P3': [('later ', '')], 'of no question': [('x ', '')]}
    other = in_other_wordings(usable, wordings, seed=5)
    assert {q.type for q in other} == {'P1', 'P3'} and 0 < len(other) < len(usable) and len({q.text for q in other}) > 2
    source = FollowSource(prepared, [SPLIT], wordings=wordings, questions=1, seed=5)
    epoch = [row for step in range(len(usable) + len(other)) for row in rows(source[step].questions)]
    arrays = questions.QuestionArrays([*usable, *other], prepared.tokenizer, prepared.special)
    every = arrays.batch(np.arange(len(arrays)), len(arrays), 64, np.random.default_rng(0))
    assert sorted(epoch, key=repr) == sorted(rows(every), key=repr)


def test_wordings_of_no_type_that_is_there_are_refused(prepared):
    with pytest.raises(InputError, match=f"{SPLIT}: no question has a type of the file, such as 'directr'"):
        FollowSource(prepared, [SPLIT], wordings={'directr': [('', '')]})
