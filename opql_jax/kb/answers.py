"""Answers: weighted entities, and traces that show what every hop found in the memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from opql_jax.core.errors import InputError
from opql_jax.core.terminal import hanging, one_line
from opql_jax.corpus.json_lines import short_repr
from opql_jax.corpus.question_linking import left_out_note
from opql_jax.corpus.questions import Question
from opql_jax.kb.ambiguous_names import notes_on_names
from opql_jax.kb.calibration import SURE
from opql_jax.kb.fact_store import FactStore
from opql_jax.kb.paths import Fact, Path, facts, read_path
from opql_jax.kb.text.candidates import Evidence
from opql_jax.kb.text.question_plans import Plan
from opql_jax.kb.weighted_entities import WeightedEntities
from opql_jax.models.reader import Span


@dataclasses.dataclass(frozen=True)
class Hop:
    """What one hop from one topic found in the memory, best first.

    Attributes:
        entities, weights: [n] ids of the entries' distinct targets, and float32 their total mass.
        entries, entry_weights: [k] ids of memory entries, and float32 the mass of each.
        null: the mass of the null entry (lambda of paper §4), which says that the memory does not
            have it; None for models without one.
    """

    entities: np.ndarray
    weights: np.ndarray
    entries: np.ndarray
    entry_weights: np.ndarray
    null: float | None = None


@dataclasses.dataclass(frozen=True)
class Answer(WeightedEntities):
    """The answer to one question: each `Member`, by falling weight, and what it rests on.

    Attributes:
        weights: [n] float32, falling: the share of the weight that reached each entity; of a
            language model, its probability.
        traces: for each topic of the question its hops; after them, if that was looked at, one hop
            over what the sentences most like the question say. Empty for a model without a memory.
        probabilities: [n] float32, falling: that each entity is a right answer, see `calibration`;
            several may be, or none. None where a trained model answers.
        plans: for each of `traces` the questions of one hop that its hops answered; empty where a
            trained model answers.
        phrases: the words of answers that are no entities, whose ids are -1, -2, ... in their
            order.
        evidence: the passages that were looked at, and what was read in them; None without a
            reader.
        read: for each id of an answer that the reader found its places, likeliest first.
        is_cut: whether this is what was found until a time limit (`core.time_limit`) passed.
        without_memory: [n] the entities that a language model would answer without its memory, best
            first; None for a follower.
        parts: the answers to the plain questions that a comparison, or a question of yes or no,
            rests on, see `comparison`.
        note: what was compared, or why the question is out of reach, in which case there are no
            probabilities; '' as a rule.
        store, question: of the knowledge base that answered, and what was asked; None in what a
            model gives to `VirtualKB.answer`, which sets them.
    """

    entities: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.int64))
    weights: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, np.float32))
    traces: tuple[tuple[Hop, ...], ...] = ()
    probabilities: np.ndarray | None = None
    plans: tuple[Plan, ...] = ()
    phrases: tuple[str, ...] = ()
    evidence: Evidence | None = dataclasses.field(default=None, repr=False, compare=False)
    read: Mapping[int, Sequence[Span]] = dataclasses.field(
        default_factory=dict, repr=False, compare=False
    )
    is_cut: bool = False
    without_memory: np.ndarray | None = None
    parts: tuple[Answer, ...] = ()
    note: str = ''
    store: FactStore = dataclasses.field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    question: Question = dataclasses.field(default=None, repr=False)  # type: ignore[assignment]

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The first of `traces`, which is all there is of a follower; no hops if there is none."""
        return self.traces[0] if self.traces else ()

    @property
    def is_by_sentences(self) -> bool:
        """Whether sentences like the question were used, as no topic led to what is asked for."""
        return self.question is not None and len(self.traces) > len(self.question.topics)

    @property
    def is_sure(self) -> bool | None:
        """Whether the best is right with a probability of `SURE`; None of a trained model."""
        if self.probabilities is None:
            return False if self.note else None
        return bool((self.probabilities[:1] >= SURE).any())

    def name_of(self, entity: int) -> str:
        """The name of one of `entities`, or the words of one that is none."""
        return self.store.vocab.names[entity] if entity >= 0 else self.phrases[-1 - entity]

    @property
    def bounds(self) -> list[str]:
        """What was left out to bound the work, in words; nothing as a rule."""
        return bounds(self.question.left_out if self.question is not None else (), self.is_cut)

    @property
    def asked(self) -> str:
        return self.question.text

    @property
    def notes(self) -> list[str]:
        """What to know: out of reach, bounded, ambiguous, unsure, or by sentences like it."""
        if len(self) and self.is_sure is not False:
            return self._caveats
        unsure = 'not sure: the text may not say' if len(self) else 'nothing was found'
        return [unsure, *self._caveats]

    @property
    def _caveats(self) -> list[str]:
        """All notes but how sure it is."""
        without_names = 'no name in the question leads to an answer'
        like_it = f'{without_names}: these are of the sentences most like it'
        told = [like_it if self.is_by_sentences else '', self.note, *self.bounds]
        return [*filter(None, told), *notes_on_names(self.store, self.question)]

    def to_text(self, top: int = 5) -> str:
        note = '; '.join(self._caveats)
        return (f'  ({note})\n' if note else '') + format_answer(self, top)

    def paths(self, entity: str | int, most: int = 3) -> list[Path]:
        if self.parts:  # all that is compared, one after the other
            firsts = [part.paths(int(part.entities[0]), 1)[:1] for part in self.parts if len(part)]
            return [path] if (path := tuple(chain(*chain(*firsts)))) else []
        entity = self._named(entity) if isinstance(entity, str) else entity
        followed = [
            self._path(hops, place)
            for hops in self.traces
            if hops
            for place in self._places(hops[-1], entity)[:most]
        ]
        read = [self._read(entity, span) for span in self.read.get(entity, ())[:most]]
        # What was read is shown with the hops that lead there, if it takes several.
        for place, (*before, fact) in enumerate(read):
            same = (path for path in followed if path[-1].passage == fact.passage)
            path = next((path for path in same if len(path) > 1), None)
            if path is not None and not before:
                followed.remove(path)
                read[place] = (*path[:-1], dataclasses.replace(path[-1], weight=fact.weight))
        return sorted([*read, *followed], key=lambda path: -path[-1].weight)

    def _read(self, entity: int, span: Span) -> Path:
        """Where the reader found an answer; before it the sentence that led to the passage."""
        assert self.evidence is not None  # that was read
        number = self.evidence.passages[span.passage]
        before = int(self.evidence.before[span.passage])
        return read_path(self.store, self.name_of(entity), number, before, span)

    def _named(self, name: str) -> int:
        """The id of an answer by its words, or of an entity by key or name; answers come first."""
        if name in self.phrases:
            return -1 - self.phrases.index(name)
        linker = self.store.linker
        means = linker.named(name)
        means = [entity for entity in means if entity in self.entities] or means
        if len(means) > 1:
            names = ', '.join(short_repr(linker.unique_name(entity)) for entity in means)
            several = f'{short_repr(name)} may be {len(means)} entities'
            raise InputError(f'{several}; write one of {names}')
        return means[0]

    def _places(self, hop: Hop, target: int) -> np.ndarray:
        """Where among the entries of a hop those of a target are."""
        memory = self.store.memory
        assert memory is not None  # the hop searched it
        return np.flatnonzero(memory.target[memory.rows(hop.entries)] == target)

    def _path(self, hops: tuple[Hop, ...], place: int) -> Path:
        """The path to an entry of the last hop, through the heaviest entries to its start.

        A language model may read what no hop before led to: there the path begins.
        """
        hop, memory = hops[-1], self.store.memory
        assert memory is not None
        chosen = slice(place, place + 1)
        (fact,) = facts(self.store, hop.entries[chosen], hop.entry_weights[chosen])
        if len(hops) == 1:
            return (fact,)
        (row,) = memory.rows(hop.entries[chosen])
        before = self._places(hops[-2], memory.topic[row])
        return (*self._path(hops[:-1], before[0]), fact) if len(before) else (fact,)


