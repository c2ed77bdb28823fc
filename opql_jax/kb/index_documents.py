"""Makes a knowledge base of texts that are in memory: a list of them, or a table."""

import json
import os
import pathlib
import tempfile
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from opql_jax.core.errors import InputError
from opql_jax.corpus.json_lines import shown
from opql_jax.kb.index_text import index_text


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
    with tempfile.TemporaryDirectory() as folder:
        if hasattr(texts, '__arrow_c_stream__'):
            file = pathlib.Path(folder, 'texts.parquet')
            _write_table(pa.table(texts), file)
            return index_text([os.fspath(file)], kb, **options)
        texts = list(texts)
        sources = [os.fspath(each) for each in texts if isinstance(each, os.PathLike)]
        records = [_record(number, each) for number, each in enumerate(texts) if not isinstance(each, os.PathLike)]
        if records:
            file = pathlib.Path(folder, 'texts.jsonl')
            file.write_text('\n'.join(map(json.dumps, records)), encoding='utf-8')
            sources.append(os.fspath(file))
        if not sources:
            raise InputError('texts: there is none: give a list of strings or documents, a table, or a path')
        return index_text(sources, kb, **options)


def _record(number: int, text: Any) -> dict[str, Any]:
    if not isinstance(text, str | dict):
        raise InputError(
            f'texts: text {number}: expected a string, a document {{id, title, text}} or a path, found {shown(text)}'
        )
    record = {'text': text} if isinstance(text, str) else text
    return {'id': str(number)} | {name: record[name] for name in ('id', 'title', 'text') if record.get(name) is not None}


def _write_table(table: pa.Table, file: pathlib.Path) -> None:
    if 'text' not in table.column_names:
        raise InputError(f'texts: the table has no column "text", but {", ".join(table.column_names) or "none"}')
    table = table.select([name for name in ('id', 'title', 'text') if name in table.column_names])
    if 'id' not in table.column_names:
        table = table.append_column('id', pa.array(map(str, range(len(table)))))
    pq.write_table(table, file)
