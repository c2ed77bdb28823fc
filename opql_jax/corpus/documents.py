"""Documents with their entity links, and the JSON Lines files that they are read from."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Collection, Sequence

from opql_jax.core.errors import InputError

REASONS_SHOWN = 3


class CorpusError(InputError):
    """A corpus, a question file or a table made from them cannot be used; the message says what is wrong and where."""


@dataclasses.dataclass(frozen=True)
class Mention:
    """The characters `[start, end)` of a text, in Unicode code points, that name an entity, given by its key."""

    start: int
    end: int
    entity: str


@dataclasses.dataclass(frozen=True)
class Document:
    """A text, optionally with its entity links.

    Attributes:
        id: unique in its corpus.
        title: what the document is called.
        text: the text itself, without the title.
        mentions: links from `text` to entities; they do not overlap. A text whose mentions are None is linked by the names of
            entities, one whose mentions are empty is not.
        title_entity: the key of the entity the document is about, if it is about one.
    """

    id: str
    title: str
    text: str
    mentions: tuple[Mention, ...] | None = None
    title_entity: str | None = None


def validate(document: Document, known_entities: Collection[str] | None = None) -> None:
    """Checks one document.

    Args:
        document: what to check.
        known_entities: the entity keys there are; None accepts any.

    Raises:
        CorpusError: the message names the field and says what is wrong with it.
    """
    for field in ('id', 'title', 'text'):
        check_string(field, getattr(document, field))
    if document.title_entity is not None:
        _check_entity('title_entity', document.title_entity, known_entities)
    length, mentions = len(document.text), document.mentions or ()
    for i, mention in enumerate(mentions):
        for side in ('start', 'end'):
            if type(offset := getattr(mention, side)) is not int:
                raise CorpusError(f'mentions[{i}].{side}: expected an integer, found {offset!r}')
        if mention.start < 0:
            raise CorpusError(f'mentions[{i}].start: {mention.start} is before the text')
        if mention.end <= mention.start:
            raise CorpusError(f'mentions[{i}].end: {mention.end} is not after start {mention.start}')
        if mention.end > length:
            raise CorpusError(f'mentions[{i}].end: {mention.end} is past the text of {length} code points')
        _check_entity(f'mentions[{i}].entity', mention.entity, known_entities)
    order = sorted(range(len(mentions)), key=lambda i: mentions[i].start)
    for i, j in zip(order, order[1:]):
        a, b = mentions[i], mentions[j]
        if b.start < a.end:
            raise CorpusError(f'mentions[{j}]: [{b.start}, {b.end}) overlaps mentions[{i}] [{a.start}, {a.end})')


def check_string(field: str, value: object) -> None:
    """Raises CorpusError unless a value is a string that is not blank and can be written as UTF-8."""
    if not isinstance(value, str) or not value.strip():
        raise CorpusError(f'{field}: expected a string that is not blank, found {value!r}')
    try:
        value.encode('utf-8')
    except UnicodeEncodeError as error:
        raise CorpusError(f'{field}: code point {error.start} is half of a surrogate pair') from error


def _check_entity(field: str, entity: str, known: Collection[str] | None) -> None:
    check_string(field, entity)
    if known is not None and entity not in known:
        raise CorpusError(f'{field}: unknown entity id {entity!r}')


def document_from_json(record: object) -> Document:
    """The document of one parsed JSON value, not yet validated.

    `{id, title, text, title_entity?, mentions?: [{start, end, entity}]}`; an id may be a number, and
    other fields are ignored.

    Raises:
        CorpusError: a field is missing or of another JSON type.
    """
    if not isinstance(record, dict):
        raise CorpusError(f'expected a JSON object, found {type(record).__name__}')
    for field in ('id', 'title', 'text'):
        if field not in record:
            raise CorpusError(f'{field}: missing')
    mentions = record.get('mentions')
    if not isinstance(mentions, list | None):
        raise CorpusError(f'mentions: expected a list, found {mentions!r}')
    links = []
    for i, mention in enumerate(mentions or ()):
        if not isinstance(mention, dict):
            raise CorpusError(f'mentions[{i}]: expected an object, found {mention!r}')
        for field in ('start', 'end', 'entity'):
            if field not in mention:
                raise CorpusError(f'mentions[{i}].{field}: missing')
        links.append(Mention(mention['start'], mention['end'], mention['entity']))
    document_id = str(record['id']) if type(record['id']) is int else record['id']
    links = None if mentions is None else tuple(links)
    return Document(document_id, record['title'], record['text'], links, record.get('title_entity'))


def read_jsonl(
    path: str | os.PathLike,
    *,
    rejected_path: str | os.PathLike,
    max_reject_fraction: float = 0.01,
    known_entities: Collection[str] | None = None,
) -> list[Document]:
    """Reads a JSON Lines corpus.

    Args:
        path: one document per line (see `document_from_json`); blank lines are skipped.
        rejected_path: every bad line goes here as `{line, reason, record}`; written even when none is.
        max_reject_fraction: the share of bad lines above which the corpus is refused.
        known_entities: entity keys that mentions may carry; None accepts any.

    Returns:
        The good documents in file order.

    Raises:
        CorpusError: the file is missing or has no document, or too many lines are bad.
    """
    documents, reasons, lines, seen = [], [], 0, {}
    os.makedirs(os.path.dirname(rejected_path) or '.', exist_ok=True)
    try:
        source = open(path, 'rb')
    except OSError as error:
        raise CorpusError(f'{path}: cannot be read ({error.strerror})') from error
    with source, open(rejected_path, 'w', encoding='utf-8') as rejected:
        # Lines are split as bytes: text mode would also split at characters such as U+2028.
        for number, line in enumerate(source, 1):
            if not line.strip():
                continue
            lines += 1
            record = None
            try:
                record = _parse(line)
                document = document_from_json(record)
                validate(document, known_entities)
                if document.id in seen:
                    raise CorpusError(f'id: {document.id!r} was already used in line {seen[document.id]}')
            except CorpusError as error:
                reasons.append(f'line {number}: {error}')
                shown = record if record is not None else line.decode('utf-8', 'backslashreplace').rstrip('\n')
                rejected.write(json.dumps({'line': number, 'reason': str(error), 'record': shown}) + '\n')
                continue
            seen[document.id] = number
            documents.append(document)
    if not lines:
        raise CorpusError(f'{path}: empty corpus, no line holds a document')
    check_rejected(path, reasons, 'lines', lines, max_reject_fraction, rejected_path)
    return documents


def check_rejected(path, reasons: Sequence[str], unit: str, total: int, max_fraction: float, rejected_path) -> None:
    """Raises CorpusError, with the first reasons, if more than a fraction of a file's `total` units (lines, articles) were rejected."""
    if len(reasons) > max_fraction * total:
        more = f'; and {len(reasons) - REASONS_SHOWN} more' if len(reasons) > REASONS_SHOWN else ''
        raise CorpusError(
            f'{path}: {len(reasons)} of {total} {unit} are bad, more than the fraction {max_fraction} '
            f'allowed: {"; ".join(reasons[:REASONS_SHOWN])}{more}. All are listed in {rejected_path}'
        )


def _parse(line: bytes) -> object:
    try:
        return json.loads(line.decode('utf-8'))
    except ValueError as error:
        raise CorpusError(f'not a JSON value in UTF-8 ({error})') from error
