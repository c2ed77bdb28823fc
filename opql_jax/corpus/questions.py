"""Multi-hop questions about entities, and the JSON Lines files they are kept in.

One question a line:

    {"id": "q1", "question": "who founded Rome?", "topics": [[12, 16]], "entities": ["Rome"],
     "answers": ["Romulus"], "hops": 1}

`topics` are the `[start, end)` spans, in code points, of the entities that the question is about,
in order and disjoint; without the field they are the names of the vocabulary that the text
mentions. `entities` says which entity each topic is, or null; without the field it is the one that
the topic's text names. `answers`, `hops` (default 1), `type` (a label) and `via` (for each hop but
the last, the entities it should reach) are optional. Entities and answers are keys of a vocabulary,
or else names or aliases.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.json_lines import (
    check_object,
    check_string,
    errors_at,
    id_of,
    read_json_lines,
    short_repr,
    write_json_lines,
)
from opql_jax.corpus.linking import MentionLinker
from opql_jax.corpus.rejected import convert_lines

RELATION_SEPARATOR = ' > '
# A larger number is a mistake.
MAX_HOPS = 100
# Longest question, in characters.
LONGEST = 2000

T = TypeVar('T')


@dataclasses.dataclass(frozen=True)
class Question:
    """A question, the entities it is about and, if known, its answers.

    Attributes:
        topics: `(start, end)` of each topic in `text`, code points, by start, disjoint; none in
            plain words that name nothing, else at least one.
        entities: the id of each topic, -1 where it is unknown or not in the vocabulary.
        answers, unknown_answers: ids, each once; and those that the vocabulary does not have.
        type: a label; 'P27 > P36' names the relations that the question needs.
        via: for each hop but the last, the ids of the entities it should reach, -1 for those that
            the vocabulary does not have; empty where nobody knows.
        left_out, unknown: further names in `text`: no topics, as they are too many; those that the
            knowledge base's text does not have.
    """

    id: str
    text: str
    topics: tuple[tuple[int, int], ...]
    entities: tuple[int, ...]
    answers: tuple[int, ...] = ()
    unknown_answers: tuple[str, ...] = ()
    hops: int = 1
    type: str = ''
    via: tuple[tuple[int, ...], ...] = ()
    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def topic(self) -> tuple[int, int]:
        """The span of the first topic: all there is for a model that follows from one topic."""
        return self.topics[0]

    @property
    def topic_entity(self) -> int:
        """The entity id of the first topic, -1 if it is unknown or there is none."""
        return self.entities[0] if self.entities else -1

    @property
    def relations(self) -> tuple[str, ...]:
        """The relations that its type names."""
        return tuple(filter(None, self.type.split(RELATION_SEPARATOR)))

    def needs(self, relations: Collection[str]) -> bool:
        """Whether its type names one of some relations."""
        return not set(relations).isdisjoint(self.relations)


def read_questions(
    path: str | os.PathLike,
    vocab: EntityVocab,
    rejected_path: str | os.PathLike | None = None,
    max_reject_fraction: float = 0.0,
) -> list[Question]:
    """The questions of a file in order; InputError names file, line and field, or no question."""
    linker, seen = None, {}

    def convert(number: int, record) -> Question:
        nonlocal linker
        name = _check(record, seen)
        if 'topics' in record:
            topics = tuple((start, end) for start, end in record['topics'])
            own_names = [record['question'][start:end] for start, end in topics]
            entities = [n and vocab.get(n) for n in record.get('entities') or own_names]
        else:
            linker = linker or MentionLinker(vocab)
            spans = linker.link(record['question'])
            topics = tuple((start, end) for start, end, _ in spans)
            entities = [entity for _, _, entity in spans]
            if not spans:
                raise InputError('topics: missing, and the text mentions no name: mark its topic')
        seen[name] = f'line {number}'
        answers, unknown_answers = look_up_answers(record.get('answers', ()), vocab)
        via = tuple(_ids(n and vocab.get(n) for n in names) for names in record.get('via', ()))
        asked = name, record['question'], topics, _ids(entities)
        hops, label = record.get('hops', 1), record.get('type', '')
        return Question(*asked, answers, unknown_answers, hops, label, via)

    questions = convert_lines(path, convert, rejected_path, max_reject_fraction)
    if not questions:
        raise InputError(f'{path}: no question in the file')
    return questions


def look_up_answers(
    names: Iterable[str], vocab: EntityVocab
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The entity ids of keys, names or aliases, and the unknown names; each once, in order."""
    ids, unknown = {}, {}
    for name in names:
        entity = vocab.get(name)
        (unknown if entity is None else ids).setdefault(name if entity is None else entity)
    return tuple(ids), tuple(unknown)


def _ids(entities: Iterable[int | None]) -> tuple[int, ...]:
    return tuple(-1 if entity is None else entity for entity in entities)


def write_questions(path: str | os.PathLike, records: Iterable[Mapping]) -> None:
    """Writes records (see `to_record`); InputError names the record, from 1, and the bad field."""

    def checked():
        seen: dict[str, str] = {}
        for number, record in enumerate(records, 1):
            with errors_at(f'{path}: record {number}'):
                seen[_check(record, seen)] = f'record {number}'
            yield record

    write_json_lines(path, checked())


