"""What a prepared folder is made of, when it is made again, and which folders are left alone."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines

from records import documents, question_record

DOCUMENTS = [
    {'id': 'a', 'title': 'Up', 'text': 'Up was made by Ann.', 'title_entity': 'Up', 'mentions': [
        {'start': 0, 'end': 2, 'entity': 'Up'}, {'start': 15, 'end': 18, 'entity': 'Ann'}]},
    {'id': 'b', 'title': 'Bob', 'text': 'Bob knows Ann.', 'title_entity': 'Bob'},
    {'id': 'c', 'title': 'Bob', 'text': 'Bob knows Ann.', 'title_entity': 'Bob', 'mentions': []},
]  # fmt: skip

QUESTION = question_record('q', 'who made [Up]', 'Ann')


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / 'corpus'
    (folder / 'questions').mkdir(parents=True)
    (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, DOCUMENTS)))
    (folder / 'questions' / 'train.jsonl').write_text(json.dumps(QUESTION))
    return JsonLines(str(folder / 'corpus.jsonl'), question_folder=str(folder / 'questions'))


def run(reader, output, **options):
    options = {'wordpieces': 200} | options
    return prepare(kb=str(output.parent), text=output.name, reader=reader, **options)


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


def test_a_finished_folder_is_left_as_it_is_wherever_the_input_lies(corpus, tmp_path):
    manifest = run(corpus, tmp_path / 'out')
    before = contents(tmp_path / 'out')
    moved = (tmp_path / 'corpus').rename(tmp_path / 'moved')
    there = JsonLines(str(moved / 'corpus.jsonl'), question_folder=str(moved / 'questions'))
    assert run(there, tmp_path / 'out') == manifest
    assert contents(tmp_path / 'out') == before


CHANGED = {
    'corpus.jsonl': (DOCUMENTS[0], 'corpus'),
    'questions/train.jsonl': ({**QUESTION, 'answers': ['Bob']}, 'questions/train.jsonl'),
    'questions/test.jsonl': (QUESTION, 'questions/test.jsonl'),
}


@pytest.mark.parametrize('name', CHANGED)
def test_changed_input_and_other_settings_are_not_taken_for_prepared(corpus, tmp_path, name):
    run(corpus, tmp_path / 'out')
    with pytest.raises(InputError, match='another max_tokens, title_prefix: choose another folder'):
        run(corpus, tmp_path / 'out', max_tokens=64, title_prefix=False)
    record, label = CHANGED[name]
    (tmp_path / 'corpus' / name).write_text(json.dumps(record))
    with pytest.raises(InputError, match=f'another file {label}:'):
        run(corpus, tmp_path / 'out')


def test_a_folder_with_other_files_is_refused_and_kept(corpus, tmp_path):
    before = contents(tmp_path / 'corpus')
    with pytest.raises(InputError, match='holds other files: give a new or empty folder'):
        run(corpus, tmp_path / 'corpus')
    assert contents(tmp_path / 'corpus') == before


def prepare_lines(folder, *records):
    (folder / 'my.jsonl').write_text(''.join(json.dumps(record) + '\n' for record in records))
    run(JsonLines(str(folder / 'my.jsonl')), folder / 'out')
    return Prepared(folder / 'out')


def test_a_corrected_corpus_is_prepared_into_the_folder_where_it_was_refused(tmp_path):
    with pytest.raises(InputError, match='expected a JSON object'):
        prepare_lines(tmp_path, 'no document')
    prepared = prepare_lines(tmp_path, *documents())
    assert len(prepared.passages) == 30 and (tmp_path / 'out/rejected.jsonl').read_text() == ''
    assert 'rejected.jsonl' in prepared.manifest.files
