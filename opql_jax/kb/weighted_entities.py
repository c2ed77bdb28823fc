"""What answers and sets share: entities, their sentences, as text, table and in a notebook."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.terminal import one_line
from opql_jax.corpus.entities import UNKNOWN_KIND
from opql_jax.kb import path_graph
from opql_jax.kb.answer_record import path_record
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact, Path

# Entities that a notebook shows, and that its drawing has paths of.
_SHOWN, _DRAWN = 10, 5
# Facts that are looked at for each passage that is wanted: many may be of one.
_LOOKED_AT = 8


class Member(NamedTuple):
    """An entity with its weight in 0 .. 1.

    Attributes:
        kind: 'person', 'place' or another that `EntityVocab.kinds` has.
        id: its row in the vocabulary; below 0 for words that are no entity, see `Answer.phrases`.
        probability: that it is a right answer; None in a set, and where a trained model answers.
    """

    name: str
    weight: float
    kind: str
    id: int
    probability: float | None = None


class Passage(NamedTuple):
    """A passage that facts were read in: the id of its document, its title and text."""

    document: str
    title: str
    text: str


class WeightedEntities(abc.ABC):
    """Weighted entities, best first; iterated over, each is a `Member`.

    Attributes:
        store: of the knowledge base that has them.
        entities: [n] entity ids.
        weights: [n] float32, falling.
        probabilities: [n] float32, see `Member`; or None.
        asked: the question or query that they answer.
        is_sure, is_by_sentences, notes: see `Answer`; a set has none of these.
    """

    store: FactStore
    entities: np.ndarray
    weights: np.ndarray
    probabilities: np.ndarray | None = None

    @property
    @abc.abstractmethod
    def asked(self) -> str: ...

    @property
    def is_sure(self) -> bool | None:
        return None

    @property
    def is_by_sentences(self) -> bool:
        return False

    @property
    def notes(self) -> Sequence[str]:
        return ()

    @abc.abstractmethod
    def paths(self, entity: str | int, most: int = 3) -> list[Path]:
        """The best paths to an entity (name or id), heaviest first; none if no fact leads there.

        `most` is for each way in which it was found. InputError: an unknown or ambiguous name.
        """

    def __iter__(self) -> Iterator[Member]:
        entities, weights = self.entities.tolist(), self.weights.tolist()
        known = None if self.probabilities is None else self.probabilities.tolist()
        for entity, weight, probability in zip(entities, weights, known or [None] * len(weights)):
            kind = self.store.vocab.kinds[entity] if entity >= 0 else UNKNOWN_KIND
            yield Member(self.name_of(entity), weight, kind, entity, probability)

    def name_of(self, entity: int) -> str:
        """The name of one of the entities."""
        return self.store.vocab.names[entity]

    def __len__(self) -> int:
        return len(self.entities)

    @property
    def names(self) -> list[str]:
        """The names of the entities."""
        return [member.name for member in self]

    def passages(self, most: int = 5) -> list[Passage]:
        """The first passages in which the best entities' best paths were read."""
        facts = (fact for member in self for path in self.paths(member.id, 1) for fact in path)
        read_in = (fact.passage for fact in itertools.islice(facts, _LOOKED_AT * most))
        numbers = dict.fromkeys(number for number in read_in if number is not None)
        rows = map(self.store.prepared.passage, list(numbers)[:most])
        return [Passage(row['doc_id'], row['title'], row['text']) for row in rows]

    def explain(self, entity: str | int | None = None, top: int = 5) -> str:
        """Why one entity is among these, or each of the `top` best: its paths, a fact a line.

        Before each of the best stands its probability, or its weight if it has none.
        """
        if entity is not None:
            return _indented(self.paths(entity)) or 'no fact leads there'
        members = itertools.islice(self, top)
        return '\n'.join(
            f'{_said(member)} {one_line(member.name)}\n{_indented(self.paths(member.id, 1))}'
            for member in members
        )

    def to_record(self, top: int = 5) -> dict[str, Any]:
        """The JSON form of the `top` best, for all interfaces: see `answer_record.SCHEMA`."""
        record: dict[str, Any] = {'question': self.asked}
        if self.is_sure is not None:
            record['sure'] = self.is_sure
        if self.is_by_sentences:
            record['by_sentences'] = True
        if notes := self.notes:
            record['note'] = '\n'.join(notes)
        return record | {'answers': list(map(self._record_of, itertools.islice(self, top)))}

    def _record_of(self, member: Member) -> dict[str, Any]:
        record: dict[str, Any] = {'entity': member.name}
        if member.id >= 0:  # else these are words of the text that name no entity
            record['key'] = self.store.vocab.keys[member.id]
        record |= {'kind': member.kind, 'weight': round(member.weight, 4)}
        if member.probability is not None:
            record['probability'] = round(member.probability, 4)
        path = next(iter(self.paths(member.id, 1)), ())
        return record | {'path': path_record(self.store, path)}

    @abc.abstractmethod
    def to_text(self, top: int = 5) -> str:
        """The `top` best as lines of text, with what to know about them."""

    def to_pandas(self):
        """A pandas.DataFrame with a row for each entity, and where its best path was read."""
        try:
            import pandas as pd  # an extra
        except ImportError as error:
            raise InputError("to_pandas needs pandas: pip install 'opql_jax[app]'") from error
        rows = []
        for member in self:
            key = self.store.vocab.keys[member.id] if member.id >= 0 else None
            fact = self._last_fact(member)
            told = fact.sentence, fact.title, fact.document
            rows.append((member.name, key, member.kind, member.weight, member.probability, *told))
        columns = 'entity key kind weight probability sentence title document'.split()
        return pd.DataFrame(rows, columns=columns)

    def _last_fact(self, member: Member) -> Fact:
        paths = [path for path in self.paths(member.id, 1) if path]
        return paths[0][-1] if paths else Fact('', member.name, member.weight)

    def _repr_html_(self) -> str:
        shown = list(itertools.islice(self, _SHOWN))
        facts = [self._last_fact(member) for member in shown]
        rows = ''.join(
            f'<tr><td>{escape(member.name)}</td><td>{escape(member.kind)}</td><td>'
            f'{member.weight:.3f}</td><td style="text-align:left">{_marked(fact)}</td></tr>'
            for member, fact in zip(shown, facts)
        )
        head = ''.join(f'<th>{column}</th>' for column in ('entity', 'kind', 'weight', 'read in'))
        more = f'<p>… and {len(self) - len(shown)} more</p>' if len(self) > len(shown) else ''
        drawn = [path for member in shown[:_DRAWN] for path in self.paths(member.id, 1)]
        graph = path_graph.draw(drawn)
        return (
            f'<div><div style="overflow-x:auto">{graph}</div><table><thead><tr>{head}</tr></thead>'
            f'<tbody>{rows}</tbody></table>{more}</div>'
        )


def _said(member: Member) -> str:
    known = member.probability
    return f'{member.weight:.3f}' if known is None else f'{known:.2f}'


def _indented(paths: list[Path]) -> str:
    facts = ((number, fact) for path in paths for number, fact in enumerate(path))
    return '\n'.join(f'{"  " if number else "- "}{fact}' for number, fact in facts)


def _marked(fact: Fact) -> str:
    pieces = ((escape(text), role) for text, role in fact.pieces())
    said = ''.join(f'<mark>{text}</mark>' if role else text for text, role in pieces)
    return said if fact.title is None else f'{said} <em>({escape(fact.title)})</em>'
