"""Concepts: nouns by which texts say what their subjects are, as in "is a 1979 horror film".

Names alone do not answer 'what genre is it' or 'what was her profession'. Words become concepts
where a definition is the evidence: its nouns, and what stands before them if several documents are
defined by that word.
"""

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from opql_jax.corpus.definitions import definition
from opql_jax.corpus.linking import DROP_FROM
from opql_jax.corpus.spans import Span
from opql_jax.corpus.words import word_list

CONCEPT = 'concept'
# Fewest documents that a word other than the noun must define.
_DOCUMENTS = 3
# Two words are one concept if more than this share of what either defines is defined by both.
_TOGETHER = 0.5
# A concept of a larger share of many documents says nothing about any of them.
_TOO_FREQUENT = 0.5
_AFTER_NOUN = re.compile(r',|\s+(?:and|or)\b')
_NO_CONCEPTS = word_list('no_concepts')

_Place = tuple[int, int]


def find_concepts(texts: Sequence[str], names: Sequence[Sequence[Span]]) -> list[list[Span]]:
    """The concepts that define the subjects of texts with names: of each by start, disjoint."""
    phrases = [list(definition(t)) if spans else [] for t, spans in zip(texts, names, strict=True)]
    words = [list(_common(t, phrase, spans)) for t, phrase, spans in zip(texts, phrases, names)]
    whole = _documents(texts, words)
    words = [list(_split(text, places, whole)) for text, places in zip(texts, words)]
    single = _documents(texts, words)
    double = _documents(texts, (_neighbours(*row) for row in zip(texts, words)))
    either = lambda pair: max(single[word] for word in pair.split())
    often = {pair: count for pair, count in double.items() if count >= _DOCUMENTS}
    joined = {pair: count for pair, count in often.items() if count > _TOGETHER * either(pair)}
    documents = single | joined
    most = _TOO_FREQUENT * len(texts) if len(texts) >= DROP_FROM else len(texts)
    found = []
    for text, phrase, places in zip(texts, phrases, words):
        nouns = {end for _, end in phrase if end == phrase[-1][1] or _AFTER_NOUN.match(text, end)}
        found.append([])
        for start, end in _merged(text, places, joined):
            least = 1 if end in nouns else _DOCUMENTS
            if least <= documents[name_of(text[start:end])] <= most:
                found[-1].append(Span(start, end, CONCEPT))
    return found


def name_of(surface: str) -> str:
    """The common form of a concept's spellings: 'science fiction' of 'science-fiction'."""
    return surface.replace('-', ' ')


def _documents(
    texts: Sequence[str], places: Iterable[Iterable[_Place]]
) -> collections.Counter[str]:
    """Counts the texts that have each of the words at these places."""
    counts: collections.Counter[str] = collections.Counter()
    for text, of_text in zip(texts, places):
        counts.update({name_of(text[start:end]) for start, end in of_text})
    return counts


def _common(text: str, phrase: Sequence[_Place], names: Sequence[Span]) -> Iterator[_Place]:
    """The words of a definition that are in lower case, and no part of a name."""
    for start, end in phrase:
        is_concept = text[start:end].islower() and text[start:end] not in _NO_CONCEPTS
        if is_concept and not any(name.start < end and start < name.end for name in names):
            yield start, end


def _split(
    text: str, places: Sequence[_Place], documents: collections.Counter[str]
) -> Iterator[_Place]:
    """Splits 'comedy-drama' if each of its parts alone defines as many documents."""
    for start, end in places:
        parts = text[start:end].split('-')
        whole = documents[name_of(text[start:end])]
        if len(parts) > 1 and all(documents[part] >= whole for part in parts):
            for part in parts:
                yield start, start + len(part)
                start += len(part) + 1
        else:
            yield start, end


def _neighbours(text: str, places: Sequence[_Place]) -> Iterator[_Place]:
    """Pairs of words with only a space or hyphen between them."""
    for (start, before), (after, end) in itertools.pairwise(places):
        if text[before:after] in (' ', '-'):
            yield start, end


def _merged(text: str, places: Sequence[_Place], joined) -> Iterator[_Place]:
    """Merges pairs of words that are one concept."""
    neighbours = _neighbours(text, places)
    pairs = {start: end for start, end in neighbours if name_of(text[start:end]) in joined}
    last = 0
    for start, end in places:
        if start >= last:
            last = pairs.get(start, end)
            yield start, last
