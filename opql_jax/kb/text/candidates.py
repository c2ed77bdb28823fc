"""Candidate answers and their features, as one table.

Candidates are entities that relations lead to, and places that the reader finds in passages;
`kb.calibration` turns the features, for and against, into one probability.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.calibration import CERTAIN, FEATURES, LEAST, log_odds
from opql_jax.kb.text.asked_for import is_year
from opql_jax.kb.text.word_lists import any_of
from opql_jax.models.reader import Reading, Span
from opql_jax.retrieval.words import words_of

# Words of an answer that few have more of.
_MANY_WORDS = 6
# What two places share that are one answer, see `_overlap`.
_OVERLAP = 0.5
# What may join names, and what alone stands between those of a list.
_LISTS = re.compile(r', | & |\band\b|\bor\b')
_YEAR = re.compile(r'\b\d{4}\b')
# Characters between a place and the region it is in: of 'Rome, Italy'.
_IN_REGION = len(', ')
# The share of what was read of the region that counts for the place.
_OF_REGION = 0.75
# A date, and what may stand beside it.
_DATE = re.compile(
    rf'(?:\d{{1,4}}(?!\d)(?:st|nd|rd|th)?|{any_of("months")}'
    r'|[Ss]pring|[Ss]ummer|[Aa]utumn|[Ww]inter|early|late|mid|about|around|in|on'
    r'|the|of|[\s,.-])+'
)
# What stands before a name, and how a text goes on after one, that alone is likely to answer.
_SMALL = (
    r'(?!(?:of|in|at|by|with|from|for|to|and|or|than|not|near|outside|without|against|before|after'
    r'|under|over|between|like|son|daughter|wife|husband)\b)'
    r"[a-z'’-]+ "
)
_CALLED = re.compile(
    rf'(?:{_SMALL}){{0,4}}?(?:{_SMALL}|(?:[A-Z]\w+ )?(?:city|county|district|hamlet|island|parish'
    r'|port|province|region|state|suburb|town|village) of )?'
)
_GOES_ON = re.compile(r'$|,|\s(?:and|who|whose|which|where|that|is|was)\b')
_JOINS = re.compile(r'(?:[\s,;&]|\b(?:and|or|the)\b)+')


class PathFeatures(NamedTuple):
    """Features of the best path that following relations found; all 0 if there is none.

    Attributes:
        fit: how well its facts fit their steps: cosine plus bonuses, the mean over hops.
        sentences: 1 if sentences like the question were searched, because no name in it leads to an
            answer.
        linked: 1 if it begins at such sentences, or at an entity whose full name the question has.
        length: words of the question beyond a few, without its names.
    """

    fit: float = 0.0
    sentences: float = 0.0
    linked: float = 0.0
    length: float = 0.0


class Evidence(NamedTuple):
    """The passages that retrieval finds for a question, and what was read in them.

    Attributes:
        passages: their numbers, best first.
        before: [n] for each the passage from which it was reached, or -1.
        named: of each the entities that it names.
        reading: of the reader, whose spans are characters of the passages' text; below 0 those of
            the title.
        texts: of the spans of the reading.
        entities: of these the entities whose mentions they are, or -1.
        step: what was read for the last step of a question of several relations, see `with_step`;
            None of another question.
        share: of the step's topic in what the step before it found.
    """

    passages: list[int]
    before: np.ndarray
    named: Sequence[np.ndarray]
    reading: Reading
    texts: Sequence[str]
    entities: Sequence[int]
    step: Evidence | None = None
    share: float = 0.0

    @property
    def unanswered(self) -> float:
        """The probability that the passages answer neither the question nor its last step."""
        return min(each.reading.unanswered for each in (self, self.step) if each)


def with_step(evidence: Evidence, step: Evidence, share: float, before: int) -> Evidence:
    """What was read for a question, with what was read for its last step: the passages of both.

    Args:
        evidence: of the question.
        step: of the question that its last step is, about what the step before found.
        share: of that in what the step before found.
        before: the passage that states it, from which those of the step were reached.
    """
    added = [i for i, number in enumerate(step.passages) if number not in evidence.passages]
    passages = [*evidence.passages, *(step.passages[i] for i in added)]
    reached = np.where(step.before < 0, before, step.before)[added]
    reached[[step.passages[i] == before for i in added]] = -1
    spans = [
        span._replace(passage=passages.index(step.passages[span.passage]))
        for span in step.reading.spans
    ]
    return evidence._replace(
        passages=passages,
        before=np.concatenate([evidence.before, reached]),
        named=[*evidence.named, *(step.named[i] for i in added)],
        step=step._replace(passages=passages, reading=step.reading._replace(spans=spans)),
        share=share,
    )


@dataclasses.dataclass
class Candidate:
    """A candidate answer.

    Attributes:
        text: as it is shown.
        entity: its id, or -1 for words that name no entity.
        spans: where the reader found it, likeliest first.
        is_seen: whether it stands in a passage that the reader saw.
        read: the reader's probability; with a last step the mean of the question's and the step's,
            the latter times the share of the step's topic.
        followed: its share of the weight that following found.
        fits: 1 if it is of the kind that the question asks for, -1 if not, 0 if unknown.
    """

    text: str
    entity: int
    spans: list[Span] = dataclasses.field(default_factory=list)
    is_seen: bool = False
    read: float = 0.0
    followed: float = 0.0
    fits: float = 0.0


def read_candidates(evidence: Evidence) -> list[Candidate]:
    """The candidates that were read, likeliest first.

    Spans that overlap, and texts that fold alike or name one entity, are one candidate; a name only
    if it is most of the likeliest span.
    """
    found: list[Candidate] = []
    of_key: dict[object, Candidate] = {}
    of_steps = [(evidence, 1.0)]
    if evidence.step is not None:
        of_steps = [(evidence, 0.5), (evidence.step, 0.5 * evidence.share)]
    for each, weight in of_steps:
        for span, text, entity in zip(each.reading.spans, each.texts, each.entities):
            key = entity if entity >= 0 else fold(text)
            same = of_key.get(key) or next(
                (one for one in found if _is_same(one, span, text, entity)), None
            )
            if same is None:
                same = Candidate(text, entity, is_seen=True)
                found.append(same)
            elif entity >= 0 > same.entity and text[0].isupper():
                same.text, same.entity = text, entity
            of_key.setdefault(key, same)
            same.spans.append(span)
            same.read += weight * span.probability
    found = _without_lists(found)
    for one in found:
        one.spans.sort(key=lambda span: -span.probability)
    return sorted(found, key=lambda one: -one.read)


def _without_lists(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates without lists: 'Ann Low and York' counts for each of its names.

    A name with a description, 'the smith Ann Low, who came from York', counts for the name.
    """
    left = []
    for one in found:
        listed = [] if one.entity >= 0 else [other for other in found if _has(one, other)]
        told_of = next((other for other in listed if _tells_of(one.text, other.text)), None)
        rest = one.text
        for other in listed:
            rest = rest.replace(other.text, '', 1)
        if len(listed) > 1 and _JOINS.fullmatch(rest):
            for other in listed:
                other.read += one.read
        elif told_of is not None:
            told_of.read += one.read
        else:
            left.append(one)
    return left