def to_record(question: Question, vocab: EntityVocab) -> dict:
    """The JSON form of a question; with the same vocabulary it is read back as it is."""
    keys = lambda ids: [vocab.keys[entity] if entity >= 0 else None for entity in ids]
    record = dict(
        id=question.id,
        question=question.text,
        topics=[list(span) for span in question.topics],
        entities=keys(question.entities),
        answers=[*keys(question.answers), *question.unknown_answers],
        hops=question.hops,
        type=question.type,
    )
    return record | ({'via': [keys(ids) for ids in question.via]} if question.via else {})


def check_text(field: str, text: object) -> None:
    """Raises InputError unless a text is a string, not blank, of at most `LONGEST` characters."""
    if isinstance(text, str) and len(text) > LONGEST:
        raise InputError(f'{field} has {len(text):,} characters: ask it in at most {LONGEST:,}')
    check_string(field, text)


def parse_bracketed(marked: str) -> tuple[str, tuple[int, int]]:
    """The text of 'who starred in [Up]?' and `(start, end)` from its first '[' to its last ']'."""
    check_string('the question', marked)
    start, stop = marked.find('['), marked.rfind(']')
    if start < 0 or stop < start:
        is_open = start >= 0 or stop >= 0
        lacks = 'a bracket without its partner' if is_open else 'no topic in brackets'
        raise InputError(f'the question has {lacks} ("who starred in [Up]"): {short_repr(marked)}')
    topic = marked[start + 1 : stop]
    if not topic.strip():
        raise InputError(f'the topic in brackets is empty: {short_repr(marked)}')
    return marked[:start] + topic + marked[stop + 1 :], (start, start + len(topic))


def bracketed(question: Question) -> str:
    """The text of a question with its topics in brackets."""
    text = question.text
    for start, end in reversed(question.topics):
        text = f'{text[:start]}[{text[start:end]}]{text[end:]}'
    return text


def read_plain(path: str | os.PathLike, convert: Callable[[dict], T]) -> list[tuple[str | int, T]]:
    """The ids of the questions `{"id", "question", …}` of a file, each with its conversion."""
    found, seen = [], {}
    for number, record in read_json_lines(path):
        with errors_at(f'{path}:{number}'):
            name = _check_plain(record, seen)
            found.append((record['id'], convert(record)))
            seen[name] = f'line {number}'
    if not found:
        raise InputError(f'{path}: no question in the file')
    return found


def _check_plain(record: Any, seen: Mapping[str, str]) -> str:
    """The new id of a record with a question; else InputError."""
    check_object(record, 'id', 'question')
    if first := seen.get(name := id_of(record)):
        raise InputError(f'id: {short_repr(record["id"])} is already that of {first}')
    check_text('question', record['question'])
    return name


def _check(record: Any, seen: Mapping[str, str]) -> str:
    """The id of a record; InputError, naming the field, unless it has the form above and is new."""
    name = _check_plain(record, seen)
    if 'topics' in record:
        _check_spans(record['topics'], record['question'])
    _check_names('answers', record.get('answers', []))
    if (entities := record.get('entities')) is not None:
        _check_names('entities', entities, nullable=True)
        if len(entities) != len(record.get('topics', ())):
            raise InputError(f'entities: {len(entities)} for other topics; give one each, or null')
    hops, label, via = record.get('hops', 1), record.get('type', ''), record.get('via', [])
    if type(hops) is not int or not 1 <= hops <= MAX_HOPS:
        raise InputError(f'hops: expected 1 to {MAX_HOPS}, found {short_repr(hops)}')
    if label != '':
        check_string('type', label)
    if not isinstance(via, list) or (via and len(via) != hops - 1):
        expected = f'a list for each of {hops - 1} hops'
        raise InputError(f'via: expected {expected}, found {short_repr(via)}')
    for i, names in enumerate(via):
        _check_names(f'via[{i}]', names, nullable=True)
        if not names:
            raise InputError(f'via[{i}]: no entity; leave via out where nobody knows them')
    return name


def _check_names(field: str, names: object, nullable: bool = False) -> None:
    if not isinstance(names, list):
        raise InputError(f'{field}: expected a list, found {short_repr(names)}')
    for i, name in enumerate(names):
        if not (nullable and name is None):
            check_string(f'{field}[{i}]', name)


def _check_spans(spans: object, text: str) -> None:
    if not (isinstance(spans, list | tuple) and spans):
        raise InputError(f'topics: expected a list of [start, end], found {short_repr(spans)}')
    before = 0
    for i, span in enumerate(spans):
        if not isinstance(span, list | tuple) or [type(offset) for offset in span] != [int, int]:
            raise InputError(f'topics[{i}]: expected [start, end], found {short_repr(span)}')
        start, end = span
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise InputError(f'topics[{i}]: [{start}, {end}) marks no text of the question')
        if start < before:
            raise InputError(f'topics[{i}]: [{start}, {end}) begins before the one before ends')
        before = end
