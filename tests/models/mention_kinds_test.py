"""Kinds of mentions: a logistic regression on their vectors, joined with what was recognised."""

import numpy as np
from scipy.special import log_softmax

from opql_jax.models.mention_kinds import KINDS, MentionKinds, kinds_of_entities


def make(seed=0, hidden=6):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.normal(size=shape).astype(np.float32)
    return MentionKinds(draw(hidden, 4), draw(4))


# A vector [person, organisation, place, other] is its own log-odds.
PLAIN = MentionKinds(np.eye(4, dtype=np.float32), np.zeros(4, np.float32))


def of_entities(recognised, *mentions, name='Brenwick'):
    vectors = np.array([vector for _, vector in mentions], np.float32).reshape(-1, 4)
    entities = np.array([entity for entity, _ in mentions], np.int64)
    told = PLAIN.log_probabilities(vectors)
    return kinds_of_entities(told, entities, recognised, [name] * len(recognised))


def test_mentions_outvote_what_was_recognised_if_they_are_sure_but_no_name_or_value():
    brenwick, unsure, thing, person = [0, 0, 3, 0], [0, 0, 0.5, 0], [0, 0, 0, 9], [9, 0, 0, 0]
    assert of_entities(['person'], (0, brenwick)) == ['place']
    assert of_entities(['person'], (0, unsure)) == ['person']
    assert of_entities(['name'], (0, unsure)) == ['place']
    assert of_entities(['person'], (0, brenwick), *[(0, [4, 0, 0, 0])] * 2) == ['person']
    # The words of a name, what no text mentions, and what is none of the three.
    bridge = dict(name='Brenwick Bridge')
    assert of_entities(['place'], (0, [0, 9, 0, 0]), **bridge) == ['place']
    assert of_entities(['person'], (0, [0, 9, 0, 0]), **bridge) == ['organisation']
    assert of_entities(['place', 'place'], (1, person)) == ['place', 'person']
    assert of_entities(['place']) == ['place']
    found = of_entities(['work', 'event', 'person', 'name'], *((i, thing) for i in range(4)))
    assert found == ['work', 'event', 'thing', 'thing']
    certain = ['date', 'quantity', 'group', 'language', 'concept', 'title']
    assert of_entities(certain, *((i, person) for i in range(6))) == certain


def test_entities_are_told_by_the_mean_of_their_mentions_times_the_root_of_their_number():
    rng = np.random.default_rng(3)
    kinds, vectors, entities = make(), rng.normal(size=(60, 6)), rng.integers(12, size=60)
    expected = []
    for entity in range(12):
        of_entity = vectors[entities == entity]
        rows = log_softmax(of_entity @ np.float64(kinds.kernel) + kinds.bias, axis=1)
        total = rows.mean(axis=0) * np.sqrt(len(rows)) if len(rows) else np.zeros(4)
        expected.append(KINDS[total.argmax()] if len(rows) else 'name')
    told = kinds.log_probabilities(vectors)
    assert kinds_of_entities(told, entities, ['name'] * 12, ['Brenwick'] * 12) == expected
    # And nothing overflows.
    assert kinds.log_probabilities(np.full((1, 6), 1e4, np.float32)).max() == 0
