"""Answers to a file of plain questions are scored, together and by the hops that they take."""

import pytest

from opql_jax.kb.trained.evaluate_questions import evaluate_questions

import records


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
