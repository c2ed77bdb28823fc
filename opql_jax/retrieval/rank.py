"""Ranks passages for multi-hop questions by following chains; nothing is trained.

A chain begins at a passage that suits the question and goes on to passages linked to it. Its weight
is

    W(p1, p2, ... | q) = P(p1 | q)^c exp(b . g(p1 -> p2)) ...

where P is a softmax over passages of a . f(p1), with a few quantities f of a first passage and g of
a step (`FIRST` and `NEXT` list them). Weights of all chains of one length are divided by their sum,
so that a passage which suits the question by itself, but leads nowhere, begins no probable chain. A
passage can come next because the last ones name what its title says (`to_title`), because it names
what their title says (`from_title`), because both name an entity (`shared`), or because it suits
the question by itself (`direct`); ways to one passage add up. Relations choose among the links:
what the passages at both ends say of the entity is compared with what the question asks. Words and
entities of the question count once: what a chain has covered adds nothing in its next passage.
Where the question joins two names, as in 'Which is older, Parsifal or the Ring?', the passages
about both belong together. The score of a passage is the mean over lengths, up to `max_passages`,
of the probability that it is in a chain; the most probable chains are followed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.core import time_limit
from opql_jax.core.errors import InputError
from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.relations import Relations
from opql_jax.retrieval.view import FIRST, LINKS, NEXT, Candidates, Link, Question, View, best

# Chains that are followed, and next passages of each.
_BEAM, _NEXT_KEPT = 10, 8
# Ways that a step may take, and for which relations are compared.
_WAYS = 300
# Questions that are compared with all vectors at once.
_QUESTIONS = 16


class Weights(NamedTuple):
    """The weights a and b of FIRST and NEXT, by name, and c, as `benchmarks/retrieval.py` fits."""

    first: Mapping[str, float]
    next: Mapping[str, float]
    begin: float


WEIGHTS = Weights(
    first=dict(words=17.32, named=1.96, titled=0.96, sentence=1.17, passage=0.09, joined=1.85),
    next=dict(words=11.15, words_share=1.81, named=1.87, titled=-0.01, sentence=0.3, passage=-0.07)
    | dict(joined=5.46, direct=0.67, to_title=1.35, from_title=-0.12, shared=-0.74, rarity=8.24)
    | dict(spread=-0.65, source=1.3, asked=-2.97, prior=0.11, relation=1.98)
    | dict(target=1.66, target_words=1.5, target_relation=3.79),
    begin=0.77,
)


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why a passage is ranked: the most probable step to it.

    Attributes:
        link: how it was reached; 'direct' from the question.
        previous, entity: the passage that the link comes from, and its entity; None for 'direct'.
        sentence: start and end, in the text of `previous`, of the sentence that names the entity
            and suits the question best; None for 'direct', and where the title of `previous`
            names it.
    """

    link: Link
    previous: int | None = None
    entity: int | None = None
    sentence: tuple[int, int] | None = None


class Ranked(NamedTuple):
    """A ranked passage, by its row in the index.

    `sentence` is where the one that suits the question best stands in its text; None without any.
    """

    passage: int
    score: float
    reason: Reason
    sentence: tuple[int, int] | None


class _Step(NamedTuple):
    """A step of all chains: where they can go, and the probabilities of its ways and pairs."""

    found: Candidates
    ways: np.ndarray
    shares: np.ndarray


