"""What speaks for a passage, as a question sees an index: as first or next one of a chain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from opql_jax.core.errors import InputError
from opql_jax.core.ranges import ranges
from opql_jax.retrieval.index import RetrievalIndex
from opql_jax.retrieval.relations import Relations

# What the first passage is chosen by: BM25, as a share of the highest that there could be; the idf
# of the question's entities that it names, and of those that its title names; the similarity of its
# best sentence, and of it as a whole, in standard deviations; and whether its title is a name that
# 'and' or 'or' joins with another in the question.
FIRST = ('words', 'named', 'titled', 'sentence', 'passage', 'joined')
# What a next passage is chosen by. Of the passage the same, for what the chain has not covered, and
# `words_share`, in proportion to the candidate that covers most; and whether the question joins its
# title with that of a passage of the chain.
_OF_PASSAGE = ('words', 'words_share', 'named', 'titled', 'sentence', 'passage', 'joined')
# Of the link how it is one; of the linking entity the idf, the log of the number of passages that
# the link leads to, how well the sentence suits the question that names it, compared with the best
# of its passage, and whether the question names it too; without a link, the log-probability as
# first passage; and how close what the last passage says of the entity comes to what the question
# asks about any of its names.
_OF_LINK = tuple(
    'direct to_title from_title shared rarity spread source asked prior relation'.split()
)
# Of the sentence of the next passage that names the entity, or of its best one if the title does,
# how well it suits the question, compared likewise; of that sentence the words that the chain has
# not covered; and how close what the next passage says of the entity comes to what is asked, less
# what is usual, so that 0 is unknown.
_OF_END = ('target', 'target_words', 'target_relation')
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
        relations: [names, d_r] what it asks about each of its names, of unit length; none if that
            is not known.
        joined: pairs of names that 'and' or 'or' joins, as the ids of either.
        notes: what to know about its names, in words.
    """

    text: str
    entities: Sequence[int]
    vector: np.ndarray
    relations: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((0, 0), np.float32))
    joined: Sequence[tuple[Sequence[int], Sequence[int]]] = ()
    notes: Sequence[str] = ()


class Links(NamedTuple):
    """Links from passages, or from the question, and the ways over each to next passages.

    Attributes:
        previous: [links] where each comes from, rising; `QUESTION` where from the question.
        entities, sentences: [links] the entity, and the row of the sentence that names it there; -1
            for none.
        quantities: [len(_OF_LINK), links].
        first, counts: [links] where the ways over each begin, and how many they are.
        passages: [ways] where each leads.
        ends: [ways] the row of the sentence that names the entity there; -1 for none.
    """

    previous: np.ndarray
    entities: np.ndarray
    sentences: np.ndarray
    quantities: np.ndarray
    first: np.ndarray
    counts: np.ndarray
    passages: np.ndarray
    ends: np.ndarray

    def by_previous(self) -> Links:
        """The same links, in the order of `previous`."""
        order = np.argsort(self.previous, kind='stable')
        of_links = ('previous', 'entities', 'sentences', 'quantities', 'first', 'counts')
        return self._replace(**{name: getattr(self, name)[..., order] for name in of_links})

    def and_also(self, others: Links) -> Links:
        """These links and others, from other passages."""
        others = others._replace(first=others.first + len(self.passages))
        return Links(*(np.concatenate(columns, -1) for columns in zip(self, others))).by_previous()


