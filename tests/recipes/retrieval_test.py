"""The recipe of retrieval selects text that supports its questions."""

import json
import pathlib

from opql_jax.recipes.retrieval import select, without_titles


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(map(json.dumps, records)), encoding='utf-8')


def test_a_part_of_the_questions_has_its_documents_and_a_part_of_the_others(tmp_path):
    corpus, asked, text = (str(tmp_path / name) for name in ('corpus.jsonl', 'asked.jsonl', 'text'))
    documents = [{'id': i, 'title': f'T{i}', 'text': f'Text {i}.'} for i in '0123456789']
    write(pathlib.Path(corpus), documents)
    record = {'question': 'Why?', 'answer': '1', 'aliases': []}
    write(pathlib.Path(asked), [record | {'supporting': [i]} for i in '897'])
    select(corpus, asked, text, 20)
    asked, documents = (
        [json.loads(line) for line in (tmp_path / 'text' / name).read_text().splitlines()]
        for name in ('questions.jsonl', 'documents.jsonl')
    )
    assert [one['supporting'] for one in asked] == [['8'], ['9']]
    assert [document['id'] for document in documents] == ['0', '1', '8', '9']
    assert documents[2]['title'] == 'T8'
    without_titles(f'{text}/documents.jsonl', str(tmp_path / 'bare'))
    bare = (tmp_path / 'bare/documents.jsonl').read_text().splitlines()
    assert [json.loads(line) for line in bare] == [
        {'id': document['id'], 'text': document['text']} for document in documents
    ]
