"""N-way K-shot accuracy of embeddings, against loops and against what is known beforehand."""

import numpy as np
import pytest

from opql_jax.kb.trained import fewshot
from opql_jax.kb.trained.fewshot import episode_accuracies, group_by_relation


def test_sentences_are_grouped_by_relation_and_text():
    relations = ['near', 'made', 'near', 'made', 'near', 'alone']
    texts = ['a', 'b', 'a', 'c', 'd', 'e']
    groups = group_by_relation(relations, texts, 2)
    assert [[same.tolist() for same in texts] for texts in groups] == [[[1], [3]], [[0, 2], [4]]]


def slow_accuracies(vectors, groups, ways, shots, num_episodes, seed):
    """`episode_accuracies` by loops in float64, with the same draws."""
    rng, out = np.random.default_rng(seed), []
    used = sorted(i for texts in groups for same in texts for i in same)
    vectors = np.asarray(vectors, np.float64) - np.mean(
        [vectors[i] for i in used], axis=0, dtype=np.float64
    )
    cosine = lambda a, b: a @ b / np.sqrt((a @ a) * (b @ b))
    for _ in range(num_episodes):
        chosen = rng.choice(len(groups), ways, replace=False)
        drawn = [fewshot.draw(groups[relation], shots + 1, rng) for relation in chosen]
        right = 0
        for own, (query, *_) in enumerate(drawn):
            means = [
                np.mean([cosine(vectors[query], vectors[s]) for s in support])
                for _, *support in drawn
            ]
            right += means[own] > max(m for other, m in enumerate(means) if other != own)
        out.append(right / ways)
    return np.array(out)


@pytest.mark.parametrize('shots', [1, 2])
def test_scores_are_those_of_a_loop_over_queries(shots):
    rng = np.random.default_rng(shots)
    groups = [
        [np.array([3 * r + t]) if t else np.array([3 * r, 20 + r]) for t in range(3)]
        for r in range(6)
    ]
    vectors = (rng.normal(size=(36, 4)) * rng.uniform(1, 9, (36, 1)) + rng.normal(size=4)).astype(
        np.float32
    )
    vectors[-3:] = 1e3  # those are of no relation
    found = episode_accuracies(vectors, groups, 4, shots, 40, 7)
    np.testing.assert_allclose(found, slow_accuracies(vectors, groups, 4, shots, 40, 7), atol=1e-12)
    np.testing.assert_array_equal(found, episode_accuracies(vectors + 5, groups, 4, shots, 40, 7))
    assert 0.1 < found.mean() < 0.6


def test_a_query_never_has_a_text_of_its_support():
    groups = [[np.array([0, 1, 2]), np.array([3])], [np.array([4]), np.array([5, 6])]]
    texts = np.array([0, 0, 0, 1, 2, 3, 3])
    rng = np.random.default_rng(0)
    drawn = [texts[fewshot.draw(relation, 2, rng)] for relation in groups for _ in range(50)]
    assert all(query != support for query, support in drawn)