class Candidates(NamedTuple):
    """What can come after chains: pairs of a chain and a passage, and ways between them.

    Attributes:
        chains, passages: [pairs] distinct, rising: the place of the chain among those given, and
            the next passage.
        gains: [len(_OF_PASSAGE), pairs].
        pair: [ways] the pair of each way.
        link: [ways] its link, a place in `links`.
        ends: [len(_OF_END), ways].
        links: those out of all passages of the chains.
    """

    chains: np.ndarray
    passages: np.ndarray
    gains: np.ndarray
    pair: np.ndarray
    link: np.ndarray
    ends: np.ndarray
    links: Links

    def quantities(self) -> np.ndarray:
        """The quantities of all ways, [ways, len(NEXT)]."""
        return np.concatenate(
            [self.gains[:, self.pair], self.links.quantities[:, self.link], self.ends]
        ).T

    def logits(self, weights: np.ndarray) -> np.ndarray:
        """The product [ways] of `quantities` and weights [len(NEXT)], each multiplied once."""
        of_passage, of_link, of_end = np.split(
            weights, [len(_OF_PASSAGE), len(NEXT) - len(_OF_END)]
        )
        # By einsum: products as narrow as these take longer in threads, for which a library of
        # linear algebra waits.
        product = lambda weights, quantities: np.einsum('q,qn->n', weights, quantities)
        of_way = product(of_link, self.links.quantities)[self.link] + product(of_end, self.ends)
        return product(of_passage, self.gains)[self.pair] + of_way

    def only(self, ways: np.ndarray) -> Candidates:
        """Some of the ways, and the pairs that these are of."""
        pairs, pair = np.unique(self.pair[ways], return_inverse=True)
        return self._replace(
            chains=self.chains[pairs],
            passages=self.passages[pairs],
            gains=self.gains[:, pairs],
            pair=pair,
            link=self.link[ways],
            ends=self.ends[:, ways],
        )


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
        """Takes entities' idf, cosines [passages + sentences] of question and index, relations."""
        self.index, self._idf, count = index, idf, len(index.ids)
        self._relations, self._asked_relations = relations, question.relations
        self._asked = np.unique(np.asarray(question.entities, np.int64))
        if len(self._asked) and not 0 <= self._asked[0] <= self._asked[-1] < index.num_entities:
            raise InputError(
                f'entities: {self._asked.tolist()}, but the index has {index.num_entities}'
            )
        columns = index.columns_of(question.text)
        # [words and entities of the question, passages]; the entities once for what is named
        # anywhere, once for titles.
        words = _dense(index.words, columns)
        most = words.max(1, initial=0, keepdims=True)
        words, most = words / max(most.sum(), 1e-6), most / max(most.sum(), 1e-6)
        rarity = idf[self._asked, None].astype(np.float32)
        both = index.passages_of_entity, index.passages_titled
        named, titled = (_dense(table, self._asked) * rarity for table in both)
        self._has = np.concatenate([words, named, titled])
        self._ends = len(columns), len(columns) + len(self._asked)
        # [words, sentences]: a word of a sentence is worth as much as it can be. The last column is
        # of no sentence.
        in_sentence = _dense(index.words_of_sentence, columns)
        self._in_sentence = np.pad(in_sentence, ((0, 0), (0, 1))) * most
        mean, deviation = similarity.mean(), similarity.std() or 1
        similarity = (similarity - mean) / deviation
        self._passage, self._sentence = similarity[:count], similarity[count:]
        # Of each passage the row of the sentence that suits the question best, or -1, and how well.
        self._best_row, self._best_sentence = np.full(count, -1), np.zeros(count, np.float32)
        has_any = np.diff(index.first_sentence) > 0
        first = index.first_sentence[:-1][has_any]
        self._best_sentence[has_any] = np.maximum.reduceat(self._sentence, first)
        rows = np.flatnonzero(self._sentence == self._best_sentence[index.passage_of_sentence])
        self._best_row[index.passage_of_sentence[rows]] = rows
        # A passage is as similar as its best sentence, or it as a whole.
        either = np.maximum(self._passage, self._best_sentence)
        self._best = np.where(self._best_row >= 0, either, self._passage)
        # [2 x pairs of joined names, passages] whether the title is the left name of a pair, for
        # all pairs, then whether it is the right one.
        sides = [names for side in zip(*question.joined) for names in side]
        titled = [_dense(index.passages_titled, names).any(0) for names in sides]
        self._titled = np.array(titled, bool).reshape(len(sides), count)
        like = self._best, self._passage, self._titled.any(0)
        self.first = np.stack([*self._sums(self._has), *like], 1)

    def best_sentence(self, passage: int) -> tuple[int, int] | None:
        """Start and end, in a passage's text, of its best-suited sentence; None without any."""
        row = int(self._best_row[passage])
        if row < 0:
            return None
        start, end = self.index.sentence(row)
        return start, start + len(self.index.texts[passage][start:end].rstrip())

    def begin(self, probabilities: np.ndarray) -> None:
        """Notes the probabilities of first passages [passages], of which the best are the roots."""
        self.probabilities, self.roots = probabilities, best(probabilities, _ROOTS)
        self._sources = np.zeros(0, np.int64)
        self._links: Links | None = None

    def candidates(self, chains: np.ndarray, follow: bool = True) -> Candidates:
        """What can come after chains [n, length] of passages; with `follow`, also over links."""
        sources = np.pad(chains, ((0, 0), (1, 0)), constant_values=QUESTION)
        sources = sources if follow else sources[:, :1]
        links, count = self._links_of(np.unique(sources)), len(self.probabilities)
        begin = np.searchsorted(links.previous, sources.ravel())
        end = np.searchsorted(links.previous, sources.ravel(), 'right')
        source, link = ranges(begin, end - begin)
        which, way = ranges(links.first[link], links.counts[link])
        chain, link, passages = source[which] // sources.shape[1], link[which], links.passages[way]
        fresh = np.logical_and.reduce([passages != column[chain] for column in chains.T])
        chain, link, way, passages = chain[fresh], link[fresh], way[fresh], passages[fresh]
        pairs, pair = np.unique(chain * count + passages, return_inverse=True)
        of, passages = np.divmod(pairs, count)
        # By np.take, which is twice as fast as indexing columns.
        covered = self._has[:, chains].max(-1)
        gained = np.maximum(self._has.take(passages, 1) - covered.take(of, 1), 0)
        words, named, titled = self._sums(gained)
        most = np.zeros(len(chains), np.float32)
        np.maximum.at(most, of, words)
        share = words / (most[of] + 0.02)
        other_side = np.roll(self._titled, len(self._titled) // 2, 0)
        joined = (other_side[:, chains].any(-1).take(of, 1) & self._titled.take(passages, 1)).any(0)
        like = self._best[passages], self._passage[passages], joined
        gains = np.stack([words, share, named, titled, *like])
        at = links.ends[way]
        uncovered = self._in_sentence.take(at, 1) - covered[: self._ends[0]].take(chain, 1)
        target = np.where(at >= 0, self._sentence[at] - self._best_sentence[links.passages[way]], 0)
        ends = np.stack([target, np.maximum(uncovered, 0).sum(0), np.zeros(len(way))])
        return Candidates(of, passages, gains, pair, link, ends, links)

    def with_relations(self, found: Candidates) -> Candidates:
        """Candidates with what passages say of the entities; not in `candidates`, as it is slow."""
        if self._relations is None or not len(asked := self._asked_relations):
            return found
        entities, ends = found.links.entities[found.link], found.ends.copy()
        linked = np.flatnonzero(entities >= 0)
        at = found.passages[found.pair][linked], entities[linked]
        ends[-1, linked] = self._relations.closeness('topic', *at, asked) - _USUAL
        return found._replace(ends=ends)

    def _links_of(self, sources: np.ndarray) -> Links:
        """The links out of passages, rising, or from the `QUESTION`, and of earlier ones."""
        new, links = np.setdiff1d(sources, self._sources, assume_unique=True), self._links
        if links is None or len(new):
            found = self._find_links(new)
            links = found if links is None else links.and_also(found)
            self._links, self._sources = links, np.concatenate([self._sources, new])
        return links

    def _find_links(self, sources: np.ndarray) -> Links:
        """The links out of passages, rising, or from the `QUESTION`."""
        index, passages = self.index, sources[sources != QUESTION]
        topics = index.title_entity[passages].astype(np.int64)
        counts = np.diff(index.first_sentence)
        which, rows = ranges(index.first_sentence[passages], counts[passages])
        of, places = _entries(index.entities_of_sentence, rows)
        source, entity, row = which[of], index.entities_of_sentence.indices[places], rows[of]
        # Of each entity the sentence that suits the question best.
        order = np.lexsort((row, -self._sentence[row], entity, source))
        pairs = source[order].astype(np.int64) * index.num_entities + entity[order]
        at = order[np.unique(pairs, return_index=True)[1]]
        at = at[entity[at] != topics[source[at]]]
        named, about = (passages[source[at]], entity[at], row[at]), np.flatnonzero(topics >= 0)
        of_titles = passages[about], topics[about], np.full(len(about), -1)
        parts = [
            self._through('to_title', *named, index.passages_titled),
            self._through('from_title', *of_titles, index.passages_naming),
            self._through('shared', *named, index.passages_naming),
        ]
        if QUESTION in sources:
            parts.append(self._direct())
        previous, entities, sentences, quantities, counts, to, ends = (
            np.concatenate(column, -1) for column in zip(*parts)
        )
        if self._relations is not None:
            linked = entities >= 0
            quantities[_COLUMN['relation'], linked] = self._relations.closeness(
                'target', previous[linked], entities[linked], self._asked_relations
            )
        return Links(
            previous, entities, sentences, quantities, np.cumsum(counts) - counts, counts, to, ends
        ).by_previous()

    def _direct(self) -> tuple[np.ndarray, ...]:
        """Links from the question to passages that suit it alone; in the form of `_through`."""
        quantities = np.zeros((len(_OF_LINK), len(self.roots)))
        quantities[_COLUMN['direct']] = 1
        quantities[_COLUMN['prior']] = np.log(self.probabilities[self.roots] + 1e-12)
        none = np.full(len(self.roots), -1)
        previous, counts = np.full_like(none, QUESTION), np.ones_like(none)
        return previous, none, none, quantities, counts, self.roots, none

    def _through(
        self,
        link: Link,
        previous: np.ndarray,
        entities: np.ndarray,
        sentences: np.ndarray,
        table: sp.csc_matrix,
    ) -> tuple[np.ndarray, ...]:
        """Links of passages through entities named by sentences, to passages in table columns.

        Returns the columns of `Links`, without `first`, in its order.
        """
        few = table.indptr[entities + 1] - table.indptr[entities] <= _MAX_SPREAD
        previous, entities, sentences = previous[few], entities[few], sentences[few]
        which, places = _entries(table, entities)
        passages = table.indices[places]
        other = passages != previous[which]
        places, passages = places[other], passages[other]
        counts = np.bincount(which[other], minlength=len(entities))
        named, quantities = sentences >= 0, np.zeros((len(_OF_LINK), len(entities)))
        quantities[_COLUMN[link]] = 1
        quantities[_COLUMN['rarity']] = self._idf[entities]
        quantities[_COLUMN['spread']] = np.log(np.maximum(counts, 1))
        quantities[_COLUMN['asked']] = np.isin(entities, self._asked)
        best = self._best_sentence[previous[named]]
        quantities[_COLUMN['source'], named] = self._sentence[sentences[named]] - best
        ends = self._best_row[passages] if link == 'to_title' else self._best_naming(places)
        return previous, entities, sentences, quantities, counts, passages, ends

    def _best_naming(self, places: np.ndarray) -> np.ndarray:
        """For entries of `passages_naming` the best-suited sentence (row) that names the entity."""
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

    def _sums(self, has: np.ndarray) -> tuple[np.ndarray, ...]:
        """Words, named and titled, each [n], of columns like those of `_has`."""
        return tuple(part.sum(0) for part in np.split(has, self._ends))


def _entries(
    table: sp.csc_matrix | sp.csr_matrix, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The entries of a table's columns (rows, if stored so): each one's in `columns`, its place."""
    starts = table.indptr[columns].astype(np.int64)
    return ranges(starts, table.indptr[np.asarray(columns) + 1] - starts)


def _dense(table: sp.csc_matrix, columns: Sequence[int] | np.ndarray) -> np.ndarray:
    """Columns of a table, [columns, rows] float32."""
    columns = np.asarray(columns, np.int64)
    found = np.zeros((len(columns), table.shape[0]), np.float32)
    which, places = _entries(table, columns)
    found[which, table.indices[places]] = table.data[places]
    return found


def best(scores: np.ndarray, k: int) -> np.ndarray:
    """The places of the k highest scores, highest first; equal ones by place."""
    if k < len(scores):
        places = np.flatnonzero(scores >= np.partition(scores, len(scores) - k)[len(scores) - k])
        return places[np.argsort(-scores[places], kind='stable')[:k]]
    return np.argsort(-scores, kind='stable')
