"""Entity linking by name, for corpora that carry no links."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import ahocorasick_rs

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab

# An entity in fewer texts than these is never dropped for its share of them: from a hundred on, the share is known to a tenth of
# itself (the standard error of a count is at most its root), while of three short texts two may well be about the same person.
DROP_FROM = 100

Span = tuple[int, int, int]  # start, end (code points, half-open), entity id


@dataclasses.dataclass(frozen=True)
class LinkedTexts:
    """What `MentionLinker.link_all` found.

    Attributes:
        mentions: for each text its mentions, as `MentionLinker.link` orders them.
        dropped: entity id -> share of the texts that mention it, for the entities left out.
    """

    mentions: list[list[Span]]
    dropped: dict[int, float]


class MentionLinker:
    """Finds the names and aliases of a vocabulary in text.

    A spelling matches exactly, case included. Both ends must be word ends: a letter or digit on either
    side rejects the match, and so does an apostrophe before it that follows a letter (the s of
    "film's"). Of the matches that remain, the leftmost wins and of those that start together the
    longest, so mentions do not overlap; only `nested` lets one lie inside another.
    """

    def __init__(self, vocab: EntityVocab, *, drop_above_rate: float = 1.0, nested: bool = False):
        """
        Args:
            vocab: where the spellings come from.
            drop_above_rate: in `link_all`, an entity mentioned in more than this share of the texts says
                nothing about any of them (a tag such as 'film') and loses its mentions, if they are at least
                `DROP_FROM`; 1 keeps all.
            nested: whether a match inside a kept one is a mention too, as 'comedy' in 'romantic comedy'. The outer
                one must begin with a lower-case letter: the words of a name ('Black' in 'Jack Black') are mostly no
                mentions of what they mean elsewhere. A match that overlaps a kept one partly stays out.
        """
        if not 0 < drop_above_rate <= 1:
            raise CorpusError(f'drop_above_rate: {drop_above_rate} is not in (0, 1]')
        self._rate, self._nested = drop_above_rate, nested
        self._entities = list(vocab.spellings.values())
        # All matches are asked for, not only the leftmost-longest ones: the automaton knows no word
        # ends, and a longest match that breaks a word would hide the shorter one that does not.
        self._automaton = ahocorasick_rs.AhoCorasick(list(vocab.spellings), matchkind=ahocorasick_rs.MatchKind.Standard)

    def link(self, text: str) -> list[Span]:
        """The mentions in one text, `(start, end, entity id)` by start, an outer one before those in it; none is dropped."""
        length = len(text)
        whole = []
        for spelling, start, end in self._automaton.find_matches_as_indexes(text, overlapping=True):
            if end < length and text[end].isalnum():
                continue
            if start:
                before = text[start - 1]
                if before.isalnum() or (before in "'\u2019" and start > 1 and text[start - 2].isalpha()):
                    continue
            whole.append((start, -end, spelling))
        whole.sort()
        mentions, around = [], []  # around: the kept matches that hold the present place, the innermost last
        for start, minus_end, spelling in whole:
            while around and around[-1][1] <= start:
                around.pop()
            if around and not (self._nested and -minus_end <= around[-1][1] and text[around[-1][0]].islower()):
                continue
            mentions.append((start, -minus_end, self._entities[spelling]))
            around.append(mentions[-1])
        return mentions

    def link_all(
        self,
        texts: Iterable[str],
        title_entities: Sequence[int] | None = None,
        earlier: tuple[Mapping[int, int], int] = ({}, 0),
    ) -> LinkedTexts:
        """Links every text and drops the entities that are in too many of them.

        Args:
            texts: the whole corpus, since the rate is over all of it; or all that was not linked before.
            title_entities: per text the entity it is about, or -1; that one is kept there at any rate.
            earlier: of the texts linked before, how many mention each entity, and how many there are.
        """
        linked = [self.link(text) for text in texts]
        titles = [-1] * len(linked) if title_entities is None else title_entities
        counts = collections.Counter(e for mentions in linked for e in {m[2] for m in mentions})
        before, total = earlier[0], earlier[1] + len(linked)
        counts = {e: n + before.get(e, 0) for e, n in sorted(counts.items())}
        dropped = {e: n / total for e, n in counts.items() if n >= DROP_FROM and n > self._rate * total}
        if dropped:
            linked = [[m for m in mentions if m[2] == title or m[2] not in dropped] for mentions, title in zip(linked, titles)]
        return LinkedTexts(linked, dropped)
