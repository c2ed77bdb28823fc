"""N-way K-shot classification by nearest neighbours: how embeddings tell relations apart.

An episode draws N relations and, of each, K support sentences and one query, all with different
texts. A query is assigned the relation whose support sentences are on average most similar to it,
by the cosine of embeddings centred at their overall mean: L_rel leaves the origin open, as moving
all candidates does not change a softmax over inner products, and embeddings share most of their
length.
"""

import numpy as np


def group_by_relation(
    relations: list[str], texts: list[str], min_texts: int
) -> list[list[np.ndarray]]:
    """For each relation with at least `min_texts` texts, by name, the indices of each text."""
    groups = {}
    for i, (relation, text) in enumerate(zip(relations, texts)):
        groups.setdefault(relation, {}).setdefault(text, []).append(i)
    return [
        [np.array(same) for same in texts.values()]
        for _, texts in sorted(groups.items())
        if len(texts) >= min_texts
    ]


def episode_accuracies(
    vectors, groups, ways: int, shots: int, episodes: int, seed: int
) -> np.ndarray:
    """The share of right queries of each episode, [episodes] float64: N `ways`, K `shots`.

    `vectors` [n, d] are of the sentences that `group_by_relation` grouped; `seed` of the draws.
    """
    used = np.concatenate([same for texts in groups for same in texts])
    centred = vectors - vectors[used].mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.maximum(lengths, np.finfo(np.float32).tiny)
    rng = np.random.default_rng(seed)
    accuracies = np.empty(episodes)
    for episode in range(episodes):
        relations = rng.choice(len(groups), ways, replace=False)
        drawn = np.stack([draw(groups[relation], shots + 1, rng) for relation in relations])
        queries, support = unit[drawn[:, 0]], unit[drawn[:, 1:]]
        similarity = np.einsum('qd,nkd->qnk', queries, support).mean(axis=2)
        accuracies[episode] = np.mean(similarity.argmax(axis=1) == np.arange(ways))
    return accuracies


def draw(texts, count, rng):
    """One sentence of each of `count` different texts."""
    return [rng.choice(texts[i]) for i in rng.choice(len(texts), count, replace=False)]