def bounds(left_out: Sequence[str], is_cut: bool) -> list[str]:
    """What bounded a question's work, in words: names left out, and a time limit."""
    cut = 'the time for an answer is over: this is what was found until then' if is_cut else ''
    return [told for told in (left_out_note(left_out), cut) if told]


def format_answer(answer: Answer, top: int = 5) -> str:
    """An answer as text.

    Over plain text how sure it is, and the answers of its record, each with where it was read. Of a
    trained model what each hop found.
    """
    is_plain, question = answer.is_sure is not None, answer.question
    lines = [] if answer.probabilities is None else [f'  {_confidence(answer)}']
    lines += _answer_lines(answer, top) if is_plain and len(answer) else ()
    for part in answer.parts:
        lines += [f'  {one_line(part.question.text)}', format_answer(part, top)]
    for (start, end), hops in zip(question.topics, () if is_plain else answer.traces):
        if len(answer.traces) > 1:
            lines.append(f'  [{one_line(question.text[start:end])}]')
        for number, hop in enumerate(hops, 1):
            is_answer = answer.without_memory is None and number == len(hops)
            lines.append(f'  hop {number}{" (answer)" if is_answer else ""}, by weight')
            lines += _hop_lines(answer.store, hop, top)
    if answer.without_memory is not None:
        lines.append('  answer, by weight')
        named = zip(answer.entities[:top], answer.weights)
        lines += [_entity_line(answer.name_of(entity), weight) for entity, weight in named]
    return '\n'.join(lines)


