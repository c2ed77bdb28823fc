"""A question in other words is put into the nearest wording of training, of as many hops and about a topic of the same sort."""

import dataclasses

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.questions import Question, parse_bracketed
from opql_jax.data.prepared import Prepared
from opql_jax.kb.nearest_wording import NearestWording
from opql_jax.models.text_encoder import TextEncoder

import answered_metaqa


@pytest.fixture(scope='module')
def prepared(tmp_path_factory):
    kb, _ = answered_metaqa.write(tmp_path_factory.mktemp('nearest wording'))
    return Prepared(kb / 'text')


@pytest.fixture(scope='module')
def nearest(prepared):
    return NearestWording(prepared, ('1-hop/dev', '2-hop/dev'), TextEncoder.load('default'))


def question(prepared, text, hops=1):
    text, topic = parse_bracketed(text)
    return Question('q', text, (topic,), (prepared.vocab.id(text[slice(*topic)]),), (0,), hops=hops)


@pytest.mark.parametrize(
    ('text', 'hops', 'wording'),
    [
        ('[Up], which director made it?', 1, 'who directed Up'),
        ('Who penned the script of [Down]?', 1, 'who wrote Down'),
        ('In what year did [Up] reach cinemas?', 1, 'when was Up released'),
        ('[Up], is that a comedy or what sort of film?', 1, 'what genre is Up'),
        ('further films by whoever directed [Up]', 2, 'what else did the director of Up make'),
    ],
)
def test_it_is_asked_in_the_nearest_wording_about_its_own_topic(prepared, nearest, text, hops, wording):
    before = question(prepared, text, hops)
    (after,) = nearest([before])
    assert after.text == wording
    assert after.text[slice(*after.topic)] == before.text[slice(*before.topic)]
    assert dataclasses.replace(after, text=before.text, topics=before.topics) == before


def test_each_of_many_is_put_into_its_own(prepared, nearest):
    questions = [question(prepared, text) for text in ('which director made [Up]', 'who penned [Up]')] * 200
    assert [q.text for q in nearest(questions)] == ['who directed Up', 'who wrote Up'] * 200


def test_what_is_known_or_fits_no_wording_stays_as_it_is(prepared, nearest):
    stays = [
        question(prepared, 'who directed [Down]'),  # a wording of training
        question(prepared, 'who directed [Ann Low]'),  # the same, though it was asked about films
        question(prepared, 'who made films with the makers of [Up]', 3),  # nothing of three hops
        question(prepared, 'who helmed [Ann Low]'),  # all are about films
        Question('q', 'who was it?', (), ()),
    ]
    assert nearest(stays) == stays and nearest([]) == []


def test_sets_without_topics_are_refused(prepared):
    with pytest.raises(InputError, match='9-hop'):
        NearestWording(prepared, ('9-hop/train',), TextEncoder.load('default'))
    with pytest.raises(InputError, match='no question has a topic'):
        NearestWording(prepared, (), TextEncoder.load('default'))
