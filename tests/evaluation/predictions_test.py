"""Prediction files: written in chunks and by several processes, resumed and refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opql_jax.evaluation import predictions
from opql_jax.evaluation.predictions import PredictionError
from opql_jax.kb.trained.question_sets import write_answers

from examples import table
from graph_kb import NAMES, QUESTIONS, VOCAB, ring
from records import read

CHUNKS = [QUESTIONS[:4], QUESTIONS[4:8], QUESTIONS[8:]]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(predictions, 'CHUNK', 4)


def write_parts(path, whole, numbers):
    lines, folder = whole.splitlines(keepends=True), path.with_name(path.name + '.parts')
    for number in numbers:
        folder.mkdir(exist_ok=True)
        chunk = b''.join(lines[4 * number : 4 * number + 4])
        (folder / f'{number:05d}-of-00003.jsonl').write_bytes(chunk)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp('whole') / 'out.jsonl'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, 'CHUNK', 1000)
        write_answers(ring(), QUESTIONS, path)
    return path.read_bytes()


def test_every_question_gets_a_line_in_order(tmp_path, whole):
    path = tmp_path / 'a' / 'out.jsonl'
    assert write_answers(ring(), QUESTIONS, path) == len(QUESTIONS)
    assert path.read_bytes() == whole and [p.name for p in path.parent.iterdir()] == ['out.jsonl']
    records = read(path)
    assert [r['id'] for r in records] == [q.id for q in QUESTIONS]
    first = records[0]  # 0 -> 1, 3 -> 2, 4 and 4, 6
    assert first['hops'] == 2 and [len(hops) for hops in first['traces']] == [2]
    hop, last = first['traces'][0]
    assert first['answers'] == [
        {'entity': NAMES[e], 'key': VOCAB.keys[e], 'weight': w}
        for e, w in ((4, 0.5), (2, 0.25), (6, 0.25))
    ]
    assert last['entities'] == [answer['key'] for answer in first['answers']]
    assert [fact['target'] for fact in hop['evidence']] == [NAMES[1], NAMES[3]]
    assert records[-1]['answers'] == [] and 'not in the entity vocabulary' in records[-1]['error']
    assert not any('error' in record for record in records[:-1])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=st.sets(st.integers(0, 2)), hidden=st.booleans())
def test_whatever_chunks_are_there_the_rest_is_answered_to_the_same_bytes_and_once(
    tmp_path, whole, kept, hidden
):
    path = tmp_path / 'out.jsonl'
    path.unlink(missing_ok=True)
    write_parts(path, whole, kept)
    if hidden:  # what a killed run was writing
        (tmp_path / 'out.jsonl.parts').mkdir(exist_ok=True)
        (tmp_path / 'out.jsonl.parts' / '.00001-of-00003.jsonl.17.partial').write_bytes(whole[:50])
    kb, missing = ring(), sum(len(CHUNKS[i]) for i in {0, 1, 2} - kept)
    assert write_answers(kb, QUESTIONS, path) == kb.answered == missing
    assert write_answers(kb, QUESTIONS, path) == 0
    assert path.read_bytes() == whole and [p.name for p in tmp_path.iterdir()] == ['out.jsonl']


def test_chunks_of_other_questions_are_refused(tmp_path, whole):
    path = tmp_path / 'out.jsonl'
    write_parts(path, whole, {0, 2})
    message = 'parts/00000-of-00003.jsonl is of other questions: delete .*out.jsonl.parts to answer'
    with pytest.raises(PredictionError, match=message):
        write_answers(ring(), QUESTIONS[:3], path)
    assert len(list((tmp_path / 'out.jsonl.parts').iterdir())) == 2


@pytest.mark.parametrize('where', ['out.jsonl', r'out.jsonl.parts/00000-of-00003.jsonl'])
@pytest.mark.parametrize(
    'change', [dict(kb=ring(identity='another model')), dict(evidence=1)], ids=['model', 'evidence']
)
def test_lines_of_another_model_or_setting_are_refused(tmp_path, whole, where, change):
    path = tmp_path / 'out.jsonl'
    path.write_bytes(whole) if where == 'out.jsonl' else write_parts(path, whole, {0, 1, 2})
    before = {path: path.read_bytes() for path in tmp_path.rglob('*.jsonl')}
    options = dict(kb=ring()) | change
    with pytest.raises(PredictionError, match=f'{where}, line 1 comes from another model, memory'):
        write_answers(questions=QUESTIONS, output=path, **options)
    assert {path: path.read_bytes() for path in tmp_path.rglob('*.jsonl')} == before


@table("""
    what | line
    no JSON | answers: none
    answers without weight | {"id": "1", "question": "?", "answers": [{"entity": "plain"}]}
    no number | {"id": "1", "question": "?", "answers": [{"entity": "a", "weight": NaN}]}
    a list for an id | {"id": ["1"], "question": "?", "answers": []}
""")
def test_a_damaged_line_is_named(tmp_path, whole, what, line):
    lines = whole.decode().split('\n')
    lines[3] = line
    (tmp_path / 'out.jsonl').write_text('\n'.join(lines), encoding='utf-8')
    with pytest.raises(PredictionError, match='out.jsonl, line 4: not a prediction'):
        predictions.read_predictions(tmp_path / 'out.jsonl')


@pytest.mark.parametrize('weight', [float('nan'), float('inf')])
def test_an_answer_that_is_not_finite_is_refused_with_its_question_and_not_written(
    tmp_path, weight
):
    def answer(chunk):
        for number, question in enumerate(chunk):
            answer = {'entity': 'plain', 'weight': weight if number == 2 else 0.5}
            yield {'id': question.id, 'answers': [answer]}

    message = f'question {QUESTIONS[2].id}: its answer has a number that is not finite'
    with pytest.raises(PredictionError, match=message):
        predictions.write_predictions(tmp_path / 'out.jsonl', QUESTIONS, 'x', answer)
    assert not list(tmp_path.rglob('*.*jsonl'))
