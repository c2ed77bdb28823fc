"""Text that cannot be prepared: `prepare` says in one line which file, which line and which field, and exits with status 1."""

import json

import pytest

from opql_jax.data.prepared import Prepared

from documents_of import documents


@pytest.fixture
def prepare_lines(binaries, tmp_path):
    """Prepares JSON Lines into the folder `out`."""

    def prepare_lines(*records, **flags):
        (tmp_path / 'my.jsonl').write_text(''.join(json.dumps(record) + '\n' for record in records))
        flags = {'CORPUS': tmp_path / 'my.jsonl', 'KB': tmp_path, 'TEXT': 'out'} | flags
        return binaries('prepare', '--gin_file=gin/data/jsonl.gin', *(f'--gin.{name}={value}' for name, value in flags.items()))

    return prepare_lines


def three_bad_documents():
    """The same with an offset past the text, overlapping mentions and an unknown entity in lines 2 to 4."""
    records = list(documents())
    records[1]['mentions'][1]['end'] = 99
    records[2]['mentions'][1]['start'] = 3
    records[3]['mentions'][1]['entity'] = 'Nobody'
    return records


def test_few_enough_bad_records_are_left_out_and_listed(prepare_lines, tmp_path):
    names = [f'Film{i}' for i in range(30)] + [f'Person{i}' for i in range(7)]
    (tmp_path / 'e.jsonl').write_text(''.join(json.dumps({'id': name}) + '\n' for name in names))
    flags = {'ENTITIES': tmp_path / 'e.jsonl', 'jsonl.JsonLines.max_reject_fraction': 0.1}
    done = prepare_lines(*three_bad_documents(), **flags)
    assert done.returncode == 0, done.stderr
    prepared = Prepared(tmp_path / 'out')
    assert prepared.passages['doc_id'].to_pylist() == ['d0', *(f'd{i}' for i in range(4, 30))]
    assert len((tmp_path / 'out/rejected.jsonl').read_text().splitlines()) == 3
    assert 'rejected.jsonl' in prepared.manifest.files


def test_a_corrected_corpus_is_prepared_into_the_folder_where_it_was_refused(prepare_lines, tmp_path):
    assert prepare_lines('no document').returncode == 1
    assert prepare_lines(*documents()).returncode == 0
    assert len(Prepared(tmp_path / 'out').passages) == 30 and (tmp_path / 'out/rejected.jsonl').read_text() == ''


def test_names_longer_than_a_passage_do_not_stop_the_run(prepare_lines, tmp_path):
    # Without links titles are the entities.
    name = 'very ' * 400 + 'long'
    pages = [{'id': i, 'title': title, 'text': f'{title} met Bob.'} for i, title in enumerate(['Ann', name, 'Bob'])]
    assert prepare_lines(*pages).returncode == 0
    prepared = Prepared(tmp_path / 'out')
    found = {row['text'][m['start'] : m['end']] for row in prepared.passages.to_pylist() for m in row['mentions']}
    assert found == {'Ann', 'Bob'}
    assert ''.join(prepared.passages['text'].to_pylist()).count('very') == 400
