"""Answers to a file of plain questions are scored, together and by the hops that they take."""

import pytest

from opql_jax.kb.trained.evaluate_questions import evaluate_questions

import records


def test_questions_are_scored_together_and_by_hops(films_kb, tmp_path):
    rows = [
        ('Who directed Night Ferry?', ['ingrid  SOLBERG'], 1),
        ('Who directed Night Ferry?', ['Graz'], 1),
        ('Who directed The Zorblax Affair?', ['Graz'], 2),
    ]
    lines = [
        {'id': number, 'question': text, 'answers': answers, 'hops': hops}
        for number, (text, answers, hops) in enumerate(rows)
    ]
    evaluation = evaluate_questions(films_kb, records.write(tmp_path / 'q.jsonl', lines))
    score = lambda questions, unanswered, share: {
        'questions': questions,
        'unanswered': unanswered,
        'hits@1': pytest.approx(share),
        'hits@5': pytest.approx(share),
    }
    assert evaluation.scores() == {
        '1 hop': score(2, 0, 1 / 2),
        '2 hops': score(1, 1, 0),
        'all': score(3, 1, 1 / 3),
    }
    record = evaluation.to_record(most=1)
    assert [one['answers'] for one in record['right']] == [('ingrid  SOLBERG',)]
    assert [one['answers'] for one in record['wrong']] == [('Graz',)]
    assert 'The Zorblax Affair' in evaluation.to_text(most=3)
