"""Ranks passages for a question that may take several hops, by following chains of passages; nothing is trained.

A chain begins at a passage that suits the question and goes on to passages linked to it. Its weight is

    W(p1, p2, ... | q) = P(p1 | q)^c exp(b . g(p1 -> p2)) ...

where P is a softmax over passages of a . f(p1), with a few quantities f of a first passage and g of a step (`FIRST` and `NEXT` list
them). Weights of all chains of one length are divided by their sum, so that a passage which suits the question by itself, but leads nowhere, begins no probable chain. A passage can come
next because the last ones name what its title says (`to_title`), because it names what their title says (`from_title`), because both
name an entity (`shared`), or because it suits the question by itself (`direct`); ways to one passage add up. Words and entities
of the question count once: what a chain has covered adds nothing in its next passage. The score of a passage is the mean over lengths, up
to `max_passages`, of the probability that it is in a chain; the most probable chains are followed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from opql_jax.core.errors import InputError
from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.words import words_of

# What the first passage is chosen by: BM25, as a share of the highest that there could be; the idf of the question's entities that
# it names, and of those that its title names; the similarity of its best sentence, and of it as a whole, in standard deviations.
FIRST = ('words', 'named', 'titled', 'sentence', 'passage')
# What a next one is chosen by. The same for what the chain has not covered, and `words_share`, in proportion to the candidate that
# covers most; how it is linked; of the linking entity the idf, the log of the number of passages that the link leads to, how well
# the sentence suits the question that names it, compared with the best of its passage, and whether the question names it too;
# without a link, the log-probability as first passage; and of the sentence of the next passage that names the entity, or of its best one
# if the title does, how well it suits the question, compared likewise, and the uncovered words that it has.
NEXT = (
    'words', 'words_share', 'named', 'titled', 'sentence', 'passage',
    'direct', 'to_title', 'from_title', 'shared', 'rarity', 'spread', 'source', 'asked', 'prior', 'target', 'target_words',
)  # fmt: skip
Link = Literal['direct', 'to_title', 'from_title', 'shared']
_LINKS: tuple[Link, ...] = ('direct', 'to_title', 'from_title', 'shared')
_COLUMN = {name: column for column, name in enumerate(NEXT)}
# Passages that suit the question, as beginnings and as direct next ones; chains that are followed; next passages of each.
_ROOTS, _BEAM, _NEXT_KEPT = 24, 10, 8
# An entity is no link to more passages than this.
_MAX_SPREAD = 200


class Weights(NamedTuple):
    """The weights a and b of the quantities in FIRST and NEXT, by name, and c; fitted by `benchmarks/retrieval.py --fit`."""

    first: Mapping[str, float]
    next: Mapping[str, float]
    begin: float


WEIGHTS = Weights(
    first={'words': 15.18, 'named': 1.84, 'titled': 1.63, 'sentence': 1.44, 'passage': 0.07},
    next={
        'words': 13.77, 'words_share': 0.21, 'named': 2.38, 'titled': 0.41, 'sentence': 1.02, 'passage': -0.64,
        'direct': 0.66, 'to_title': 1.39, 'from_title': -0.42, 'shared': -0.78, 'rarity': 10.66, 'spread': -0.64,
        'source': 1.95, 'asked': -7.98, 'prior': 0.05, 'target': 2.66, 'target_words': 1.86,
    },
    begin=0.89,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Question:
    """A question as it is ranked for.

    Attributes:
        text: the question.
        entities: ids of the entities that it names.
        vector: [d] of the encoder that made the vectors of the index, of any length.
    """

    text: str
    entities: Sequence[int]
    vector: np.ndarray


@dataclasses.dataclass(frozen=True)
class Reason:
    """Why a passage is ranked: the most probable step to it.

    Attributes:
        link: how it was reached; 'direct' from the question.
        previous: the passage that the link comes from, None for 'direct'.
        entity: the entity of the link, None for 'direct'.
        sentence: start and end, in the text of `previous`, of the sentence that names the entity and suits the question best; None
            for 'direct', and where the title of `previous` names it.
    """

    link: Link
    previous: int | None = None
    entity: int | None = None
    sentence: tuple[int, int] | None = None


class Ranked(NamedTuple):
    """A passage (its row in the index), its score, and why it is there."""

    passage: int
    score: float
    reason: Reason


class _Edges(NamedTuple):
    """Ways to next passages: `quantities` [n, len(NEXT)], the entity, and the rows of the sentences that name it here and there; -1: none."""

    passages: np.ndarray
    quantities: np.ndarray
    entities: np.ndarray
    sentences: np.ndarray
    targets: np.ndarray


class Candidates(NamedTuple):
    """What can come next: ways to passages; `place` is the place of each way's passage in `passages`, which are distinct."""

    passages: np.ndarray
    place: np.ndarray
    edges: _Edges
    previous: np.ndarray


