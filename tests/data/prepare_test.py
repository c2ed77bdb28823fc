"""What a prepared folder is made of, when it is made again, and which folders are left alone."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.data import tokenizer
from opql_jax.data.prepare import prepare
from opql_jax.data.prepared import Prepared
from opql_jax.datasets.jsonl import JsonLines
from opql_jax.datasets.synthetic.reader import Synthetic

from documents_of import documents
from question_records import question_record

DOCUMENTS = [
    {'id': 'a', 'title': 'Up', 'text': 'Up was made by Ann.', 'title_entity': 'Up', 'mentions': [
        {'start': 0, 'end': 2, 'entity': 'Up'}, {'start': 15, 'end': 18, 'entity': 'Ann'}]},
    {'id': 'b', 'title': 'Bob', 'text': 'Bob knows Ann.', 'title_entity': 'Bob'},
    {'id': 'c', 'title': 'Bob', 'text': 'Bob knows Ann.', 'title_entity': 'Bob', 'mentions': []},
]  # fmt: skip

QUESTION = question_record('q', 'who made [Up]', 'Ann')


@pytest.fixture
def corpus(tmp_path):
    """A reader of three documents and one question."""
    folder = tmp_path / 'corpus'
    (folder / 'questions').mkdir(parents=True)
    (folder / 'corpus.jsonl').write_text('\n'.join(map(json.dumps, DOCUMENTS)))
    (folder / 'questions' / 'train.jsonl').write_text(json.dumps(QUESTION))
    return JsonLines(str(folder / 'corpus.jsonl'), question_folder=str(folder / 'questions'))


def run(reader, output, **options):
    return prepare(
        kb=str(output.parent), text=output.name, reader=reader, **{'wordpieces': 200, **options}
    )


def contents(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob('*') if p.is_file()}


def test_a_document_without_links_is_linked_by_name_and_one_with_no_mention_stays_without(
    corpus, tmp_path
):
    run(corpus, tmp_path / 'out', title_prefix=False, drop_above_rate=1.0)
    prepared = Prepared(tmp_path / 'out')
    found = [
        [prepared.vocab.names[m['entity']] for m in row['mentions']]
        for row in prepared.passages.to_pylist()
    ]
    assert found == [['Up', 'Ann'], ['Bob', 'Ann'], []]


def test_a_tokenizer_that_is_given_is_read_once_and_is_that_of_the_folder(
    corpus, tmp_path, monkeypatch
):
    run(corpus, tmp_path / 'first')
    file = tmp_path / 'first' / 'tokenizer.json'
    read, load = [], tokenizer.load_tokenizer
    monkeypatch.setattr(tokenizer, 'load_tokenizer', lambda path: read.append(path) or load(path))
    run(corpus, tmp_path / 'out', tokenizer=str(file))
    assert read == [str(file)]
    assert (tmp_path / 'out' / 'tokenizer.json').read_bytes() == file.read_bytes()


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


@pytest.mark.parametrize('max_tokens', [6, 137])
def test_passages_that_no_bucket_holds_are_refused(corpus, tmp_path, max_tokens):
    said = f'max_tokens: {max_tokens} is not from 7 to 136'
    with pytest.raises(InputError, match=said):
        run(corpus, tmp_path / 'out', max_tokens=max_tokens)


def test_generated_questions_know_the_entities_on_the_way(tmp_path):
    run(Synthetic(num_documents=60, num_train=30, num_eval=10), tmp_path / 'out', wordpieces=2000)
    prepared = Prepared(tmp_path / 'out')
    pairs = set(zip(prepared.pairs['topic'].tolist(), prepared.pairs['target'].tolist()))
    for hops in (1, 2, 3):
        for question in prepared.questions(f'{hops}-hop/train'):
            sets = [[question.topic_entity], *question.via, question.answers]
            assert len(sets) == hops + 1
            for reached, before in zip(sets[1:], sets):
                assert all(any((topic, target) in pairs for topic in before) for target in reached)


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


def test_names_longer_than_a_passage_do_not_stop_the_run(tmp_path):
    # Without links titles are the entities.
    titles = ['Ann', 'very ' * 400 + 'long', 'Bob']
    pages = [{'id': i, 'title': t, 'text': f'{t} met Bob.'} for i, t in enumerate(titles)]
    prepared = prepare_lines(tmp_path, *pages)
    rows = prepared.passages.to_pylist()
    found = {row['text'][m['start'] : m['end']] for row in rows for m in row['mentions']}
    assert found == {'Ann', 'Bob'}
    assert ''.join(row['text'] for row in rows).count('very') == 400
