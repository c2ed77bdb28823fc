"""Recipes of open questions and of retrieval select what they are about."""

import pytest

from opql_jax.recipes.open_questions import split_fifths
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


# A separator of lines in Unicode, which is none in JSON Lines.
LINES = [f'{{"id": {i}, "question": "a\u2028b"}}\n'.encode() for i in range(11)]


@pytest.mark.parametrize('seed', range(7))
def test_every_fifth_line_is_for_evaluation_which_one_is_drawn_by_the_seed(seed, tmp_path):
    (tmp_path / 'questions.jsonl').write_bytes(b''.join(LINES))
    split_fifths(str(tmp_path / 'questions.jsonl'), str(tmp_path), seed)
    dev, train = ((tmp_path / f'{name}.jsonl').read_bytes() for name in ('dev', 'train'))
    assert dev == b''.join(line for number, line in enumerate(LINES, 1) if number % 5 == seed % 5)
    assert train == b''.join(line for line in LINES if line not in dev)
