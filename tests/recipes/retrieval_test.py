"""The recipe of retrieval selects text that supports its questions."""

from opql_jax.recipes.retrieval import select, without_titles

import records


def test_a_part_of_the_questions_has_its_documents_and_a_part_of_the_others(tmp_path):
    documents = [{'id': i, 'title': f'T{i}', 'text': f'Text {i}.'} for i in '0123456789']
    corpus = records.write(tmp_path / 'corpus.jsonl', documents)
    record = {'question': 'Why?', 'answer': '1', 'aliases': []}
    asked = [record | {'supporting': [i]} for i in '897']
    asked = records.write(tmp_path / 'asked.jsonl', asked)
    select(str(corpus), str(asked), str(tmp_path / 'text'), 20)
    file = tmp_path / 'text/documents.jsonl'
    kept = records.read(tmp_path / 'text/questions.jsonl')
    assert [one['supporting'] for one in kept] == [['8'], ['9']]
    assert records.read(file) == [documents[i] for i in (0, 1, 8, 9)]
    without_titles(str(file), str(tmp_path / 'bare'))
    bare = [{'id': of['id'], 'text': of['text']} for of in records.read(file)]
    assert records.read(tmp_path / 'bare/documents.jsonl') == bare
