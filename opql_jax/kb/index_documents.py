"""Builds a knowledge base from texts that are in memory: a list of them, or a table."""

import json
import numbers
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable, Mapping, Set
from typing import Any

import pyarrow as pa

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import shown
from opql_jax.kb.index_text import index_text

_FIELDS = ('id', 'title', 'text')


def index_documents(texts: str | os.PathLike | Iterable[Any], kb: str | os.PathLike, **options) -> None:
    """Builds a knowledge base of plain text.

    Args:
        texts: the path of a file or folder; or several texts, each a string, a document `{id, title, text}` in which id and title may be
            missing, or a path; or a table with a column `text` and, if there are such, `id` and `title`: a pandas DataFrame or any other
            that has the Arrow interface. What has no id is called by its number, from 0.
        kb: the folder that is written.
        options: of `index_text`.

    Raises:
        InputError: there is no text among them, one is of another form, and what `index_text` raises.
    """
    if isinstance(texts, str | os.PathLike):
        return index_text([os.fspath(texts)], kb, **options)
    texts = _listed(texts)
    sources = [os.fspath(each) for each in texts if isinstance(each, os.PathLike)]
    records = [(number, _record(number, each)) for number, each in enumerate(texts) if not isinstance(each, os.PathLike)]
    taken = {str(record['id']) for _, record in records if 'id' in record}
    for number, record in records:
        while 'id' not in record:
            if str(number) not in taken:
                record['id'] = str(number)
            number += len(texts)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, f'{pathlib.Path(folder).name}.jsonl')
        if records:
            file.write_text('\n'.join(json.dumps(record) for _, record in records), encoding='utf-8')
            sources.append(os.fspath(file))
        try:
            return index_text(sources, kb, **options)
        except InputError as error:
            message = re.sub(
                r'To take them in: .*',
                'To take them in: with opql_jax.open(kb).update() as change: change.add(...)',
                str(error),
            )
            raise InputError(message.replace(os.fspath(file), 'texts').replace(file.name, 'texts')) from error


def _listed(texts: Any) -> list[Any]:
    if isinstance(texts, Mapping | Set | bytes) or not (isinstance(texts, Iterable) or hasattr(texts, '__arrow_c_stream__')):
        raise InputError(f'texts: expected a list of strings or documents, a table, or a path, found {shown(texts)}')
    if hasattr(texts, '__arrow_c_stream__'):
        try:
            table = pa.table(texts)
            names = table.column_names
            texts = table.select([name for name in _FIELDS if name in names]).to_pylist()
        except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
            raise InputError(f'texts: the table cannot be read: {error}') from error
        if 'text' not in names:
            raise InputError(f'texts: the table has no column "text", but {", ".join(names) or "none"}')
    if not (listed := list(texts)):
        raise InputError('texts: empty: give a list of strings or documents, a table, or a path')
    return listed


def _record(number: int, text: Any) -> dict[str, Any]:
    """The fields of a text that are there: a table has None, or NaN, where there is nothing."""
    if not isinstance(text, str | dict):
        raise InputError(
            f'texts: text {number}: expected a string, a document {{id, title, text}} or a path, found {shown(text)}'
        )
    record = {'text': text} if isinstance(text, str) else text
    record = {name: record[name] for name in _FIELDS if record.get(name) is not None and record[name] == record[name]}
    if isinstance(record.get('id'), numbers.Real) and float(record['id']).is_integer():
        record['id'] = int(record['id'])
    for name, value in record.items():
        if not isinstance(value, str | int):
            raise InputError(f'texts: text {number}: {name}: expected a string, found {shown(value)}')
    return record
