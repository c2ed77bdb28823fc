"""Open questions: a text in which mentions are marked and not linked, with entities as answers.

A file has a JSON object a line:

    {"id": "q1", "question": "who founded Rome?", "mentions": [[12, 16]], "entities": ["Rome"], "answers": ["Romulus"]}

`mentions` are `[start, end)` in code points, in order and disjoint. `entities` says what each mention is, or null, and may be
missing, as may `hops` (a number, 1) and `type` (a label, ""); other fields are ignored. Entities and answers are keys of a
vocabulary, or else names or aliases. `openqa_formats` makes such files of those of known data sets.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from opql_jax.core import files
from opql_jax.corpus import tables
from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab


@dataclasses.dataclass(frozen=True)
class OpenQuestion:
    """A question whose mentions have borders but, for a model, no entities.

    Attributes:
        id: unique in its file.
        text: the question.
        mentions: `(start, end)` of each mention in `text`, code points, half-open; at least one, by start, disjoint.
        entities: what each mention is, an entity id or -1 where nobody knows. For reports and experiments only: a model
            is never shown them.
        answers: entity ids, in the order given, each once.
        unknown_answers: the answers that the vocabulary does not have.
        hops: the number of hops, at least 1.
        type: a free label, may be empty.
    """

    id: str
    text: str
    mentions: tuple[tuple[int, int], ...]
    entities: tuple[int, ...]
    answers: list[int]
    unknown_answers: list[str]
    hops: int
    type: str


def read_open_questions(path: str | os.PathLike, vocab: EntityVocab) -> list[OpenQuestion]:
    """Reads a file of open questions in its order; blank lines are skipped.

    Raises:
        CorpusError: naming the file, the line and the field; or the file when it is missing or has no question.
    """
    questions, lines_of = [], {}
    for number, record in json_lines(path):
        try:
            _check(record, lines_of, f'line {number}')
        except CorpusError as error:
            raise CorpusError(f'{path}:{number}: {error}') from error
        answers, unknown = {}, {}
        for name in record['answers']:
            entity = vocab.get(name)
            (unknown if entity is None else answers).setdefault(name if entity is None else entity)
        entities = [name and vocab.get(name) for name in record.get('entities') or [None] * len(record['mentions'])]
        questions.append(
            OpenQuestion(
                id=str(record['id']),
                text=record['question'],
                mentions=tuple((start, end) for start, end in record['mentions']),
                entities=tuple(-1 if entity is None else entity for entity in entities),
                answers=list(answers),
                unknown_answers=list(unknown),
                hops=record.get('hops', 1),
                type=record.get('type', ''),
            )
        )
    if not questions:
        raise CorpusError(f'{path}: no question in the file')
    return questions


def write_open_questions(path: str | os.PathLike, records: Iterable[Mapping]) -> None:
    """Writes records of the form above; the file appears whole or not at all.

    Raises:
        CorpusError: naming the record, counting from 1, and the field that cannot be read back.
    """
    seen = {}
    with tables.atomic_path(path) as partial, open(partial, 'w', encoding='utf-8') as file:
        for number, record in enumerate(records, 1):
            try:
                _check(record, seen, f'record {number}')
            except CorpusError as error:
                raise CorpusError(f'{path}: record {number}: {error}') from error
            file.write(json.dumps(record, ensure_ascii=False) + '\n')


def json_lines(path: str | os.PathLike) -> Iterator[tuple[int, object]]:
    """The JSON value of each line that is not blank, with the number of the line; CorpusError names file and line."""
    try:
        source = files.reader(path)
    except OSError as error:
        raise CorpusError(f'{path}: cannot be read ({error.strerror})') from error
    with source:
        # Lines are split as bytes: text mode would also split at characters such as U+2028.
        for number, line in enumerate(source, 1):
            if line.strip():
                try:
                    yield number, json.loads(line.decode('utf-8'))
                except ValueError as error:
                    raise CorpusError(f'{path}:{number}: not a JSON value in UTF-8 ({error})') from error


def of_records(
    path: str | os.PathLike, records: Iterable[tuple[int, object]], one: Callable[[dict], object], at: str = ':'
) -> Iterator[tuple[int, object]]:
    """The number of each record of a file and what `one` makes of it; CorpusError names file and record, which is an object."""
    for number, record in records:
        try:
            if not isinstance(record, dict):
                raise CorpusError(f'expected an object, found {record!r}')
            made = one(record)
        except CorpusError as error:
            raise CorpusError(f'{path}{at}{number}: {error}') from error
        yield number, made


def text_of(record: dict, field: str, default: str | None = None, at: str = '') -> str:
    """A string of a record; `default` where it is missing or null, without one it must not be blank. Errors begin with `at`."""
    value = record.get(field)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value.strip()):
        raise CorpusError(f'{at}{field}: expected a string, found {value!r}')
    return value


def texts_of(record: dict, field: str, at: str = '') -> list[str]:
    """A list of strings of a record, empty where it is missing or null; blank ones are left out."""
    values = record.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise CorpusError(f'{at}{field}: expected a list of strings, found {values!r}')
    return [value for value in values if value.strip()]


def objects_of(record: dict, field: str, at: str = '') -> list[tuple[str, dict]]:
    """The objects of a list of a record, each after what it is called in errors."""
    values = record.get(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise CorpusError(f'{at}{field}: expected a list of objects, found {values!r}')
    return [(f'{at}{field}[{i}].', value) for i, value in enumerate(values)]


def _check(record: object, seen: dict[str, str], place: str) -> None:
    """Raises CorpusError, naming the field, unless a record has the form above and an id of its own.

    Args:
        record: what to check.
        seen: the ids of the records before, and their places; that of this one is added.
        place: of this record.
    """
    if not isinstance(record, Mapping):
        raise CorpusError(f'expected a JSON object, found {type(record).__name__}')
    for field in ('id', 'question', 'mentions', 'answers'):
        if field not in record:
            raise CorpusError(f'{field}: missing')
    _check_text('id', str(record['id']) if type(record['id']) is int else record['id'])
    if (first := seen.setdefault(str(record['id']), place)) != place:
        raise CorpusError(f'id: {record["id"]!r} is already that of {first}')
    _check_text('question', record['question'])
    _check_mentions(record['mentions'], record['question'])
    for field in ('answers', 'entities'):
        names = record.get(field)
        if names is None and field == 'entities':
            continue
        if not isinstance(names, list):
            raise CorpusError(f'{field}: expected a list, found {names!r}')
        for i, name in enumerate(names):
            if name is not None or field == 'answers':
                _check_text(f'{field}[{i}]', name)
    if record.get('entities') is not None and len(record['entities']) != len(record['mentions']):
        raise CorpusError(f'entities: {len(record["entities"])} of {len(record["mentions"])} mentions; give one each, or null')
    hops, label = record.get('hops', 1), record.get('type', '')
    if type(hops) is not int or hops < 1:
        raise CorpusError(f'hops: expected a whole number of at least 1, found {hops!r}')
    if label != '':
        _check_text('type', label)


def _check_mentions(mentions: object, text: str) -> None:
    if not (isinstance(mentions, list | tuple) and mentions):
        raise CorpusError(f'mentions: expected a list of at least one [start, end], found {mentions!r}')
    before = 0
    for i, span in enumerate(mentions):
        if not (isinstance(span, list | tuple) and len(span) == 2 and all(type(offset) is int for offset in span)):
            raise CorpusError(f'mentions[{i}]: expected [start, end] in code points, found {span!r}')
        start, end = span
        if not 0 <= start < end <= len(text) or not text[start:end].strip():
            raise CorpusError(f'mentions[{i}]: [{start}, {end}) marks no text in a question of {len(text)} code points')
        if start < before:
            raise CorpusError(f'mentions[{i}]: [{start}, {end}) begins before mentions[{i - 1}] ends; order them by start')
        before = end


def _check_text(field: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise CorpusError(f'{field}: expected a string that is not blank, found {value!r}')
    try:
        value.encode('utf-8')
    except UnicodeEncodeError as error:
        raise CorpusError(f'{field}: code point {error.start} is half of a surrogate pair') from error
