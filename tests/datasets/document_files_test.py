"""Files of many documents: tables and dumps; files are found by patterns."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from opql_jax.core.errors import InputError
from opql_jax.datasets import document_files

from dump_writer import page_xml as page
from dump_writer import write_pages as dump
from read_texts import read, rejected
from trios import TRIOS, write

ENGINE = TRIOS['engine']
ADA, BYRON = ENGINE.documents['Ada Lovelace'], ENGINE.documents['Lord Byron']


def table(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def test_a_row_is_read_like_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(document_files, 'BATCH_ROWS', 2)
    columns = {'id': [7, 8, 9], 'title': ['Ada Lovelace', None, '']}
    columns['text'] = [ADA, BYRON, f'It rained. {ADA}']
    lines = [json.dumps(dict(zip(columns, row))) for row in zip(*columns.values())]
    (tmp_path / 'a.jsonl').write_text('\n'.join(lines))
    path = table(tmp_path / 'a.parquet', views=[1, 2, 3], **dict(reversed(columns.items())))
    assert read(tmp_path, path) == read(tmp_path, tmp_path / 'a.jsonl')
    texts = pa.array([ADA, BYRON]).dictionary_encode()
    without_titles = table(tmp_path / 'b.parquet', id=['one', 'two'], text=texts)
    titles = [d.title for d in read(tmp_path, without_titles)]
    assert titles == ['Ada Lovelace', 'George Gordon Byron']


def test_bad_rows_are_told_by_their_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(document_files, 'BATCH_ROWS', 2)
    latin = pa.array([b'Caf\xe9 of London'], pa.binary()).view(pa.string())
    texts = pa.concat_arrays([pa.array([ADA, None, BYRON], pa.string()), latin])
    path = table(tmp_path / 'a.parquet', id=pa.array([1, 2, None, 4]), text=texts)
    told = r'a.parquet: 3 of 4 rows are bad.*: a.parquet, row 2: text: missing; .*row 3: id: missin'
    with pytest.raises(InputError, match=told):
        read(tmp_path, path)
    reasons = rejected(tmp_path)
    assert list(reasons) == [f'a.parquet, row {number}' for number in (2, 3, 4)]
    assert 'not UTF-8' in reasons['a.parquet, row 4']


def test_a_table_without_its_columns_and_a_damaged_one_are_told(tmp_path):
    path = table(tmp_path / 'a.parquet', title=['Ada'], body=[ADA])
    said = r'a\.parquet: expected columns id, text and title\?, found title, body$'
    with pytest.raises(InputError, match=said):
        read(tmp_path, path)
    whole = table(tmp_path / 'b.parquet', id=[1], text=[ADA]).read_bytes()
    (tmp_path / 'b.parquet').write_bytes(whole[:-20])
    with pytest.raises(InputError, match=r'b\.parquet: no Parquet after row 0'):
        read(tmp_path, tmp_path / 'b.parquet')


@pytest.mark.parametrize('name', ['wiki.xml', 'wiki.xml.gz', 'wiki1.xml-p1p41242.bz2'])
def test_the_articles_of_a_dump_are_documents(tmp_path, caplog, name):
    path = dump(
        tmp_path / name,
        page(1, 'Ada Lovelace', "'''Ada''' was the child of [[George Byron|Lord Byron]]."),
        page(2, 'Talk:Ada Lovelace', 'Was she?', namespace=1),
        page(3, 'Countess of Lovelace', '#REDIRECT [[Ada Lovelace]]', redirect='Ada Lovelace'),
        page(4, 'Ada', '* [[Ada Lovelace]]\n{{disambiguation}}'),
        page(5, 'Table', '{{infobox|Ada}}'),
    )
    with caplog.at_level('INFO'):
        [document] = read(tmp_path, path)
    assert (document.id, document.title) == ('1', 'Ada Lovelace')
    assert document.text == 'Ada was the child of Lord Byron.'
    left_out = 'left out are 1 without text, 1 redirects and 1 disambiguation pages'
    assert f'1 articles; {left_out}' in caplog.text
    assert rejected(tmp_path) == {}


def test_a_damaged_dump_is_told_and_other_xml_is_no_text(tmp_path):
    texts = tmp_path / 'texts'
    write(texts, {'Ada Lovelace': ADA})
    (texts / 'map.xml').write_text('<urlset></urlset>')
    assert [d.id for d in read(tmp_path, texts)] == ['texts/ada lovelace.txt']
    with pytest.raises(InputError, match=r'map\.xml: no text to read: expected .*MediaWiki dumps'):
        read(tmp_path, texts / 'map.xml')
    (texts / 'wiki.xml.bz2').write_bytes(b'no bzip2')
    said = r'wiki\.xml\.bz2: truncated or damaged before the first page'
    with pytest.raises(InputError, match=said):
        read(tmp_path, texts)


def test_a_pattern_finds_files_by_their_names(tmp_path, monkeypatch):
    write(tmp_path / 'notes', {'Ada Lovelace': ADA})
    write(tmp_path / 'notes' / 'poets', {'Lord Byron': BYRON})
    (tmp_path / 'notes' / 'a[1].txt').write_text('It rained in London.')
    monkeypatch.chdir(tmp_path)
    ids = lambda *sources: [d.id for d in read(tmp_path, *sources)]
    assert ids('notes/*.txt') == ['a[1].txt', 'ada lovelace.txt']
    assert ids('notes/[a]d*') == ['ada lovelace.txt']
    found = ids('**/*.txt')
    assert found == ['notes/a[1].txt', 'notes/ada lovelace.txt', 'notes/poets/lord byron.txt']
    assert ids(f'{tmp_path}/**/lord?byron.txt') == ['notes/poets/lord byron.txt']
    assert ids('notes/a[1].txt') == ['a[1].txt']  # a file of that name comes first
    with pytest.raises(InputError, match=r'^notes/\*\.md: no file has a name of this pattern$'):
        ids('notes/*.md')
