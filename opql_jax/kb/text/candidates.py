"""What may answer a question: entities that relations lead to, and places that the reader finds in passages, as one table of features.

A candidate is an entity or a few words of the text. What speaks for it, and against it, are the features of which
`kb.calibration` makes one probability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opql_jax.corpus.name_resolution import fold
from opql_jax.kb.calibration import CERTAIN, FEATURES, LEAST, log_odds
from opql_jax.models.reader import Reading, Span

# What two places share, of the shorter one, that are one answer.
_OVERLAP = 0.5


class PathFeatures(NamedTuple):
    """What speaks for the best path of what following relations found; all are 0 if there is none.

    Attributes:
        fit: how well its facts fit their steps: cosine and what is added to it, the mean of the hops.
        sentences: 1 if sentences like the question were looked at, as no name in it leads to an answer.
        linked: 1 if it begins at such sentences, or at an entity whose whole name the question has.
        length: words of the question beyond a few, its names aside.
        hops: the relations that it takes after the first.
    """

    fit: float = 0.0
    sentences: float = 0.0
    linked: float = 0.0
    length: float = 0.0
    hops: float = 0.0


class Evidence(NamedTuple):
    """The passages that retrieval finds for a question, and what was read in them.

    Attributes:
        passages: their numbers, best first.
        before: [n] for each the passage from which it was reached, or -1.
        named: of each the entities that it names.
        reading: of the reader, whose spans are characters of the passages' text; below 0 those of the title.
        texts: of the spans of the reading.
        entities: of these the entities whose mentions they are, or -1.
    """

    passages: list[int]
    before: np.ndarray
    named: Sequence[np.ndarray]
    reading: Reading
    texts: Sequence[str]
    entities: Sequence[int]


@dataclasses.dataclass
class Candidate:
    """What may answer a question.

    Attributes:
        text: as it is shown.
        entity: its id, or -1 for words that name none.
        spans: where the reader found it, likeliest first.
        is_seen: whether one of the passages that the reader saw has it.
        read: its probability by the reader.
        followed: its share of the weight of what following found.
        fits: 1 if it is of the kind that is asked for, -1 if not, 0 if unknown.
    """

    text: str
    entity: int
    spans: list[Span] = dataclasses.field(default_factory=list)
    is_seen: bool = False
    read: float = 0.0
    followed: float = 0.0
    fits: float = 0.0


def read_candidates(evidence: Evidence) -> list[Candidate]:
    """What was read, likeliest first: places that overlap, and texts that fold alike or name one entity, are one candidate."""
    found: list[Candidate] = []
    of_key: dict[object, Candidate] = {}
    for span, text, entity in zip(evidence.reading.spans, evidence.texts, evidence.entities):
        key = entity if entity >= 0 else fold(text)
        same = of_key.get(key) or next((one for one in found if any(_overlap(span, other) for other in one.spans)), None)
        if same is None:
            same = Candidate(text, entity, is_seen=True)
            found.append(same)
        of_key.setdefault(key, same)
        same.spans.append(span)
        same.read += span.probability
    return sorted(found, key=lambda one: -one.read)


def _overlap(a: Span, b: Span) -> bool:
    shared = min(a.end, b.end) - max(a.start, b.start)
    return a.passage == b.passage and shared > _OVERLAP * min(a.end - a.start, b.end - b.start)


def add_followed(
    found: list[Candidate], evidence: Evidence, entities: Sequence[int], names: Sequence[str], shares: Sequence[float]
) -> None:
    """Adds what following found, entities with their names and shares of the weight, to candidates."""
    of_entity = {one.entity: one for one in found if one.entity >= 0}
    for entity, name, share in zip(entities, names, shares):
        if (one := of_entity.get(entity)) is None:
            one = Candidate(name, entity, is_seen=any(entity in named for named in evidence.named))
            found.append(one)
        one.followed = share


def features(candidates: Sequence[Candidate], evidence: Evidence, path: PathFeatures) -> np.ndarray:
    """The features of the candidates of a question, [n, len(FEATURES)] float64; `path` is what following found best."""
    rows = followed_features(np.array([one.followed for one in candidates]), np.array([one.fits for one in candidates]), path)
    total = sum(one.read for one in candidates)
    for one, row in zip(candidates, rows):
        values = {
            'read': np.log(max(one.read, LEAST)),
            'read_share': one.read / max(total, LEAST),
            'unanswered': log_odds(evidence.reading.unanswered if one.is_seen else 0.0),
        }
        for name, value in values.items():
            row[FEATURES.index(name)] = value
    return rows


def followed_features(shares: np.ndarray, fits: np.ndarray, path: PathFeatures) -> np.ndarray:
    """The features of what following alone found: [n, len(FEATURES)] float64, 0 for all that a reader says.

    `shares` [n] are of the weight, `fits` [n] says whether each is of the kind that is asked for (1, 0, -1), `path` what speaks for the best.
    """
    rows = np.zeros((len(shares), len(FEATURES)))
    values = {'share': np.clip(log_odds(shares), -CERTAIN, CERTAIN), 'kind': fits, 'other': fits < 0}
    for name, value in (values | {name: np.where(shares > 0, value, 0) for name, value in path._asdict().items()}).items():
        rows[:, FEATURES.index(name)] = value
    return rows