class Ranker:
    """Ranks the passages of an index."""

    def __init__(self, index: RetrievalIndex, weights: Weights = WEIGHTS, max_passages: int = 3, links: bool = True):
        """Takes the index, the weights, the most passages that a chain has, and whether links are followed."""
        if max_passages < 1:
            raise InputError(f'max_passages: {max_passages}; a chain has at least one passage')
        self.index = index
        self.max_passages, self._follow = max_passages, links
        self._first = np.array([weights.first[name] for name in FIRST])
        self.next, self._begin = np.array([weights.next[name] for name in NEXT]), weights.begin
        count = len(index.ids)
        named_by = np.diff(index.passages_of_entity.indptr)
        self._idf = np.log((count + 1) / (named_by + 0.5)) / np.log((count + 1) / 0.5)

    def rank(self, question: Question, k: int) -> list[Ranked]:
        """The k best passages for a question, best first; equal scores in the order of the index.

        Args:
            question: what is asked.
            k: how many; all if there are fewer.

        Raises:
            InputError: `k` or a field of the question is not possible.
        """
        if k < 1:
            raise InputError(f'k: {k}; ask for at least one passage')
        view = self.view(question)
        first = view.probabilities
        scores, strongest = first.copy(), first.copy()
        steps: list[tuple[Candidates, np.ndarray]] = []
        step_to = np.full(len(first), -1)  # the most probable step to each passage, -1 for the first one
        beam = [((int(passage),), first[passage] ** self._begin) for passage in view.roots]
        for _ in range(self.max_passages - 1):
            found = [self.candidates(view, chain) for chain, _ in beam]
            logits = [each.edges.quantities @ self.next + np.log(share + 1e-300) for each, (_, share) in zip(found, beam)]
            highest = max((each.max() for each in logits if len(each)), default=None)
            if highest is None:
                break
            ways = [np.exp(each - highest) for each in logits]
            total = sum(each.sum() for each in ways)
            longer: dict[tuple[int, ...], float] = {}
            for (chain, _), candidates, way in zip(beam, found, ways):
                way /= total
                shares = np.bincount(candidates.place, way, len(candidates.passages))
                scores[candidates.passages] += shares
                scores[list(chain)] += shares.sum()
                stronger = shares > strongest[candidates.passages]
                reached = candidates.passages[stronger]
                strongest[reached] = shares[stronger]
                step_to[reached] = len(steps)
                steps.append((candidates, way))
                for place in best(shares, _NEXT_KEPT):
                    extended = tuple(sorted((*chain, int(candidates.passages[place]))))
                    longer[extended] = longer.get(extended, 0.0) + shares[place]
            beam = sorted(longer.items(), key=lambda item: (-item[1], item[0]))[:_BEAM]
        scores /= self.max_passages
        return [
            Ranked(p, float(scores[p]), self._reason(p, *steps[step_to[p]]) if step_to[p] >= 0 else Reason('direct'))
            for p in best(scores, k).tolist()
        ]

    def view(self, question: Question) -> View:
        """The index as a question sees it, with the probabilities of the first passages."""
        view = View(self.index, question, self._idf)
        logits = view.first() @ self._first
        first = np.exp(logits - logits.max())
        view.begin(first / first.sum())
        return view

    def candidates(self, view: View, chain: tuple[int, ...]) -> Candidates:
        """What can come after a chain, and by what it is chosen."""
        sources = chain if self._follow else ()
        parts = [view.direct(), *(view.links(passage) for passage in sources)]
        edges = _Edges(*(np.concatenate(column) for column in zip(*parts)))
        previous = np.repeat([-1, *sources], [len(part.passages) for part in parts])
        kept = ~np.isin(edges.passages, chain)
        edges = _Edges(*(column[kept] for column in edges))
        passages, place = np.unique(edges.passages, return_inverse=True)
        if len(passages):
            edges.quantities[:, : _COLUMN['direct']] = view.uncovered(chain, passages)[place]
            edges.quantities[:, _COLUMN['target_words']] = view.uncovered_words(chain, edges.targets)
        return Candidates(passages, place, edges, previous[kept])

    def _reason(self, passage: int, found: Candidates, ways: np.ndarray) -> Reason:
        """The most probable way to a passage in a step."""
        to_it = np.flatnonzero(found.passages[found.place] == passage)
        way = to_it[np.argmax(ways[to_it])]
        link = _LINKS[int(np.argmax(found.edges.quantities[way, _COLUMN['direct'] : _COLUMN['rarity']]))]
        if link == 'direct':
            return Reason(link)
        row = int(found.edges.sentences[way])
        sentence = self.index.sentence(row) if row >= 0 else None
        return Reason(link, int(found.previous[way]), int(found.edges.entities[way]), sentence)