def _tells_of(text: str, name: str) -> bool:
    """Whether a text is a name with a description before or after it."""
    called, found, rest = text.partition(name)
    return bool(found and found[0].isupper() and _CALLED.fullmatch(called) and _GOES_ON.match(rest))


def _has(one: Candidate, other: Candidate) -> bool:
    """Whether a span of a candidate contains one of a name."""
    pairs = itertools.product(one.spans, other.spans if other.entity >= 0 else ())
    return any(a.passage == b.passage and a.start <= b.start and b.end <= a.end for a, b in pairs)


def _is_same(one: Candidate, span: Span, text: str, entity: int) -> bool:
    """Whether a span belongs to a candidate: a name is most of its first span, others overlap."""
    if entity >= 0 and one.entity >= 0:
        return False
    if entity >= 0:  # of 'York sold coal' York is not the coal that was read first
        return _overlap(span, one.spans[0], max)
    which = max if one.entity >= 0 and _LISTS.search(text) else min
    return any(_overlap(span, other, which) for other in one.spans)


def _overlap(a: Span, b: Span, which: Callable[[int, int], int]) -> bool:
    """Whether two spans share most of the shorter (min) or of the longer one (max)."""
    shared = min(a.end, b.end) - max(a.start, b.start)
    return a.passage == b.passage and shared > _OVERLAP * which(a.end - a.start, b.end - b.start)


