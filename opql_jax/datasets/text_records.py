"""Documents as they are given: records, strings and tables in memory."""

import dataclasses
import numbers
import os
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus.definitions import guides_to, subject
from opql_jax.corpus.documents import Document, document_from_json, validate
from opql_jax.corpus.json_lines import check_string, errors_at, short_repr
from opql_jax.corpus.layout import cleaned, unfilled
from opql_jax.corpus.statements import restated
from opql_jax.datasets.english import other_language

# Longest document: its names are found in one go, and answers cite it as a whole.
MAX_CHARACTERS = 10_000_000
# A link or a picture of Markdown, of which only the words are read.
_LINK = re.compile(r'!?\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}(?: "[^"\n]{0,200}")?\)')


def as_sources(texts: str | os.PathLike | Iterable[Any]) -> list[str | os.PathLike | dict]:
    """The sources that `index_text` reads; InputError if there are none, or of another form.

    `texts` are the path of a file or folder; or several strings, documents `{id?, title?, text}`
    and paths; or a table with columns `text`, `id?` and `title?`, of pandas or any other with the
    Arrow interface. What has no id is called by its number, from 0.
    """
    if isinstance(texts, str | os.PathLike):
        return [texts]
    sources = _listed(texts)
    for number, each in enumerate(sources):
        if isinstance(each, str | dict):
            sources[number] = {'text': each} if isinstance(each, str) else document_fields(each)
        elif not isinstance(each, os.PathLike):
            form = 'a string, a document {id, title, text} or a path'
            raise InputError(f'texts: text {number}: expected {form}, found {short_repr(each)}')
    taken = {str(each.get('id')) for each in sources if isinstance(each, dict)}
    for number, each in enumerate(sources):
        while isinstance(each, dict) and 'id' not in each:
            if str(number) not in taken:
                each['id'] = str(number)
            number += len(sources)
    return sources


def _listed(texts: Any) -> list[Any]:
    is_table = hasattr(texts, '__arrow_c_stream__')
    is_list = isinstance(texts, Iterable) and not isinstance(texts, Mapping | Set | bytes)
    if not (is_table or is_list):
        raise InputError(f'texts: expected a list, a table or a path, found {short_repr(texts)}')
    if is_table:
        try:
            table = pa.table(texts)
            names = table.column_names
            texts = table.select([n for n in ('id', 'title', 'text') if n in names]).to_pylist()
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InputError(f'texts: the table cannot be read: {error}') from error
        if 'text' not in names:
            found = ', '.join(names) or 'none'
            raise InputError(f'texts: the table has no column "text", but {found}')
    if not (listed := list(texts)):
        raise InputError('texts: empty: give a list of strings or documents, a table, or a path')
    return listed


def document_fields(record: dict[str, Any]) -> dict[str, Any]:
    """A record's id, title and text. In tables None, NaN and NA mean none, and 7.0 is the id 7."""
    is_there = lambda value: (
        isinstance(value, str | list | dict) or str(value) not in ('None', 'nan', 'NaT', '<NA>')
    )
    there = (n for n in ('id', 'title', 'text') if n in record and is_there(record[n]))
    fields: dict[str, Any] = {n: record[n] for n in there}
    number: Any = fields.get('id')
    is_whole = isinstance(number, numbers.Integral) and not isinstance(number, bool)
    if is_whole or (isinstance(number, float) and number.is_integer()):
        fields['id'] = str(int(number))
    return fields


def document_from_record(record: object) -> Document:
    """The document of `{id, title, text}`, about its title or what its text defines; InputError."""
    about = None
    if isinstance(record, dict):
        record = document_fields(record)
        if (about := record.get('title')) in (None, ''):
            about = subject(record['text']) if isinstance(record.get('text'), str) else None
        record['title'] = record.get('id') if about in (None, '') else about
    document = dataclasses.replace(document_from_json(record), title_entity=about)
    validate(document)
    check_text(document.text)
    return as_read(document)


def documents_from_records(sources: Sequence[object]) -> list[Document]:
    """The documents of those sources that are records; InputError says which is bad."""
    documents = []
    for number, record in enumerate(sources):
        if isinstance(record, dict):
            with errors_at(f'texts: text {number}'):
                documents.append(document_from_record(record))
    return documents


def as_read(document: Document, is_filled: bool = True, is_markdown: bool = False) -> Document:
    """Brings a document into the form that names are found in and answers show; idempotent."""
    text = cleaned(document.text)
    if is_markdown:
        text = _LINK.sub(r'\1', text)
    text = restated(unfilled(text, is_markdown) if is_filled else text)
    title, about = (name and cleaned(name) for name in (document.title, document.title_entity))
    if about and (defined := subject(text)) and guides_to(about, defined):
        about = defined
    check_string('text', text)
    title, about = title or document.title, about or document.title_entity
    return dataclasses.replace(document, title=title, text=text, title_entity=about)


def check_text(text: str) -> None:
    """Raises InputError for a text that is too long or not English."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f'text: {len(text):,} characters, more than {MAX_CHARACTERS:,}: split it')
    if shares := other_language([text]):
        raise InputError(f'text: not English: {shares}. Names are recognised in English')
