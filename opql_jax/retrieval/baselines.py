"""Rankings that ours is compared with: words, vectors, both, and a walk on a graph of entities.

Each gives scores of all passages for each question, [passages]; none follows a relation.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.sparse as sp

from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.view import Question

# Of the graph: the share of a step that goes on from where it is, and how many steps there are.
_DAMPING, _STEPS = 0.5, 15


def bm25(index: RetrievalIndex, questions: Iterable[Question]) -> Iterator[np.ndarray]:
    """BM25 of the question's words."""
    for question in questions:
        yield np.asarray(index.words[:, index.columns_of(question.text)].sum(1)).ravel()


def dense(index: RetrievalIndex, questions: Iterable[Question]) -> Iterator[np.ndarray]:
    """The cosine of the vectors of question and passage."""
    for question in questions:
        unit = question.vector / (np.linalg.norm(question.vector) or 1)
        yield index.vectors[: len(index.ids)] @ unit


def hybrid(index: RetrievalIndex, questions: Iterable[Question]) -> Iterator[np.ndarray]:
    """The sum of the two, each in standard deviations."""
    questions = list(questions)
    for words, vectors in zip(bm25(index, questions), dense(index, questions)):
        yield _standard(words) + _standard(vectors)


def graph(index: RetrievalIndex, questions: Iterable[Question]) -> Iterator[np.ndarray]:
    """Personalised PageRank, in the manner of LinearRAG.

    The graph has passages and the entities that they name, weighed by their idf. The walk begins at
    the question's entities and at passages whose vectors are like its own.
    """
    named = index.passages_of_entity.tocsr()
    count = np.asarray(named.sum(0)).ravel()
    idf = np.log((len(index.ids) + 1) / (count + 0.5))
    weighted = named @ sp.diags(idf)
    share = sp.diags(1 / np.maximum(np.asarray(weighted.sum(1)).ravel(), 1e-9))
    to_entities = (share @ weighted).T.tocsr()
    to_passages = (named @ sp.diags(1 / np.maximum(count, 1))).tocsr()
    questions = list(questions)
    for question, cosine in zip(questions, dense(index, questions)):
        entities = np.zeros(index.num_entities)
        entities[list(question.entities)] = idf[list(question.entities)]
        entities /= max(entities.sum(), 1e-9)
        similarity = _standard(cosine)
        passages = np.exp(2 * (similarity - similarity.max()))
        passages /= passages.sum()
        at_passages, at_entities = passages, entities
        for _ in range(_STEPS):
            at_passages, at_entities = (
                (1 - _DAMPING) * passages + _DAMPING * (to_passages @ at_entities),
                (1 - _DAMPING) * entities + _DAMPING * (to_entities @ at_passages),
            )
        yield at_passages


Baseline = Callable[[RetrievalIndex, Iterable[Question]], Iterator[np.ndarray]]
BASELINES = {'BM25': bm25, 'dense': dense, 'BM25 + dense': hybrid, 'graph': graph}


def _standard(values: np.ndarray) -> np.ndarray:
    """Values in standard deviations from their mean."""
    return (values - values.mean()) / (values.std() or 1)
