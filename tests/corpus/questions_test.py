"""Question files: what a record may hold, what is written and read back, and what is refused."""

import json

import pytest

from opql_jax.core.errors import InputError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.questions import (
    Question,
    bracketed,
    parse_bracketed,
    read_questions,
    to_record,
    write_questions,
)

# The third key is the first one's name.
VOCAB = EntityVocab(
    ['Q1', 'Q2', 'Rome', 'Q4', 'Café Élan'],
    ['Rome', 'Ann Low', 'Rome (film)', 'Bergen', 'Café Élan'],
    [['Roma'], [], [], ['Bjørgvin'], []],
)
RECORD = {'id': 'q', 'question': 'who left Bergen?', 'topics': [[9, 15]], 'answers': ['Ann Low']}


@pytest.fixture
def file(tmp_path):
    def file(value):
        text = value if isinstance(value, str) else '\n'.join(map(json.dumps, value))
        (tmp_path / 'q.jsonl').write_text(text, encoding='utf-8')
        return tmp_path / 'q.jsonl'

    return file


def test_a_line_becomes_a_question_with_its_topics_in_code_points(file):
    text = '🎬🎬 did the Café Élan of Ann Low leave Bergen?'
    record = {
        'id': 7, 'question': text, 'hops': 2, 'type': 'composition', 'via': [['Roma', 'Nobody']],
        'topics': [[11, 20], [24, 31], [38, 44]], 'entities': ['Café Élan', None, 'Nowhere'],
        'answers': ['Rome', 'Bob', 'Roma', 'Rome', 'Bjørgvin', 'Bob'],
    }  # fmt: skip
    (question,) = read_questions(file([record]), VOCAB)
    assert [text[start:end] for start, end in question.topics] == ['Café Élan', 'Ann Low', 'Bergen']
    # 'Rome' is a key, though another entity is called so too.
    topics, via = ((11, 20), (24, 31), (38, 44)), ((0, -1),)
    assert question == Question(
        '7', text, topics, (4, -1, -1), (2, 0, 3), ('Bob',), 2, 'composition', via
    )
    assert (question.topic, question.topic_entity) == ((11, 20), 4)


def test_without_topics_the_names_in_the_text_are_the_topics(file):
    record = {'id': 'q', 'question': 'did Ann Low leave Bjørgvin?'}
    (question,) = read_questions(file([record]), VOCAB)
    assert (question.topics, question.entities) == (((4, 11), (18, 26)), (1, 3))
    for text in ('did Ann Lower leave?', 'who?'):
        said = r'q\.jsonl:1: topics: missing, and the text mentions no name'
        with pytest.raises(InputError, match=said):
            read_questions(file([{**record, 'question': text}]), VOCAB)


def test_a_question_is_the_same_after_its_record(tmp_path):
    known = ((9, 13),), (0,), (2, 1), ('Tom',), 3, 'x', ((3,), (0, -1))
    questions = [
        Question('q', 'who left\u2028Rome', *known),
        Question('r', 'who left Ann for 🇳🇴 Bob', ((9, 12), (20, 23)), (-1, -1)),
    ]
    write_questions(tmp_path / 'new' / 'q.jsonl', (to_record(q, VOCAB) for q in questions))
    assert read_questions(tmp_path / 'new' / 'q.jsonl', VOCAB) == questions


def test_topics_are_shown_in_brackets():
    question = Question('q', 'did [REC] please Bob', ((4, 9), (17, 20)), (-1, -1))
    assert bracketed(question) == 'did [[REC]] please [Bob]'
    assert parse_bracketed('did [[REC]] please') == ('did [REC] please', (4, 9))
    partner = 'a bracket without its partner'
    for marked, reason in (('Up', 'has no topic'), (']Up[', partner), ('[ ]', 'is empty')):
        with pytest.raises(InputError, match=reason):
            parse_bracketed(marked)


@pytest.mark.parametrize(
    'change, message',
    [
        ({}, "id: 'q' is already that of line 1"),
        ({'question': 'who left Bergen\ud83c'}, 'question: code point 15 is half a surrogate pair'),
        ({'topics': [[9]]}, r'topics\[0\]: expected \[start, end\], found \[9\]'),
        ({'topics': [[9, 17]]}, r'topics\[0\]: \[9, 17\) marks no text of the question'),
        ({'topics': [[4, 10], [9, 15]]},
            r'topics\[1\]: \[9, 15\) begins before the one before ends'),
        ({'via': [['Q1']]}, 'via: expected a list for each of 0 hops'),
        ({'hops': 2, 'via': [[]]}, r'via\[0\]: no entity'),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_field(file, change, message):
    path = file([RECORD, {**RECORD, 'id': 'r', **change} if change else RECORD])
    with pytest.raises(InputError, match=rf'q\.jsonl:2: {message}'):
        read_questions(path, VOCAB)


def test_a_bad_record_is_not_written(tmp_path):
    with pytest.raises(InputError, match=r'q\.jsonl: record 2: question: missing'):
        write_questions(tmp_path / 'q.jsonl', [RECORD, {'id': 'r', 'topics': [[0, 1]]}])
    assert not list(tmp_path.iterdir())
