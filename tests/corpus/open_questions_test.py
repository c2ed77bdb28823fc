"""Files of open questions."""

import json

import pytest

from opql_jax.corpus.documents import CorpusError
from opql_jax.corpus.entities import EntityVocab
from opql_jax.corpus.open_questions import OpenQuestion, read_open_questions, write_open_questions

# The third key is the first one's name.
VOCAB = EntityVocab(
    ['Q1', 'Q2', 'Rome', 'Q4', 'Café Élan'],
    ['Rome', 'Ann Low', 'Rome (film)', 'Bergen', 'Café Élan'],
    [['Roma'], [], [], ['Bjørgvin'], []],
)
RECORD = {'id': 'q', 'question': 'who left Bergen?', 'mentions': [[9, 15]], 'answers': ['Ann Low']}


@pytest.fixture
def file(tmp_path):
    """Writes a text, or a list as JSON Lines, and gives its path."""

    def file(value):
        text = value if isinstance(value, str) else ''.join(json.dumps(line) + '\n' for line in value)
        (tmp_path / 'q.jsonl').write_text(text, encoding='utf-8')
        return tmp_path / 'q.jsonl'

    return file


def test_a_line_becomes_a_question_with_its_mentions_in_code_points(file):
    text = '🎬🎬 did the Café Élan of Ann Low leave Bergen?'
    record = {
        'id': 7,
        'question': text,
        'mentions': [[11, 20], [24, 31], [38, 44]],
        'entities': ['Café Élan', None, 'Nowhere'],
        'answers': ['Rome', 'Bob', 'Roma', 'Rome', 'Bjørgvin', 'Bob'],
        'hops': 2,
        'type': 'composition',
    }
    (question,) = read_open_questions(file([record]), VOCAB)
    assert [text[start:end] for start, end in question.mentions] == ['Café Élan', 'Ann Low', 'Bergen']
    # 'Rome' is a key, though another entity is called so too.
    mentions, unknown = ((11, 20), (24, 31), (38, 44)), ['Bob']
    assert question == OpenQuestion('7', text, mentions, (4, -1, -1), [2, 0, 3], unknown, 2, 'composition')


def test_entities_hops_and_type_may_be_missing(file):
    (question,) = read_open_questions(file(json.dumps(RECORD) + '\n\n'), VOCAB)
    assert question == OpenQuestion('q', 'who left Bergen?', ((9, 15),), (-1,), [1], [], 1, '')


def test_what_is_written_is_read_again(file, tmp_path):
    records = [
        {
            **RECORD,
            'question': 'who left\u2028Bergen?',
            'entities': ['Q4'],
            'answers': ['Q2', 'Tom'],
            'hops': 3,
            'type': 'x',
        },
        {**RECORD, 'id': 'r', 'question': '🇳🇴 Bjørgvin', 'mentions': [[3, 11]], 'entities': [None], 'answers': []},
    ]
    write_open_questions(tmp_path / 'new' / 'q.jsonl', records)
    first, second = read_open_questions(tmp_path / 'new' / 'q.jsonl', VOCAB)
    assert first == OpenQuestion('q', 'who left\u2028Bergen?', ((9, 15),), (3,), [1], ['Tom'], 3, 'x')
    assert second == OpenQuestion('r', '🇳🇴 Bjørgvin', ((3, 11),), (-1,), [], [], 1, '')


def bad(**rows):
    params = [pytest.param(*row, id=name.replace('_', ' ')) for name, row in rows.items()]
    return pytest.mark.parametrize('change, said', params)


@bad(
    no_id=({'id': None}, 'id: expected a string that is not blank, found None'),
    repeated_id=({}, "id: 'q' is already that of line 1"),
    blank_question=({'question': ' '}, 'question: expected a string'),
    half_a_code_point=({'question': 'who left Bergen\ud83c'}, 'question: code point 15 is half of a surrogate pair'),
    no_mention=({'mentions': []}, 'mentions: expected a list of at least one'),
    half_a_span=({'mentions': [[9]]}, r'mentions\[0\]: expected \[start, end\] in code points, found \[9\]'),
    a_span_of_words=({'mentions': [[True, 2]]}, r'mentions\[0\]: expected \[start, end\]'),
    a_span_past_the_end=({'mentions': [[9, 17]]}, r'mentions\[0\]: \[9, 17\) marks no text in a question of 16 code points'),
    an_empty_span=({'mentions': [[9, 9]]}, r'mentions\[0\]: \[9, 9\) marks no text'),
    a_blank_span=({'mentions': [[8, 9]]}, r'mentions\[0\]: \[8, 9\) marks no text'),
    overlapping_spans=({'mentions': [[4, 10], [9, 15]]}, r'mentions\[1\]: \[9, 15\) begins before mentions\[0\] ends'),
    spans_out_of_order=({'mentions': [[9, 15], [4, 8]]}, r'mentions\[1\]: \[4, 8\) begins before mentions\[0\] ends'),
    too_few_entities=({'entities': []}, 'entities: 0 of 1 mentions'),
    entities_by_id=({'entities': [5]}, r'entities\[0\]: expected a string that is not blank, found 5'),
    answers_as_text=({'answers': 'Ann Low'}, "answers: expected a list, found 'Ann Low'"),
    an_answer_without_a_name=({'answers': ['Bob', None]}, r'answers\[1\]: expected a string'),
    no_hop=({'hops': 0}, 'hops: expected a whole number of at least 1, found 0'),
    half_a_hop=({'hops': 1.5}, 'hops: expected a whole number of at least 1, found 1.5'),
    type_as_a_number=({'type': 3}, 'type: expected a string'),
)
def test_errors_name_file_line_and_field(file, change, said):
    path = file([RECORD, {**RECORD, 'id': 'r', **change} if change else RECORD])
    with pytest.raises(CorpusError, match=rf'q\.jsonl:2: {said}'):
        read_open_questions(path, VOCAB)


@pytest.mark.parametrize('field', ['id', 'question', 'mentions', 'answers'])
def test_a_missing_field_is_named(file, field):
    path = file([{name: value for name, value in RECORD.items() if name != field}])
    with pytest.raises(CorpusError, match=rf'q\.jsonl:1: {field}: missing'):
        read_open_questions(path, VOCAB)


def test_files_that_hold_no_question_are_errors(file, tmp_path):
    for text, said in (
        ('\n', r'q\.jsonl: no question'),
        ('[1]\n', ':1: expected a JSON object, found list'),
        ('{\n', ':1: not a JSON'),
    ):
        with pytest.raises(CorpusError, match=said):
            read_open_questions(file(text), VOCAB)
    (tmp_path / 'latin.jsonl').write_bytes(b'\n"\xe9"\n')
    with pytest.raises(CorpusError, match=r'latin\.jsonl:2: not a JSON value in UTF-8'):
        read_open_questions(tmp_path / 'latin.jsonl', VOCAB)
    with pytest.raises(CorpusError, match=r'none\.jsonl: cannot be read'):
        read_open_questions(tmp_path / 'none.jsonl', VOCAB)


def test_a_bad_record_is_not_written(tmp_path):
    with pytest.raises(CorpusError, match=r'q\.jsonl: record 2: answers: missing'):
        write_open_questions(tmp_path / 'q.jsonl', [RECORD, {'id': 'r', 'question': 'x', 'mentions': [[0, 1]]}])
    assert not list(tmp_path.iterdir())
