"""Rankings that ours is compared with, by their definitions."""

import numpy as np
import pytest
from tiny_retrieval import corpus_of, vector_of

from opql_jax.retrieval.baselines import BASELINES
from opql_jax.retrieval.index import build
from opql_jax.retrieval.view import Question

WORLD = {
    'Ada Lovelace': '[Ada Lovelace] was the daughter of [Lord Byron].',
    'Lord Byron': 'The poet died in [Missolonghi] of a fever.',
    'Greek revolt': 'In [Missolonghi] the town withstood sieges.',
    'Beer': 'It is brewed from barley.',
}


@pytest.fixture(scope='module')
def index(tmp_path_factory):
    return build(tmp_path_factory.mktemp('world') / 'index', corpus_of(WORLD))


def scores(index, ranking: str, text: str, entities: list[int]) -> np.ndarray:
    (found,) = BASELINES[ranking](index, [Question(text, entities, vector_of(text))])
    assert found.shape == (len(WORLD),) and np.isfinite(found).all()
    return found


def test_words_and_vectors(index):
    words = scores(index, 'BM25', 'Who brewed barley?', [])
    assert words.argmax() == 3 and (words[:3] == 0).all()
    vector = vector_of('Who brewed barley?')
    expected = index.vectors[:4] @ vector / np.linalg.norm(vector)
    assert scores(index, 'dense', 'Who brewed barley?', []) == pytest.approx(expected, abs=1e-5)
    standard = [(x - x.mean()) / x.std() for x in (words, expected)]
    both = scores(index, 'BM25 + dense', 'Who brewed barley?', [])
    assert both == pytest.approx(sum(standard), abs=1e-4)


def test_the_graph_reaches_passages_through_entities(index):
    ranked = np.argsort(-scores(index, 'graph', 'Ada Lovelace', [0]))
    # Its neighbour, before those that are as unlike the question.
    assert ranked[0] == 0 and ranked[1] == 1


@pytest.mark.parametrize('ranking', BASELINES)
def test_a_question_of_nothing_known_has_scores(index, ranking):
    (found,) = BASELINES[ranking](index, [Question('xyzzy?', [], np.zeros(64))])
    assert np.isfinite(found).all()
