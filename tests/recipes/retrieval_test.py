"""The recipe of retrieval selects text that supports its questions."""

from opql_jax.recipes.retrieval import select, without_titles

import records


def test_a_part_of_the_questions_has_its_documents_and_a_part_of_the_others(tmp_path):
    corpus, asked, text = (
        tmp_path / 'corpus.jsonl',
        tmp_path / 'asked.jsonl',
        str(tmp_path / 'text'),
    )
    documents = [{'id': i, 'title': f'T{i}', 'text': f'Text {i}.'} for i in '0123456789']
    records.write(corpus, documents)
    record = {'question': 'Why?', 'answer': '1', 'aliases': []}
    records.write(asked, [record | {'supporting': [i]} for i in '897'])
    select(str(corpus), str(asked), text, 20)
    asked, documents = (
        records.read(tmp_path / 'text' / name) for name in ('questions.jsonl', 'documents.jsonl')
    )
    assert [one['supporting'] for one in asked] == [['8'], ['9']]
    assert [document['id'] for document in documents] == ['0', '1', '8', '9']
    assert documents[2]['title'] == 'T8'
    without_titles(f'{text}/documents.jsonl', str(tmp_path / 'bare'))
    assert records.read(tmp_path / 'bare/documents.jsonl') == [
        {'id': document['id'], 'text': document['text']} for document in documents
    ]
