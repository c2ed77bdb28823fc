"""Retrieval is scored by the documents that support questions."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.kb.text.index_text import index_text
from opql_jax.kb.trained.evaluate_retrieval import Asked, evaluate_retrieval, scores

from trios import TRIOS

TEXTS = {
    'a': 'Ada died in London.',
    'b': 'Byron died.',
    'c': 'Beer.',
    'd': '',
    'e': '',
    'f': 'nothing',
}


def test_recall_and_answers_are_counted():
    asked = [Asked('?', frozenset('ab'), ('LONDON', 'x')), Asked('?', frozenset('abf'), ('beer',))]
    found = scores(asked, [['a', 'c', 'b', 'd', 'e'], ['b', 'a', 'd', 'e', 'f']], TEXTS)
    assert found == {
        'recall@2': pytest.approx((1 / 2 + 2 / 3) / 2),
        'recall@5': 1.0,
        'answer@5': 0.5,
        'by_supporting': {
            '2': {'recall@2': 0.5, 'recall@5': 1.0, 'answer@5': 1.0, 'questions': 1},
            '3': {
                'recall@2': pytest.approx(2 / 3),
                'recall@5': 1.0,
                'answer@5': 0.0,
                'questions': 1,
            },
        },
        'questions': 2,
    }


@pytest.mark.parametrize(
    'answer, text, stated',
    [
        ('no', 'Nothing that we know.', False),
        ('No', 'She said no.', True),
        ('Act I', 'In act II he dies.', False),
        ('U.S.', 'The U.S. Senate', True),
        ('$5', 'It cost $50.', False),
        ('Straße', 'STRASSE', True),
    ],
)
def test_an_answer_stands_in_a_text_in_whole_words(answer, text, stated):
    assert (
        scores([Asked('?', frozenset('a'), (answer,))], [['a']], {'a': text})['answer@5'] == stated
    )


@pytest.fixture(scope='module')
def kb(tmp_path_factory):
    folder = tmp_path_factory.mktemp('engine')
    lines = [
        {'id': name, 'title': name, 'text': text}
        for name, text in TRIOS['engine'].documents.items()
    ]
    (folder / 'documents.jsonl').write_text('\n'.join(map(json.dumps, lines)))
    index_text([folder / 'documents.jsonl'], folder / 'kb', processes=1)
    return folder / 'kb'


def ask(folder, *records):
    (folder / 'questions.jsonl').write_text('\n'.join(map(json.dumps, records)))
    return folder / 'questions.jsonl'


def test_a_knowledge_base_is_scored_beside_what_it_is_compared_with(kb, tmp_path, capsys):
    names = list(TRIOS['engine'].documents)
    record = {
        'question': TRIOS['engine'].asked[0].question,
        'supporting': names,
        'answer': 'no such answer',
        'aliases': [],
    }
    metrics = evaluate_retrieval(kb, ask(tmp_path, record), tmp_path / 'results')
    assert 'opql retrieve' in metrics and len(metrics) == 7
    for row in metrics.values():
        assert (row['recall@2'], row['recall@5'], row['answer@5'], row['questions']) == (
            pytest.approx(2 / 3),
            1.0,
            0.0,
            1,
        )
        assert row['ms_per_question'] > 0
    assert json.loads((tmp_path / 'results/metrics.json').read_text()) == metrics
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ['recall@2', 'recall@5', 'answer@5', 'ms_per_question']
    assert [line.split()[-4:-1] for line in lines] == [['0.6667', '1.0000', '0.0000']] * 7


@pytest.mark.parametrize(
    'record, message',
    [
        (
            {'question': 'Who?', 'supporting': ['nowhere'], 'answer': 'a'},
            'the document nowhere supports a question',
        ),
        ({'question': 'Who?', 'supporting': [], 'answer': 'a'}, 'supporting: empty'),
        (
            {'question': 'Who?', 'supporting': 'a', 'answer': 'a'},
            'supporting: expected a list of strings',
        ),
        ({'question': 'Who?', 'supporting': ['a']}, 'answer: expected a string'),
        ([], 'expected a JSON object'),
    ],
)
def test_questions_that_cannot_be_scored_are_told(kb, tmp_path, record, message):
    with pytest.raises(InputError, match=message):
        evaluate_retrieval(kb, ask(tmp_path, record), tmp_path / 'results')
