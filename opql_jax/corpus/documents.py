"""Documents with their entity links, and the JSON Lines files that they are read from."""

import contextlib
import dataclasses
import datetime
import email.utils
import os
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus import tables
from opql_jax.corpus.json_lines import check_object, check_string, errors_at, short_repr
from opql_jax.corpus.rejected import convert_lines

# Longest mention; a longer one is a wrong span, and would not fit in a passage.
MAX_MENTION = 1000
# Lines of labels with values, and those that go on with a value, at the beginning of a text.
_HEAD = re.compile(r'(?:[A-Za-z][\w-]*:[^\n]*(?:\n[ \t-][^\n]*)*(?:\n|$)){1,60}')


class Mention(NamedTuple):
    """The characters `[start, end)` of a text, in code points, that name an entity by its key."""

    start: int
    end: int
    entity: str


@dataclasses.dataclass(frozen=True)
class Document:
    """A text, optionally with its entity links.

    The `id` is unique in its corpus, and the text is without the title. `mentions` link parts of
    it, which do not overlap, to entities; None is linked by the names of entities. `title_entity`
    is the key of the entity that the document is about.
    """

    id: str
    title: str
    text: str
    mentions: tuple[Mention, ...] | None = None
    title_entity: str | None = None


def stated_date(text: str) -> str | None:
    """The day, in ISO form, that the head of a text states: one in ISO form, or one of a mail."""
    head = found[0] if (found := _HEAD.match(text)) else ''
    stated = re.search(r'^date:[ \t]*["\']?([^\n"\']+)', head, re.I | re.M)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):  # it is no date
        if stated and re.match(r'\d{4}-', stated[1]):
            return datetime.date.fromisoformat(stated[1][:10]).isoformat()
        if stated and re.search('^from:', head, re.I | re.M):
            return email.utils.parsedate_to_datetime(stated[1]).date().isoformat()
    return None


def validate(document: Document, known_entities: Collection[str] | None = None) -> None:
    """Raises InputError, naming the field, unless a document is sound and its entities known."""
    for field in ('id', 'title', 'text'):
        check_string(field, getattr(document, field))
    if document.title_entity is not None:
        _check_entity('title_entity', document.title_entity, known_entities)
    mentions = document.mentions or ()
    for i, mention in enumerate(mentions):
        start, end = mention.start, mention.end
        for side, offset in ('start', start), ('end', end):
            if type(offset) is not int:
                raise InputError(f'mentions[{i}].{side}: {short_repr(offset)} is no integer')
        if start < 0:
            raise InputError(f'mentions[{i}].start: {start} is before the text')
        if end <= start:
            raise InputError(f'mentions[{i}].end: {end} is not after start {start}')
        if end > len(document.text):
            raise InputError(f'mentions[{i}].end: {end} is past the text')
        if end - start > MAX_MENTION:
            raise InputError(f'mentions[{i}]: a name has at most {MAX_MENTION} code points')
        if document.text[start:end].isspace():
            raise InputError(f'mentions[{i}]: [{start}, {end}) is nothing but space')
        _check_entity(f'mentions[{i}].entity', mention.entity, known_entities)
    order = sorted(range(len(mentions)), key=lambda i: mentions[i].start)
    for i, j in zip(order, order[1:]):
        a, b = mentions[i], mentions[j]
        if b.start < a.end:
            raise InputError(
                f'mentions[{j}]: [{b.start}, {b.end}) overlaps mentions[{i}] [{a.start}, {a.end})'
            )


def _check_entity(field: str, entity: str, known: Collection[str] | None) -> None:
    check_string(field, entity)
    if known is not None and entity not in known:
        raise InputError(f'{field}: unknown entity id {short_repr(entity)}')


def document_from_json(record: Any) -> Document:
    """Of `{id, title, text, title_entity?, mentions?: [{start, end, entity}]}`, or InputError."""
    check_object(record, 'id', 'title', 'text')
    mentions = record.get('mentions')
    if not isinstance(mentions, list | None):
        raise InputError(f'mentions: expected a list, found {short_repr(mentions)}')
    links = []
    for i, mention in enumerate(mentions or ()):
        with errors_at(f'mentions[{i}]'):
            check_object(mention, 'start', 'end', 'entity')
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
    """A JSON Lines corpus's good documents, in order; see `rejected.convert_lines`."""
    seen: dict[str, int] = {}

    def convert(number: int, record: object) -> Document:
        document = document_from_json(record)
        validate(document, known_entities)
        if (first := seen.setdefault(document.id, number)) != number:
            raise InputError(f'id: {short_repr(document.id)} is already that of line {first}')
        return document

    documents = convert_lines(path, convert, rejected_path, max_reject_fraction)
    if not documents:
        raise InputError(f'{path}: empty corpus, no line holds a document')
    return documents


def write_documents(path: str | os.PathLike, documents: Sequence[Document]) -> None:
    """Writes documents without mentions as a table of `tables.DOCUMENTS`."""
    columns = {f: [getattr(d, f) for d in documents] for f in tables.DOCUMENTS.names}
    tables.write_table(
        path, [pa.RecordBatch.from_pydict(columns, schema=tables.DOCUMENTS)], tables.DOCUMENTS
    )


def read_documents(path: str | os.PathLike) -> list[Document]:
    """Reads what `write_documents` wrote; InputError when it is missing or damaged."""
    read = tables.read_table(path, tables.DOCUMENTS, nullable=('title_entity',))
    return [Document(**row) for row in read.to_pylist()]