def add_followed(
    found: list[Candidate], evidence: Evidence, followed: Iterable[tuple[int, str, float]]
) -> None:
    """Adds the entities that following found, with their names and shares of weight."""
    of_entity = {one.entity: one for one in found if one.entity >= 0}
    for entity, name, share in followed:
        if (one := of_entity.get(entity)) is None:
            one = Candidate(name, entity, is_seen=any(entity in named for named in evidence.named))
            found.append(one)
        one.followed = share


def towns_first(found: list[Candidate], is_place: Callable[[Candidate], bool]) -> None:
    """Gives most of what was read of a region to the place before it, as in 'Rome, Italy'."""
    places = [
        (one, [span for span in one.spans if span.end - span.start == len(one.text)])
        for one in found
        if is_place(one)
    ]
    moves = []
    for (town, names), (region, after) in itertools.permutations(places, 2):
        pairs = itertools.product(names, after)
        if any(a.passage == b.passage and b.start - a.end == _IN_REGION for a, b in pairs):
            moves.append((town, region, _OF_REGION * region.read))
    for town, region, moved in moves:
        left = min(moved, region.read)
        town.read, region.read = town.read + left, region.read - left
    found.sort(key=lambda one: -one.read)


def as_years(found: list[Candidate]) -> list[Candidate]:
    """The candidates of a question that asks for a year: dates count as their years."""
    of_year: dict[str, Candidate] = {}
    for one in sorted(found, key=lambda one: one.entity):  # an entity before mere words
        if is_year(one.text):
            of_year[one.text] = one
    left = []
    for one in found:
        years = _YEAR.findall(one.text)
        if len(years) != 1 or not _DATE.fullmatch(one.text):
            left.append(one)
        elif (same := of_year.get(years[0], one)) is not one:
            _join(same, one)
        else:
            if one.spans and one.text != years[0]:
                one.text, one.entity = years[0], -1
                of_year[one.text] = one
            left.append(one)
    return left


def without_parts(found: list[Candidate], is_value: Callable[[Candidate], bool]) -> list[Candidate]:
    """The candidates without values inside likelier spans: 'half' counts for 'over half'."""
    left = []
    for one in found:
        longer = [
            other
            for other in found
            if is_value(one)
            and other.entity < 0
            and other.read > one.read
            and (_has(other, one) if one.spans else _is_within(one.text, other.text))
        ]
        if longer:
            _join(max(longer, key=lambda other: other.read), one)
        else:
            left.append(one)
    return left


def _is_within(words: str, text: str) -> bool:
    """Whether a text has some words."""
    return re.search(rf'(?<!\w){re.escape(words)}(?!\w)', text) is not None


def _join(one: Candidate, other: Candidate) -> None:
    """Adds the evidence for another candidate to one."""
    one.spans += other.spans
    one.read += other.read
    one.followed += other.followed


def features(candidates: Sequence[Candidate], evidence: Evidence, path: PathFeatures) -> np.ndarray:
    """Features [n, len(FEATURES)] float64 of a question's candidates; `path` is of the best one."""
    rows = followed_features(
        np.array([one.followed for one in candidates]),
        np.array([one.fits for one in candidates]),
        path,
    )
    total = min(sum(one.read for one in candidates), 1.0)  # names of one list share no probability
    for one, row in zip(candidates, rows):
        values = {
            'read': log_odds(one.read),
            'read_share': one.read / max(total, LEAST),
            'long': len(words_of(one.text)) > _MANY_WORDS,
            'unanswered': log_odds(evidence.unanswered if one.is_seen else 0.0),
        }
        for name, value in values.items():
            row[FEATURES.index(name)] = value
    return rows


def followed_features(shares: np.ndarray, fits: np.ndarray, path: PathFeatures) -> np.ndarray:
    """Features [n, len(FEATURES)] float64 of what following alone found; the reader's are 0.

    Args:
        shares: [n] of the weight.
        fits: [n] 1 if a candidate is of the kind that the question asks for, -1 if not, 0 if
            unknown.
        path: of the best path.
    """
    rows = np.zeros((len(shares), len(FEATURES)))
    values = {name: np.where(shares > 0, value, 0) for name, value in path._asdict().items()}
    values |= {'share': np.clip(log_odds(shares), -CERTAIN, CERTAIN)}
    values |= {'kind': fits, 'other': fits < 0}
    for name, value in values.items():
        rows[:, FEATURES.index(name)] = value
    return rows
