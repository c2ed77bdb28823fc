"""Texts in memory, a list of them or a table, as sources of a knowledge base."""

import os
from collections.abc import Iterable, Mapping, Set
from typing import Any

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import short_repr
from opql_jax.datasets.plain_text import document_fields


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
