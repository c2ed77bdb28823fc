"""An index of passages as one question sees it: what speaks for a passage as the first of a chain, and as the next one of a chain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from opql_jax.core.errors import InputError
from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.relations import Relations
from opql_jax.retrieval.words import words_of

# What the first passage is chosen by: BM25, as a share of the highest that there could be; the idf of the question's entities that
# it names, and of those that its title names; the similarity of its best sentence, and of it as a whole, in standard deviations.
FIRST = ('words', 'named', 'titled', 'sentence', 'passage')
# What a next passage is chosen by. Of the passage the same, for what the chain has not covered, and `words_share`, in proportion to the
# candidate that covers most.
_OF_PASSAGE = ('words', 'words_share', 'named', 'titled', 'sentence', 'passage')
# Of the way to it how it is linked; of the linking entity the idf, the log of the number of passages that the link leads to, how well
# the sentence suits the question that names it, compared with the best of its passage, and whether the question names it too;
# without a link, the log-probability as first passage; and of the sentence of the next passage that names the entity, or of its best one
# if the title does, how well it suits the question, compared likewise; and how close what the last passage says of the entity comes to
# what the question asks about any of its names.
_OF_LINK = ('direct', 'to_title', 'from_title', 'shared', 'rarity', 'spread', 'source', 'asked', 'prior', 'target', 'relation')
# Of that sentence the words that the chain has not covered; and how close what the next passage says of the entity comes to what is
# asked, less what is usual, so that 0 is no telling.
_OF_END = ('target_words', 'target_relation')
NEXT = (*_OF_PASSAGE, *_OF_LINK, *_OF_END)
Link = Literal['direct', 'to_title', 'from_title', 'shared']
LINKS: tuple[Link, ...] = ('direct', 'to_title', 'from_title', 'shared')
_COLUMN = {name: column for column, name in enumerate(_OF_LINK)}
# Passages that suit the question, as beginnings and as direct next ones.
_ROOTS = 24
# An entity is no link to more passages than this.
_MAX_SPREAD = 200
# The cosine of the closest relation that a passage usually has.
_USUAL = 0.4
# What links a chain that comes from no passage but from the question.
QUESTION = -1


@dataclasses.dataclass(frozen=True)
class Question:
    """A question as it is ranked for.

    Attributes:
        text: the question.
        entities: ids of the entities that it names.
        vector: [d] of the encoder that made the vectors of the index, of any length.
        relations: [names, d_r] what it asks about each of its names, of unit length; none if that is not known.
    """

    text: str
    entities: Sequence[int]
    vector: np.ndarray
    relations: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), np.float32))


class Links(NamedTuple):
    """Ways from passages, or from the question, to next passages.

    Attributes:
        previous: [n] where each comes from, rising; `QUESTION` where from the question.
        passages: [n] where it leads.
        quantities: [n, len(_OF_LINK)].
        entities, sentences, ends: [n] the entity, and the rows of the sentences that name it here and there; -1 for none.
    """

    previous: np.ndarray
    passages: np.ndarray
    quantities: np.ndarray
    entities: np.ndarray
    sentences: np.ndarray
    ends: np.ndarray


class Candidates(NamedTuple):
    """What can come after chains: pairs of a chain and a passage, and the ways that lead from one to the other.

    Attributes:
        chains, passages: [pairs] distinct, rising: the place of the chain among those given, and the next passage.
        gains: [pairs, len(_OF_PASSAGE)].
        pair: [ways] the pair of each way.
        way: [ways] its place in `links`.
        ends: [ways, len(_OF_END)].
        links: the ways out of all passages of the chains.
    """

    chains: np.ndarray
    passages: np.ndarray
    gains: np.ndarray
    pair: np.ndarray
    way: np.ndarray
    ends: np.ndarray
    links: Links

    def quantities(self) -> np.ndarray:
        """The quantities of all ways, [ways, len(NEXT)]."""
        return np.concatenate([self.gains[self.pair], self.links.quantities[self.way], self.ends], 1)

    def logits(self, weights: np.ndarray) -> np.ndarray:
        """The product [ways] of `quantities` and weights [len(NEXT)], each quantity multiplied once."""
        of_passage, of_link, of_end = np.split(weights, [len(_OF_PASSAGE), len(NEXT) - len(_OF_END)])
        # By einsum: products as narrow as these take longer in threads, for which a library of linear algebra waits.
        product = lambda quantities, weights: np.einsum('nq,q->n', quantities, weights)
        of_way = product(self.links.quantities, of_link)[self.way] + product(self.ends, of_end)
        return product(self.gains, of_passage)[self.pair] + of_way

    def only(self, ways: np.ndarray) -> Candidates:
        """Some of the ways, and the pairs that these are of."""
        pairs, pair = np.unique(self.pair[ways], return_inverse=True)
        chains, passages, gains = self.chains[pairs], self.passages[pairs], self.gains[pairs]
        return Candidates(chains, passages, gains, pair, self.way[ways], self.ends[ways], self.links)


class View:
    """What an index holds as one question sees it.

    Attributes:
        first: [passages, len(FIRST)] the quantities of passages as first ones.
        probabilities, roots: [passages] those of first passages, and the best; see `begin`.
    """

    def __init__(
        self,
        index: RetrievalIndex,
        idf: np.ndarray,
        question: Question,
        similarity: np.ndarray,
        relations: Relations | None = None,
    ):
        """Takes the idf of all entities, the cosines [passages + sentences] of the vectors of question and index, and relations."""
        self.index, self._idf, count = index, idf, len(index.ids)
        self._relations, self._asked_relations = relations, question.relations
        self._asked = np.unique(np.asarray(question.entities, np.int64))
        if len(self._asked) and not 0 <= self._asked[0] <= self._asked[-1] < index.num_entities:
            raise InputError(f'entities: {self._asked.tolist()}, but the index has {index.num_entities}')
        columns = sorted({index.word_ids[word] for word in words_of(question.text) if word in index.word_ids})
        # [passages, words and entities of the question]; the entities once for what is named anywhere, once for titles.
        words = _dense(index.words, columns)
        words /= max(words.max(0, initial=0).sum(), 1e-6)
        rarity = idf[self._asked].astype(np.float32)
        named, titled = (_dense(table, self._asked) * rarity for table in (index.passages_of_entity, index.passages_titled))
        self._has = np.concatenate([words, named, titled], 1)
        self._ends = len(columns), len(columns) + len(self._asked)
        # [sentences, words]: a word of a sentence is worth as much as it can be. The last row is of no sentence.
        self._in_sentence = np.pad(_dense(index.words_of_sentence, columns), ((0, 1), (0, 0))) * words.max(0, initial=0)
        similarity = (similarity - similarity.mean()) / (similarity.std() or 1)
        self._passage, self._sentence = similarity[:count], similarity[count:]
        # Of each passage the row of the sentence that suits the question best, or -1, and how well.
        self._best_row, self._best_sentence = np.full(count, -1), np.zeros(count, np.float32)
        if len(self._sentence):
            has_any = np.diff(index.first_sentence) > 0
            self._best_sentence[has_any] = np.maximum.reduceat(self._sentence, index.first_sentence[:-1][has_any])
            rows = np.flatnonzero(self._sentence == self._best_sentence[index.passage_of_sentence])
            self._best_row[index.passage_of_sentence[rows]] = rows
        # A passage is as similar as its best sentence, or it as a whole.
        self._best = np.where(self._best_row >= 0, np.maximum(self._passage, self._best_sentence), self._passage)
        self.first = np.concatenate([self._sums(self._has), self._best[:, None], self._passage[:, None]], 1)

    def begin(self, probabilities: np.ndarray) -> None:
        """Notes the probabilities of first passages [passages], of which the best are the roots."""
        self.probabilities, self.roots = probabilities, best(probabilities, _ROOTS)

    def candidates(self, chains: np.ndarray, follow: bool = True) -> Candidates:
        """What can come after chains [n, length] of passages; with `follow`, also over links."""
        sources = np.pad(chains, ((0, 0), (1, 0)), constant_values=QUESTION)[:, : None if follow else 1]
        links, count = self.links(np.unique(sources)), len(self.probabilities)
        begin, end = (np.searchsorted(links.previous, sources.ravel(), side) for side in ('left', 'right'))
        which, way = ranges(begin, end - begin)
        chain = which // sources.shape[1]
        fresh = (links.passages[way][:, None] != chains[chain]).all(1)
        chain, way = chain[fresh], way[fresh]
        pairs, pair = np.unique(chain * count + links.passages[way], return_inverse=True)
        of, passages = np.divmod(pairs, count)
        covered = self._has[chains].max(1)
        gained = self._sums(np.maximum(self._has[passages] - covered[of], 0))
        most = np.zeros(len(chains))
        np.maximum.at(most, of, gained[:, 0])
        share = gained[:, 0] / (most[of] + 0.02)
        gains = np.stack([gained[:, 0], share, gained[:, 1], gained[:, 2], self._best[passages], self._passage[passages]], 1)
        in_sentence, of_chain = self._in_sentence[links.ends[way]], covered[:, : self._ends[0]][chain]
        words = np.maximum(in_sentence - of_chain, 0).sum(1)
        return Candidates(of, passages, gains, pair, way, np.stack([words, np.zeros(len(way))], 1), links)

    def with_relations(self, found: Candidates) -> Candidates:
        """Candidates with what their passages say of the entities; apart from `candidates`, as it takes long for all of them."""
        entities = found.links.entities[found.way]
        linked = np.flatnonzero(entities >= 0)
        if self._relations is None or not len(self._asked_relations):
            return found
        passages = found.passages[found.pair][linked]
        ends = found.ends.copy()
        ends[linked, 1] = self._relations.closeness('topic', passages, entities[linked], self._asked_relations) - _USUAL
        return found._replace(ends=ends)

    def links(self, sources: np.ndarray) -> Links:
        """The ways out of passages, rising, or from the `QUESTION`."""
        parts = [self._direct()] if QUESTION in sources else []
        index, passages = self.index, sources[sources != QUESTION]
        topics = index.title_entity[passages].astype(np.int64)
        which, rows = ranges(index.first_sentence[passages], np.diff(index.first_sentence)[passages])
        of, places = _entries(index.entities_of_sentence, rows)
        source, entity, row = which[of], index.entities_of_sentence.indices[places], rows[of]
        # Of each entity the sentence that suits the question best.
        order = np.lexsort((row, -self._sentence[row], entity, source))
        _, at = np.unique(source[order].astype(np.int64) * index.num_entities + entity[order], return_index=True)
        at = order[at]
        at = at[entity[at] != topics[source[at]]]
        named = passages[source[at]], entity[at], row[at]
        about = passages[topics >= 0], topics[topics >= 0], np.full((topics >= 0).sum(), -1)
        parts.append(self._link('to_title', *named, index.passages_titled))
        parts.append(self._link('from_title', *about, index.passages_naming))
        parts.append(self._link('shared', *named, index.passages_naming))
        links = Links(*(np.concatenate(column) for column in zip(*parts)))
        if self._relations is not None:
            linked = links.entities >= 0
            said = links.previous[linked], links.entities[linked]
            links.quantities[linked, _COLUMN['relation']] = self._relations.closeness('target', *said, self._asked_relations)
        order = np.argsort(links.previous, kind='stable')
        return Links(*(column[order] for column in links))

    def _direct(self) -> Links:
        """The ways to passages that suit the question by themselves."""
        quantities = np.zeros((len(self.roots), len(_OF_LINK)))
        quantities[:, _COLUMN['direct']] = 1
        quantities[:, _COLUMN['prior']] = np.log(self.probabilities[self.roots] + 1e-12)
        none = np.full(len(self.roots), -1)
        return Links(np.full(len(self.roots), QUESTION), self.roots, quantities, none, none, none)

    def _link(
        self, link: Link, previous: np.ndarray, entities: np.ndarray, sentences: np.ndarray, table: sp.csc_matrix
    ) -> Links:
        """The ways from passages through entities, which these of their sentences name, to passages in their columns of a table."""
        few = table.indptr[entities + 1] - table.indptr[entities] <= _MAX_SPREAD
        previous, entities, sentences = previous[few], entities[few], sentences[few]
        which, places = _entries(table, entities)
        other = table.indices[places] != previous[which]
        which, places = which[other], places[other]
        targets = table.indices[places]
        named, through = sentences >= 0, np.zeros((len(entities), len(_OF_LINK)))
        through[:, _COLUMN[link]] = 1
        through[:, _COLUMN['rarity']] = self._idf[entities]
        through[:, _COLUMN['spread']] = np.log(np.maximum(np.bincount(which, minlength=len(entities)), 1))
        through[:, _COLUMN['asked']] = np.isin(entities, self._asked)
        through[named, _COLUMN['source']] = self._sentence[sentences[named]] - self._best_sentence[previous[named]]
        quantities = through[which]
        ends = self._best_row[targets] if link == 'to_title' else self._best_naming(places)
        linked = ends >= 0
        quantities[linked, _COLUMN['target']] = self._sentence[ends[linked]] - self._best_sentence[targets[linked]]
        return Links(previous[which], targets, quantities, entities[which], sentences[which], ends)

    def _best_naming(self, places: np.ndarray) -> np.ndarray:
        """For entries of `passages_naming` the row of the sentence that suits the question best, of those that name the entity."""
        if not len(places):
            return places
        starts, lengths = self.index.naming_starts[places], self.index.naming_counts[places]
        which, at = ranges(starts, lengths)
        rows = self.index.sentences_of_entity.indices[at]
        highest = np.maximum.reduceat(self._sentence[rows], np.cumsum(lengths) - lengths)
        is_best = self._sentence[rows] == highest[which]
        ends = np.empty(len(places), np.int64)
        ends[which[is_best]] = rows[is_best]
        return ends

    def _sums(self, has: np.ndarray) -> np.ndarray:
        """Words, named and titled [n, 3] of rows like those of `_has`."""
        return np.stack([part.sum(1) for part in np.split(has, self._ends, 1)], 1)


def ranges(starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of ranges, one range after the other: the range of each number, and the number."""
    which = np.repeat(np.arange(len(starts)), lengths)
    return which, np.arange(len(which)) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)


def _entries(table: sp.csc_matrix | sp.csr_matrix, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The entries of columns (rows, if it is stored by rows) of a table: the place of each one's column in `columns`, and its own."""
    starts = table.indptr[columns].astype(np.int64)
    return ranges(starts, table.indptr[np.asarray(columns) + 1] - starts)


def _dense(table: sp.csc_matrix, columns: Sequence[int] | np.ndarray) -> np.ndarray:
    """Columns of a table, [rows, columns] float32."""
    columns = np.asarray(columns, np.int64)
    found = np.zeros((table.shape[0], len(columns)), np.float32)
    which, places = _entries(table, columns)
    found[table.indices[places], which] = table.data[places]
    return found


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The places of the k highest scores, highest first; equal ones by place."""
    if k < len(scores):
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        return places[np.argsort(-scores[places], kind='stable')[:k]]
    return np.argsort(-scores, kind='stable')
