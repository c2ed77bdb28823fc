"""Retrieval is scored by the documents that support questions."""

import json

import pytest

from opql_jax.kb.trained.evaluate_questions import evaluate_questions
from opql_jax.kb.trained.evaluate_retrieval import Asked, evaluate_retrieval, scores

import records
from examples import table
from trios import TRIOS

TEXTS = {'a': 'Ada died in London.', 'b': 'Byron died.', 'c': 'Beer.', 'd': '', 'e': ''}
TEXTS['f'] = 'nothing'


def test_recall_and_answers_are_counted():
    asked = [Asked('?', frozenset('ab'), ('LONDON', 'x')), Asked('?', frozenset('abf'), ('beer',))]
    found = scores(asked, [['a', 'c', 'b', 'd', 'e'], ['b', 'a', 'd', 'e', 'f']], TEXTS)
    score = lambda twos, answers, questions: {
        'recall@2': pytest.approx(twos),
        'recall@5': 1.0,
        'answer@5': answers,
        'questions': questions,
    }
    by_supporting = {'2': score(1 / 2, 1.0, 1), '3': score(2 / 3, 0.0, 1)}
    assert found == score((1 / 2 + 2 / 3) / 2, 0.5, 2) | {'by_supporting': by_supporting}


@table("""
    answer | text | stated
    no | Nothing that we know. | 0
    No | She said no. | 1
    U.S. | The U.S. Senate | 1
    $5 | It cost $50. | 0
    Straße | STRASSE | 1
""")
def test_an_answer_stands_in_a_text_in_whole_words(answer, text, stated):
    asked = Asked('?', frozenset('a'), (answer,))
    assert scores([asked], [['a']], {'a': text})['answer@5'] == int(stated)


@pytest.fixture(scope='module')
def kb(index):
    return index(TRIOS['engine'].documents)


def test_a_knowledge_base_is_scored_beside_what_it_is_compared_with(kb, tmp_path, capsys):
    names = list(TRIOS['engine'].documents)
    record = {'question': TRIOS['engine'].asked[0].question, 'supporting': names, 'aliases': []}
    record['answer'] = 'no such answer'
    file = records.write(tmp_path / 'q.jsonl', [record])
    metrics = evaluate_retrieval(kb, file, tmp_path / 'results')
    assert 'opql retrieve' in metrics and len(metrics) == 7
    for row in metrics.values():
        assert row['recall@2'] == pytest.approx(2 / 3) and row['recall@5'] == 1
        assert row['answer@5'] == 0 and row['questions'] == 1 and row['ms_per_question'] > 0
    assert json.loads((tmp_path / 'results/metrics.json').read_text()) == metrics
    assert capsys.readouterr().out.count('0.6667') == 7


def test_questions_are_scored_together_and_by_hops(films_kb, tmp_path):
    line = {'id': 1, 'question': 'Who directed Night Ferry?', 'answers': ['ingrid  SOLBERG']}
    lines = [line | {'hops': 1}, line | {'id': 2, 'answers': ['Graz'], 'hops': 1}]
    unknown = {'question': 'Who directed The Zorblax Affair?', 'answers': ['Graz'], 'hops': 2}
    lines += [unknown | {'id': 3}]
    evaluation = evaluate_questions(films_kb, records.write(tmp_path / 'q.jsonl', lines))
    scores = evaluation.scores()
    counts = {name: (row['questions'], row['unanswered']) for name, row in scores.items()}
    assert counts == {'1 hop': (2, 0), '2 hops': (1, 1), 'all': (3, 1)}
    for name, share in {'1 hop': 1 / 2, '2 hops': 0, 'all': 1 / 3}.items():
        assert scores[name]['hits@1'] == scores[name]['hits@5'] == pytest.approx(share)
    record = evaluation.to_record(most=1)
    assert [one['answers'] for one in record['right']] == [('ingrid  SOLBERG',)]
    assert [one['answers'] for one in record['wrong']] == [('Graz',)]
    assert 'The Zorblax Affair' in evaluation.to_text(most=3)