def _answer_lines(answer: Answer, top: int) -> Iterator[str]:
    """The best answers, as the record has them."""
    yield f'  answers, by {"weight" if answer.probabilities is None else "probability"}'
    for member in islice(answer, top):
        number = member.weight if member.probability is None else member.probability
        yield _entity_line(member.name, number)
        yield from map(_fact_line, next(iter(answer.paths(member.id, 1)), ()))


def _entity_line(name: str, number: float) -> str:
    return f'    {number:6.3f}  {one_line(name)}'


def _fact_line(fact: Fact) -> str:
    ends = ' → '.join(map(one_line, (fact.topic, fact.target)))
    title = '' if fact.title is None else f', in “{one_line(fact.title)}”'
    return f'{" " * 12}[{ends}{title}]  {hanging(fact.sentence or "", 14)}'.rstrip()


def _confidence(answer: Answer) -> str:
    """The best answer over plain text and its probability, or that it is not sure."""
    assert answer.probabilities is not None  # what answers over plain text gives them
    if not len(answer):
        return 'not sure: nothing was found'
    unsure = '' if answer.is_sure else 'not sure: at best '
    name, probability = one_line(answer.name_of(answer.entities[0])), answer.probabilities[0]
    return f'{unsure}{name}, with probability {probability:.2f}'


def _hop_lines(store: FactStore, hop: Hop, top: int) -> Iterator[str]:
    if hop.null is not None:
        yield _entity_line('(not in the memory)', hop.null)
    elif not len(hop.entities):
        yield '    nothing: no entry of the memory has these topics'
    assert store.memory is not None  # the hop searched it
    targets = store.memory.target[store.memory.rows(hop.entries)]
    for entity, weight in zip(hop.entities[:top], hop.weights):
        yield _entity_line(store.vocab.names[entity], weight)
        first = hop.entries[targets == entity][:1]
        yield from map(_fact_line, facts(store, first, np.ones(len(first))))
    if (more := len(hop.entities) - top) > 0:
        yield f'    … and {more} more of weight {hop.weights[top:].sum():.3f} in all'
