"""Questions as arrays, and the order in which they are trained on."""

import numpy as np
import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question
from opql_jax.data import markup, questions
from opql_jax.data.prepared import Prepared

import tiny_prepared


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    return Prepared(tiny_prepared.write(tmp_path_factory.mktemp('prepared')))


def test_a_batch_of_questions_is_the_marked_questions(prepared):
    asked = prepared.questions('2-hop/train')
    arrays = questions.QuestionArrays(asked, prepared.tokenizer, prepared.special)
    assert arrays.length % 8 == 0 and len(arrays.topic) == len(asked)
    ids = [5, 0, 6, 39]
    batch = arrays.batch(ids, 6, 8, np.random.default_rng(0))
    assert batch.tokens.shape == (6, arrays.length) and batch.r1.shape == batch.topic.shape == (6,)
    assert batch.answers.shape == (6, 8) and all(array.dtype == np.int32 for array in batch)
    for k, q in enumerate(asked[i] for i in ids):
        marked = markup.mark_questions(prepared.tokenizer, [q.text], [q.topic], prepared.special)[0]
        assert batch.tokens[k, : len(marked.tokens)].tolist() == marked.tokens.tolist()
        assert not batch.tokens[k, len(marked.tokens) :].any()
        assert (batch.r1[k], batch.r2[k], batch.topic[k]) == (marked.r1, marked.r2, q.topic_entity)
        assert batch.answers[k][: len(q.answers)].tolist() == list(q.answers)
    assert batch.topic[4:].tolist() == [-1] * 2


def test_answers_are_padded_and_longer_lists_cut_at_random():
    rng = np.random.default_rng(0)
    padded = questions.pad_answers([np.arange(3), np.arange(50), np.arange(0)], 4, 8, rng)
    assert padded[0].tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
    assert len(set(padded[1].tolist())) == 8 and padded[1].tolist() != list(range(8))
    assert (padded[2:] == -1).all()
    kept = questions.pad_answers([np.arange(50)], 1, 8, rng, preferred=[np.array([40, 41, 42, 99])])
    assert {40, 41, 42} <= set(kept[0].tolist())


def test_a_relation_held_out_that_no_question_needs_is_an_error():
    of_type = lambda i, kind: Question(f'q{i}', 'of X', ((3, 4),), (0,), (1,), type=kind)
    asked = [of_type(i, kind) for i, kind in enumerate(['P1', 'P1 > P2', ''])]
    assert [q.id for q in questions.without_relations(asked, ['P2'])] == ['q0', 'q2']
    with pytest.raises(InputError, match="no question needs 'P999'; they need P1, P2"):
        questions.without_relations(asked, ['P1', 'P999'])