class Ranker:
    """Ranks the passages of an index."""

    def __init__(
        self,
        index: RetrievalIndex,
        weights: Weights = WEIGHTS,
        max_passages: int = 3,
        links: bool = True,
        relations: Relations | None = None,
    ):
        """Takes the index, weights, a chain's most passages, whether to follow links, relations."""
        if max_passages < 1:
            raise InputError(f'max_passages: {max_passages}; a chain has at least one passage')
        self.index, self._relations = index, relations
        self.max_passages, self._follow = max_passages, links
        self._first = np.array([weights.first[name] for name in FIRST])
        self.next, self._begin = np.array([weights.next[name] for name in NEXT]), weights.begin
        count = len(index.ids)
        named_by = np.diff(index.passages_of_entity.indptr)
        self._idf = np.log((count + 1) / (named_by + 0.5)) / np.log((count + 1) / 0.5)

    def rank(self, question: Question, k: int) -> list[Ranked]:
        """The k best passages for a question, see `rank_all`."""
        return list(next(self.rank_all([question], k)))

    def rank_all(self, questions: Sequence[Question], k: int) -> Iterator[Iterator[Ranked]]:
        """The k best passages for each question, best first; ties in the order of the index.

        Why a passage is there takes long, and is found out when it is taken. InputError: `k` or a
        field of a question is not possible.
        """
        if k < 1:
            raise InputError(f'k: {k}; ask for at least one passage')
        for view in self.views(questions):
            yield self._rank(view, k)

    def views(self, questions: Sequence[Question]) -> Iterator[View]:
        """The index as each question sees it, with the probabilities of the first passages."""
        width = self.index.vectors.shape[1]
        for start in range(0, len(questions), _QUESTIONS):
            block = questions[start : start + _QUESTIONS]
            for question in block:
                vector, expected = question.vector, f'expected {width} finite numbers'
                if vector.shape != (width,) or not np.isfinite(vector).all():
                    raise InputError(f'vector: shape {vector.shape}, {expected}, as the index has')
            vectors = np.stack([question.vector for question in block]).astype(np.float32)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            similarities = (vectors / np.where(norms > 0, norms, 1)) @ self.index.vectors.T
            for question, similarity in zip(block, similarities):
                view = View(self.index, self._idf, question, similarity, self._relations)
                logits = view.first @ self._first
                first = np.exp(logits - logits.max())
                view.begin(first / first.sum())
                yield view

    def candidates(self, view: View, chains: np.ndarray, logs: np.ndarray) -> Candidates:
        """The likeliest ways after chains [n, length] with the log-probabilities of chains [n]."""
        found = view.candidates(chains, self._follow)
        logits = found.logits(self.next) + logs[found.chains[found.pair]]
        return view.with_relations(found.only(np.sort(best(logits, _WAYS))))

    def _rank(self, view: View, k: int) -> Iterator[Ranked]:
        """The k best passages for a view's question, by chains followed within the time limit."""
        first, scores, steps = view.probabilities, view.probabilities.copy(), []
        chains, logs = view.roots[:, None], self._begin * np.log(first[view.roots] + 1e-300)
        for _ in range(self.max_passages - 1):
            if time_limit.passed():
                break
            found = self.candidates(view, chains, logs)
            if not len(found.link):
                break
            logits = found.logits(self.next) + logs[found.chains[found.pair]]
            ways = np.exp(logits - logits.max())
            ways /= ways.sum()
            shares = np.bincount(found.pair, ways, len(found.passages))
            scores += np.bincount(found.passages, shares, len(scores))
            np.add.at(scores, chains, np.bincount(found.chains, shares, len(chains))[:, None])
            steps.append(_Step(found, ways, shares))
            chains, logs = _longer(chains, found, shares)
        scores /= self.max_passages
        ranked = best(scores, k)
        for p, score in zip(ranked.tolist(), scores[ranked].tolist()):
            yield Ranked(p, score, self._reason(p, first[p], steps), view.best_sentence(p))

    def _reason(self, passage: int, direct: float, steps: Sequence[_Step]) -> Reason:
        """The likeliest way to a passage, in any step, or none if it is likelier as a first one."""
        strongest, reason = direct, Reason('direct')
        for found, ways, shares in steps:
            pairs = np.flatnonzero(found.passages == passage)
            if not len(pairs) or shares[pairs].max() <= strongest:
                continue
            pair = pairs[np.argmax(shares[pairs])]
            strongest, to_it = shares[pair], np.flatnonzero(found.pair == pair)
            place = found.link[to_it[np.argmax(ways[to_it])]]
            link = LINKS[int(np.argmax(found.links.quantities[: len(LINKS), place]))]
            row = int(found.links.sentences[place])
            sentence = self.index.sentence(row) if row >= 0 else None
            entity, previous = int(found.links.entities[place]), int(found.links.previous[place])
            reason = Reason(link) if link == 'direct' else Reason(link, previous, entity, sentence)
        return reason


def _longer(
    chains: np.ndarray, found: Candidates, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest longer chains [n, length + 1], and their log-probabilities, in any order."""
    # The best pairs of each chain, as many as are kept.
    by_chain = np.lexsort((-shares, found.chains))
    place = np.arange(len(by_chain)) - np.searchsorted(found.chains, found.chains)
    kept = by_chain[place < _NEXT_KEPT]
    longer: dict[tuple[int, ...], float] = {}
    extended = np.concatenate([chains[found.chains[kept]], found.passages[kept, None]], 1)
    for chain, share in zip(map(tuple, np.sort(extended, 1).tolist()), shares[kept].tolist()):
        longer[chain] = longer.get(chain, 0.0) + share
    beam = sorted(longer.items(), key=lambda item: (-item[1], item[0]))[:_BEAM]
    return np.array([chain for chain, _ in beam]), np.log([share + 1e-300 for _, share in beam])
