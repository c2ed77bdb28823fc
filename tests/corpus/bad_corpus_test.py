"""Text of which something cannot be prepared, and the rest is."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines

from documents_of import documents


def prepare_lines(folder, *records):
    (folder / 'my.jsonl').write_text(''.join(json.dumps(record) + '\n' for record in records))
    prepare(kb=str(folder), text='out', reader=JsonLines(str(folder / 'my.jsonl')))
    return Prepared(folder / 'out')


def test_a_corrected_corpus_is_prepared_into_the_folder_where_it_was_refused(tmp_path):
    with pytest.raises(InputError, match='1 of 1|expected a JSON object'):
        prepare_lines(tmp_path, 'no document')
    prepared = prepare_lines(tmp_path, *documents())
    assert len(prepared.passages) == 30 and (tmp_path / 'out/rejected.jsonl').read_text() == ''
    assert 'rejected.jsonl' in prepared.manifest.files


def test_names_longer_than_a_passage_do_not_stop_the_run(tmp_path):
    # Without links titles are the entities.
    name = 'very ' * 400 + 'long'
    pages = [
        {'id': i, 'title': title, 'text': f'{title} met Bob.'}
        for i, title in enumerate(['Ann', name, 'Bob'])
    ]
    prepared = prepare_lines(tmp_path, *pages)
    found = {
        row['text'][m['start'] : m['end']]
        for row in prepared.passages.to_pylist()
        for m in row['mentions']
    }
    assert found == {'Ann', 'Bob'}
    assert ''.join(prepared.passages['text'].to_pylist()).count('very') == 400
