"""What passages say of entities decides between links that are alike otherwise."""

import numpy as np
import pytest
from tiny_retrieval import corpus_of, vector_of

from opql_jax.retrieval.index import build
from opql_jax.retrieval.rank import Ranker
from opql_jax.retrieval.relations import Relations
from opql_jax.retrieval.view import Question

NUM_ENTITIES = 5


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('side', ['topic', 'target'])
def test_the_closest_relation_of_a_passage_and_an_entity_counts(side):
    rng = np.random.default_rng(0)
    passages, topics, targets = rng.integers(4, size=40), *rng.integers(NUM_ENTITIES, size=(2, 40))
    vectors, asked = unit(rng.normal(size=(40, 8))), unit(rng.normal(size=(2, 8)))
    relations = Relations(
        passages, topics, targets, NUM_ENTITIES, lambda rows: vectors[rows].astype(np.float16)
    )
    # Nothing was read in the last passage.
    wanted = [(p, e) for p in range(5) for e in range(NUM_ENTITIES)] * 2
    entities = topics if side == 'topic' else targets
    of = lambda p, e: vectors[(passages == p) & (entities == e)]
    expected = [max([0, *(asked @ of(p, e).T).ravel()]) for p, e in wanted]
    found = relations.closeness(side, *np.array(wanted).T, asked)
    assert found == pytest.approx(expected, abs=1e-3) and 0 < np.count_nonzero(found) < len(wanted)


@pytest.mark.parametrize('side', ['before', 'after'])
@pytest.mark.parametrize('place', [0, 1])
def test_of_links_that_are_alike_the_one_that_the_question_asks_for_is_followed(
    tmp_path, side, place
):
    texts = {'Ada': 'She knew [Bob] and [Cid].', 'Bob': 'A person.', 'Cid': 'A person.'}
    index = build(tmp_path / 'index', corpus_of(texts | {'Beer': 'It is brewed.'}))
    text = 'Where did the friend of Ada die?'
    asked = unit(np.array([[1.0, 2.0]]))
    ada, friends = 0, np.array([1, 2])
    # Before: Ada's passage says of both how they are related. After: each friend's own does.
    vectors = np.array([[0, -1.0], [0, -1.0]], np.float32)
    vectors[place] = asked
    before, after = (np.full(2, ada), np.full(2, ada), friends), (friends, friends, np.full(2, 3))
    columns = before if side == 'before' else after
    relations = Relations(*columns, index.num_entities, lambda rows: vectors[rows])
    question = Question(text, [ada], vector_of(text), asked)
    ranked = Ranker(index, relations=relations).rank(question, 2)
    assert [each.passage for each in ranked] == [ada, friends[place]]