class View:
    """What an index holds as one question sees it."""

    def __init__(self, index: RetrievalIndex, question: Question, idf: np.ndarray):
        self.index, self._idf = index, idf
        count, width = len(index.ids), index.vectors.shape[1]
        vector = np.asarray(question.vector, np.float32)
        if vector.shape != (width,) or not np.isfinite(vector).all():
            raise InputError(f'vector: shape {vector.shape}, expected {width} finite numbers, as the index has')
        self._vector = vector / (np.linalg.norm(vector) or 1)
        self._asked = np.unique(np.asarray(question.entities, np.int64))
        if len(self._asked) and not 0 <= self._asked[0] <= self._asked[-1] < index.num_entities:
            raise InputError(f'entities: {self._asked.tolist()}, but the index has {index.num_entities}')
        columns = sorted({index.word_ids[word] for word in words_of(question.text) if word in index.word_ids})
        # [words, passages]; [entities of the question, passages], once for what is named anywhere, once for titles.
        words = index.words[:, columns].toarray().T
        self._words = words / max(words.max(1, initial=0).sum(), 1e-6)
        # [words, sentences]: a word of a sentence is worth as much as it can be. The last column is of no sentence.
        in_sentence = index.words_of_sentence[:, columns].toarray().T * self._words.max(1, initial=0)[:, None]
        self._in_sentence = np.pad(in_sentence, ((0, 0), (0, 1)))
        rarity = idf[self._asked, None].astype(np.float32)
        self._named = index.passages_of_entity[:, self._asked].toarray().T * rarity
        self._titled = index.passages_titled[:, self._asked].toarray().T * rarity
        similarity = index.vectors @ self._vector
        self._similarity = (similarity - similarity.mean()) / (similarity.std() or 1)
        self._passage, self._sentence = self._similarity[:count], self._similarity[count:]
        # A passage is as similar as its best sentence, or it as a whole.
        self._best = self._passage.copy()
        np.maximum.at(self._best, np.repeat(np.arange(count), np.diff(index.first_sentence)), self._sentence)
        self._links: dict[int, _Edges] = {}
        # Of each passage the row of the sentence that suits the question best, or -1, and how well.
        self._passage_of = np.repeat(np.arange(count), np.diff(index.first_sentence))
        order = np.argsort(self._sentence, kind='stable')
        self._best_row = np.full(count, -1)
        self._best_row[self._passage_of[order]] = order
        self._best_sentence = np.where(self._best_row >= 0, self._sentence[self._best_row], 0)

    def first(self) -> np.ndarray:
        """The quantities of all passages as first ones, [passages, len(FIRST)]."""
        return np.stack([self._words.sum(0), self._named.sum(0), self._titled.sum(0), self._best, self._passage], 1)

    def begin(self, first: np.ndarray) -> None:
        """Notes the probabilities of first passages [passages], of which the best are the roots."""
        self.probabilities = first
        self.roots = best(first, _ROOTS)
        quantities = np.zeros((len(self.roots), len(NEXT)))
        quantities[:, _COLUMN['direct']] = 1
        quantities[:, _COLUMN['prior']] = np.log(first[self.roots] + 1e-12)
        none = np.full(len(self.roots), -1)
        self._direct = _Edges(self.roots, quantities, none, none, none)

    def direct(self) -> _Edges:
        """The ways to passages that suit the question by themselves."""
        return self._direct

    def links(self, passage: int) -> _Edges:
        """The ways out of a passage; the first columns of `quantities` are zero, as they depend on the chain."""
        if passage in self._links:
            return self._links[passage]
        index, topic = self.index, int(self.index.title_entity[passage])
        first, last = index.first_sentence[passage : passage + 2]
        block = index.entities_of_sentence[first:last]
        sentences = np.repeat(np.arange(first, last), np.diff(block.indptr))
        # Of each entity the sentence that suits the question best.
        order = np.lexsort((sentences, -self._sentence[sentences], block.indices))
        entities, at = np.unique(block.indices[order], return_index=True)
        sentences = sentences[order][at][entities != topic]
        entities = entities[entities != topic]
        about = np.array([topic] if topic >= 0 else [], np.int64)
        parts = [
            self._link('to_title', passage, entities, sentences, index.passages_titled),
            self._link('from_title', passage, about, np.full(len(about), -1), index.passages_naming),
            self._link('shared', passage, entities, sentences, index.passages_naming),
        ]
        self._links[passage] = _Edges(*(np.concatenate(column) for column in zip(*parts)))
        return self._links[passage]

    def _link(self, link: Link, passage: int, entities: np.ndarray, sentences: np.ndarray, table: sp.csc_matrix) -> _Edges:
        """The ways from a passage through entities, which these of its sentences name, to the passages in their columns of a table."""
        few = np.diff(table.indptr)[entities] <= _MAX_SPREAD
        entities, sentences = entities[few], sentences[few]
        which, targets = _columns(table, entities)
        which, targets = which[targets != passage], targets[targets != passage]
        spread = np.bincount(which, minlength=len(entities))
        named, through = sentences >= 0, np.zeros((len(entities), len(NEXT)))
        through[:, _COLUMN[link]] = 1
        through[:, _COLUMN['rarity']] = self._idf[entities]
        through[:, _COLUMN['spread']] = np.log(np.maximum(spread, 1))
        through[:, _COLUMN['asked']] = np.isin(entities, self._asked)
        if named.any():
            first, last = self.index.first_sentence[passage : passage + 2]
            through[named, _COLUMN['source']] = self._sentence[sentences[named]] - self._sentence[first:last].max()
        quantities, ends = through[which], self._ends(link, entities, which, targets)
        linked = ends >= 0
        quantities[linked, _COLUMN['target']] = self._sentence[ends[linked]] - self._best_sentence[targets[linked]]
        return _Edges(targets, quantities, entities[which], sentences[which], ends)

    def _ends(self, link: Link, entities: np.ndarray, which: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """For each link the row of the sentence of its target that suits the question best, of those that name its entity, or -1."""
        if link == 'to_title':
            return self._best_row[targets]
        # By entity and passage; of each the best sentence comes last.
        of, rows = _columns(self.index.sentences_of_entity, entities)
        order = np.lexsort((self._sentence[rows], self._passage_of[rows], of))
        rows, count = rows[order], len(self._passage)
        keys, wanted = of[order] * count + self._passage_of[rows], which * count + targets
        if not len(keys):
            return np.full(len(targets), -1)
        at = np.searchsorted(keys, wanted, side='right') - 1
        return np.where((at >= 0) & (keys[at] == wanted), rows[at], -1)

    def uncovered(self, chain: tuple[int, ...], passages: np.ndarray) -> np.ndarray:
        """The quantities of next passages [n, 6] that the chain covers no part of: 'words' to 'passage'."""
        at = list(chain)
        words, named, titled = (
            np.maximum(table[:, passages] - table[:, at].max(1)[:, None], 0).sum(0)
            for table in (self._words, self._named, self._titled)
        )
        share = words / (words.max() + 0.02)
        return np.stack([words, share, named, titled, self._best[passages], self._passage[passages]], 1)

    def uncovered_words(self, chain: tuple[int, ...], sentences: np.ndarray) -> np.ndarray:
        """What the words of sentences (rows, -1 for none) are worth that the chain does not cover."""
        return np.maximum(self._in_sentence[:, sentences] - self._words[:, list(chain)].max(1)[:, None], 0).sum(0)


def _columns(table: sp.csc_matrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of columns of a table, column by column: the place of each one's column in `columns`, and its row."""
    lengths = np.diff(table.indptr)[columns]
    which = np.repeat(np.arange(len(columns)), lengths)
    places = np.arange(len(which)) + np.repeat(table.indptr[columns] - (np.cumsum(lengths) - lengths), lengths)
    return which, table.indices[places]


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The places of the k highest scores, highest first; equal ones by place."""
    return np.argsort(-scores, kind='stable')[:k]
