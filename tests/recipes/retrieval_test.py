"""The recipe of retrieval runs for real on a few documents, and selects text that supports its
questions.
"""

import json
import pathlib

import pytest

from opql_jax.recipes import catalog, recipe, record
from opql_jax.recipes.__main__ import main as recipes_main
from opql_jax.recipes.options import Options
from opql_jax.recipes.retrieval import select

from trios import TRIOS


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(map(json.dumps, records)), encoding='utf-8')


@pytest.fixture
def data(tmp_path):
    documents, questions = [], []
    for name, trio in TRIOS.items():
        ids = [f'{name}-{place}' for place in range(len(trio.documents))]
        for key, (title, text) in zip(ids, trio.documents.items()):
            documents.append({'id': key, 'title': title, 'text': text})
        for question, answer, _ in trio.asked:
            record = {'id': question, 'question': question, 'answer': answer, 'aliases': []}
            questions.append(record | {'supporting': ids[:2]})
    write(tmp_path / 'data/multihop/musique_corpus.jsonl', documents)
    write(tmp_path / 'data/multihop/musique_questions.jsonl', questions)
    return tmp_path / 'data'


def test_the_recipe_ends_with_scores_and_is_then_done(data, tmp_path, capsys):
    options = Options(tmp_path / 'out', data, percent=20.0)
    row = 'musique-untitled'
    where = ['--out', str(options.out), '--data', str(data)]
    recipes_main(['run', f'retrieval/{row}', *where, '--percent', '20'])
    steps = catalog.find(f'retrieval/{row}').steps(options)
    metrics = json.loads((options.out / f'results/{row}/metrics.json').read_text())
    (step,) = [step for step in steps if step.name == f'results/{row}']
    assert record.read(recipe.run_json_of(step, options.out))['metrics'] == metrics
    rankings = 'BM25, dense, BM25 + dense, graph, without following links, without relations'
    assert metrics.keys() == {*rankings.split(', '), 'opql retrieve'}
    assert metrics['opql retrieve']['questions'] == 4 and metrics['opql retrieve']['recall@5'] > 0.5
    for line in (options.out / f'text-{row}/documents.jsonl').read_text().splitlines():
        assert json.loads(line).keys() == {'id', 'text'}
    assert 'opql retrieve' in capsys.readouterr().out
    assert {recipe.state_of(step, steps, options.out) for step in steps} == {'done'}


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
